// The errors of the pointwise functions on the CPU, in units of the last place of the correctly rounded value, which
// long double has: at random numbers of all sizes and at the special values, whose results are C's and the array API's.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "freight/ops/ops.h"

namespace freight::test {
namespace {

using Long = long double;
constexpr double kAllowed = 4;

template <class T>
std::vector<T> special_values() {
  using L = std::numeric_limits<T>;
  return {0, L::infinity(), L::quiet_NaN(), 1, 2, T(0.5), L::max(), L::min(), T(-90)};
}

// Random numbers of all sizes, and of those where functions change; behind them the special values of either sign, each
// beside each of partners().
template <class T>
std::vector<T> samples(size_t n, unsigned seed) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  std::mt19937_64 random(seed);
  std::vector<T> all;
  std::uniform_real_distribution<T> near(-4, 4), unit(-1, 1);
  for (size_t i = 0; i < n; ++i) {
    all.push_back(i % 4 == 0   ? std::bit_cast<T>(static_cast<Bits>(random()))
                  : i % 4 == 1 ? unit(random)
                  : i % 4 == 2 ? 1 + unit(random) / static_cast<T>(1 << random() % 20)
                               : near(random) * static_cast<T>(1 << random() % 5));
  }
  const std::vector<T> special = special_values<T>();
  for (const T a : special) {
    for (size_t k = 0; k < 4 * special.size(); ++k) all.push_back(k % 2 ? -a : a);
  }
  return all;
}
template <class T>
std::vector<T> partners(size_t n, unsigned seed) {
  std::vector<T> all = samples<T>(n, seed);
  const std::vector<T> special = special_values<T>();
  for (size_t i = n; i < all.size(); ++i) {
    const size_t k = (i - n) % (4 * special.size());
    all[i] = k / 2 % 2 ? -special[k / 4] : special[k / 4];
  }
  return all;
}

// Kernels take such numbers for 0 (base/threads.h).
template <class T>
bool is_subnormal(Long v) {
  return v != 0 && std::fabs(v) < static_cast<Long>(std::numeric_limits<T>::min());
}

template <class T>
double error_in_places(T got, Long exact) {
  const T rounded = static_cast<T>(exact);
  if (std::isnan(rounded)) return std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(rounded) || rounded == 0) {
    if (got == rounded && std::signbit(got) == std::signbit(rounded)) return 0;
    if (rounded == 0 && exact == 0) return INFINITY;
  }
  if (std::isnan(got)) return INFINITY;
  if (std::isinf(got) != std::isinf(rounded)) {  // one rounding beyond the largest number
    return std::fabs(exact) > 0.999999L * std::numeric_limits<T>::max() ? 1 : INFINITY;
  }
  const T size = std::fmax(std::fabs(rounded), std::numeric_limits<T>::min());
  const Long place = static_cast<Long>(std::nextafter(size, std::numeric_limits<T>::infinity())) - size;
  return static_cast<double>(std::fabs(static_cast<Long>(got) - exact) / place);
}

struct Function {
  const char* name;
  Tensor (*unary)(const In&);
  Tensor (*binary)(const In&, const In&);
  Long (*exact)(Long, Long);
};
#define UNARY(name)                                                         \
  Function {                                                                \
#name, name, nullptr, [](Long a, Long) -> Long { return std::name(a); } \
  }
#define BINARY(name)                                                             \
  Function {                                                                     \
#name, nullptr, name, [](Long a, Long b) -> Long { return std::name(a, b); } \
  }
const Function kFunctions[] = {
    UNARY(exp),
    UNARY(expm1),
    UNARY(log),
    UNARY(log1p),
    UNARY(log2),
    UNARY(log10),
    UNARY(sqrt),
    UNARY(sin),
    UNARY(cos),
    UNARY(tan),
    UNARY(sinh),
    UNARY(cosh),
    UNARY(tanh),
    UNARY(asin),
    UNARY(acos),
    UNARY(atan),
    UNARY(asinh),
    UNARY(acosh),
    UNARY(atanh),
    UNARY(trunc),
    UNARY(floor),
    UNARY(ceil),
    BINARY(atan2),
    BINARY(hypot),
    BINARY(copysign),
    BINARY(pow),
    BINARY(fmod),
    {"logaddexp", nullptr, logaddexp,
     [](Long a, Long b) -> Long {
       if (a == b) return a + 0.693147180559945309417232121458176568L;
       return std::isnan(a) || std::isnan(b) ? NAN : std::fmax(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
     }},
};

template <class T>
void check(const Function& f) {
  constexpr size_t kCount = 40000;
  const std::vector<T> a = samples<T>(kCount, 1), b = partners<T>(kCount, 2);
  const auto n = static_cast<int64_t>(a.size());
  const Tensor x = Tensor::of<T>(a, {n}), y = Tensor::of<T>(b, {n});
  const std::vector<T> got = (f.unary ? f.unary(x) : f.binary(x, y)).template to_vector<T>();
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    // ln(exp(a) + exp(b)) crosses 0: long double itself has few digits there.
    const Long exact = f.exact(a[i], b[i]);
    if (is_subnormal<T>(a[i]) || is_subnormal<T>(b[i]) || is_subnormal<T>(exact)) continue;
    if (std::string(f.name) == "logaddexp" && std::fabs(exact) < 0x1p-8L * std::fabs(static_cast<Long>(a[i]))) continue;
    const double error = error_in_places(got[i], exact);
    if (error > worst) worst = error, at = i;
  }
  EXPECT_LE(worst, kAllowed) << f.name << "(" << a[at] << ", " << b[at] << ") is " << got[at] << ", expected "
                             << static_cast<double>(f.exact(a[at], b[at]));
  ::testing::Test::RecordProperty(std::string(f.name) + (sizeof(T) == 4 ? "_f32" : "_f64"), std::to_string(worst));
}

TEST(PointwiseAccuracy, IsWithinFourUnitsOfTheLastPlace) {
  const DeviceScope on("cpu");
  for (const Function& f : kFunctions) {
    check<float>(f);
    check<double>(f);
  }
}

TEST(PointwiseAccuracy, NextafterIsThatOfTheElementType) {
  for (const char* device : {"ref", "cpu"}) {
    const DeviceScope on(device);
    const std::vector<float> a = {1, 2, -1, INFINITY, 3}, b = {2, -1, -1, 0, NAN};
    const std::vector<float> got = nextafter(Tensor::of<float>(a, {5}), Tensor::of<float>(b, {5})).to_vector<float>();
    const std::vector<double> wide = nextafter(Tensor::of<double>({1}, {1}), 2.0).to_vector<double>();
    for (size_t i = 0; i + 1 < a.size(); ++i) EXPECT_EQ(got[i], std::nextafter(a[i], b[i])) << device << " " << i;
    EXPECT_TRUE(std::isnan(got[4])) << device;
    EXPECT_EQ(wide[0], std::nextafter(1.0, 2.0)) << device;
  }
}

TEST(PointwiseAccuracy, FloorDivisionRoundsDownAndTreatsSpecialValuesAsTheStandardSays) {
  const float inf = INFINITY, nan = NAN;
  const std::vector<float> a = {7, -7, 7, -7, 1, 0.0f, -0.0f, 5, -5, 5, -5, inf, 0, nan, 3, 1e30f, -0.5f};
  const std::vector<float> b = {2, 2, -2, -2, 0.1f, 3, 3, inf, inf, 0, 0, 2, 0, 1, nan, 7, 2};
  const std::vector<float> expected = {3,   -4,   -4,  3,   9,   0.0f, -0.0f,         0, -0.0f,
                                       inf, -inf, inf, nan, nan, nan,  1.4285715e29f, -1};
  for (const char* device : {"ref", "cpu"}) {
    const DeviceScope on(device);
    const std::vector<float> got =
        floor_divide(Tensor::of<float>(a, {17}), Tensor::of<float>(b, {17})).to_vector<float>();
    for (size_t i = 0; i < a.size(); ++i) {
      const bool same =
          std::isnan(expected[i]) ? std::isnan(got[i]) : error_in_places(got[i], static_cast<Long>(expected[i])) <= 1;
      EXPECT_TRUE(same) << device << ": " << a[i] << " // " << b[i] << " is " << got[i] << ", expected " << expected[i];
    }
    const Tensor whole =
        floor_divide(Tensor::of<int32_t>({7, -7, 7, -7, 6}, {5}), Tensor::of<int32_t>({2, 2, -2, -2, 3}, {5}));
    EXPECT_EQ(whole.to_vector<int32_t>(), (std::vector<int32_t>{3, -4, -4, 3, 2})) << device;
  }
}

TEST(PointwiseAccuracy, PredicatesOfSpecialValues) {
  for (const char* device : {"ref", "cpu"}) {
    const DeviceScope on(device);
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      const Tensor x = cast(Tensor::of<float>({1, -0.0f, -2, INFINITY, -INFINITY, NAN, -NAN}, {7}), dtype);
      const auto truths = [](const Tensor& t) { return cast(t, DType::i32).to_vector<int32_t>(); };
      EXPECT_EQ(truths(is_inf(x)), (std::vector<int32_t>{0, 0, 0, 1, 1, 0, 0})) << device << " " << dtype;
      EXPECT_EQ(truths(is_nan(x)), (std::vector<int32_t>{0, 0, 0, 0, 0, 1, 1})) << device << " " << dtype;
      EXPECT_EQ(truths(signbit(x)), (std::vector<int32_t>{0, 1, 1, 0, 1, 0, 1})) << device << " " << dtype;
    }
  }
}

TEST(PointwiseAccuracy, BitsOfIntegersWrapAndShiftAsInPython) {
  for (const char* device : {"ref", "cpu"}) {
    const DeviceScope on(device);
    const Tensor x = Tensor::of<int32_t>({12, -1, 7, 1 << 30}, {4});
    EXPECT_EQ(bitwise_and(x, 10).to_vector<int32_t>(), (std::vector<int32_t>{8, 10, 2, 0})) << device;
    EXPECT_EQ(bitwise_or(x, 1).to_vector<int32_t>(), (std::vector<int32_t>{13, -1, 7, (1 << 30) + 1})) << device;
    EXPECT_EQ(bitwise_xor(x, 5).to_vector<int32_t>(), (std::vector<int32_t>{9, -6, 2, (1 << 30) + 5})) << device;
    EXPECT_EQ(bitwise_invert(x).to_vector<int32_t>(), (std::vector<int32_t>{-13, 0, -8, ~(1 << 30)})) << device;
    EXPECT_EQ(shift_left(x, 2).to_vector<int32_t>(), (std::vector<int32_t>{48, -4, 28, 0})) << device;
    EXPECT_EQ(shift_right(x, 2).to_vector<int32_t>(), (std::vector<int32_t>{3, -1, 1, 1 << 28})) << device;
    EXPECT_EQ(shift_left(x, 40).to_vector<int32_t>(), (std::vector<int32_t>{0, 0, 0, 0})) << device;
    EXPECT_EQ(shift_right(x, 40).to_vector<int32_t>(), (std::vector<int32_t>{0, -1, 0, 0})) << device;
    const Tensor bytes = Tensor::of<uint8_t>({200, 0, 255}, {3});
    EXPECT_EQ(bitwise_invert(bytes).to_vector<uint8_t>(), (std::vector<uint8_t>{55, 255, 0})) << device;
    EXPECT_EQ(shift_left(bytes, 1).to_vector<uint8_t>(), (std::vector<uint8_t>{144, 0, 254})) << device;
    EXPECT_EQ(logical_xor(x > 0, x > 10).to_vector<bool>(), (std::vector<bool>{false, false, true, false})) << device;
  }
}

}  // namespace
}  // namespace freight::test
