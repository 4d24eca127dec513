// Functions of vectors (kernels/functions-inl.h, trigonometry-inl.h, double_functions-inl.h), as tile programs and with
// the kernels of each instruction set, against the C library in a wider type: within 4 ulp over the whole range, and
// the same where the result is 0, infinite or NaN.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "freight/backend/cpu/kernels/tile.h"
#include "freight/base/philox.h"
#include "tests/support/simd_targets.h"

namespace freight::cpu {
namespace {

using Wide = long double;
constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

template <class T>
struct Type;
template <>
struct Type<float> {
  static constexpr DType kDType = DType::f32;
  using Bits = uint32_t;
};
template <>
struct Type<double> {
  static constexpr DType kDType = DType::f64;
  using Bits = uint64_t;
};

// op(x, y) of each pair, by a program whose rows are no whole number of vectors.
template <class T>
std::vector<T> run(Op op, const std::vector<T>& x, const std::vector<T>& y) {
  const auto n = static_cast<int64_t>(x.size());
  const DType dtype = Type<T>::kDType;
  TileProgram p;
  p.space = Shape{n};
  const int a = p.input(0, dtype, {1}), b = y.empty() ? -1 : p.input(1, dtype, {1});
  p.stores.push_back({.value = p.apply(op, dtype, a, b), .dtype = dtype, .operand = 2, .strides = {1}});
  const auto kernel = TileKernel::compile(p);
  std::vector<std::byte> scratch(kernel->scratch_bytes() + 64);
  void* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
  std::vector<T> out(x.size());
  void* operands[] = {const_cast<T*>(x.data()), const_cast<T*>(y.data()), out.data()};
  kernel->run(operands, aligned);
  return out;
}

// The distance to the next number of the type.
template <class T>
Wide unit(Wide of) {
  const T size = std::min(static_cast<T>(std::fabs(of)), std::numeric_limits<T>::max());
  const T next = std::nextafter(size, std::numeric_limits<T>::infinity());
  return std::isinf(next) ? Wide{size} - Wide{std::nextafter(size, T{0})} : Wide{next} - Wide{size};
}

template <class T>
void expect_close(Op op, T got, Wide wanted, Wide allowed, T x, T y) {
  const T rounded = static_cast<T>(wanted);
  const bool exact = rounded == 0 || !std::isfinite(rounded);
  const bool same =
      std::isnan(rounded) ? std::isnan(got) : got == rounded && std::signbit(got) == std::signbit(rounded);
  if (exact ? same : std::fabs(Wide{got} - wanted) <= allowed) return;
  ADD_FAILURE() << name(op) << "(" << x << ", " << y << ") is " << got << ", wanted " << rounded << ", "
                << std::fabs(Wide{got} - wanted) / unit<T>(wanted) << " ulp";
}

// Numbers of all sizes and signs, by their bits; dense ones between -20 and 20 and around 1; edges.
template <class T>
std::vector<T> sweep() {
  using Bits = typename Type<T>::Bits;
  constexpr size_t kMany = 60000;
  constexpr T kSmallest = std::numeric_limits<T>::denorm_min(), kNormal = std::numeric_limits<T>::min();
  std::vector<T> all = {0, -T{0}, 1, -1, T(kInf), -T(kInf), T(kNan), kSmallest, -kSmallest, kNormal, -kNormal,
                        std::numeric_limits<T>::max(), std::numeric_limits<T>::lowest(), T{0.5}, T{-0.5},
                        // Around the last arguments of exp and sinh with finite results, and the first that are not 0.
                        T{88.72284}, T{88.8}, T{89.4}, T{89.42}, T{-87.4}, T{-103.97}, T{-104.1}, T{709.78}, T{709.79},
                        T{710.47}, T{710.48}, T{-708.5}, T{-745.13}, T{-745.2}, T{99999.9}, T{100000.1}, T{1e22},
                        std::nextafter(T{1}, T{0}), std::nextafter(T{1}, T{2})};
  const Bits step = static_cast<Bits>(std::numeric_limits<Bits>::max() / kMany) | 1;
  for (size_t i = 0; i < kMany; ++i) all.push_back(std::bit_cast<T>(static_cast<Bits>(i * step)));
  for (size_t i = 0; i < kMany; ++i) all.push_back((static_cast<T>(i) / kMany * 2 - 1) * 20);
  for (size_t i = 0; i < kMany / 4; ++i) all.push_back(static_cast<T>(i) / (kMany / 8));
  for (int k = 1; k < 2000; ++k) all.push_back(static_cast<T>(k * 1.5707963267948966));  // near zeros of sin and cos
  return all;
}

template <class T>
struct Unary {
  Op op;
  Wide (*value)(Wide);
};

// Of f32 in double, whose C library is the faster and exact enough; of f64 in long double.
#define IN(type, f) [](Wide x) -> Wide { return std::f(static_cast<type>(x)); }
#define FUNCTIONS(type)                                                                                               \
  {Op::exp, IN(type, exp)}, {Op::expm1, IN(type, expm1)}, {Op::log, IN(type, log)}, {Op::log1p, IN(type, log1p)},     \
      {Op::log2, IN(type, log2)}, {Op::log10, IN(type, log10)}, {Op::sqrt, IN(type, sqrt)}, {Op::sin, IN(type, sin)}, \
      {Op::cos, IN(type, cos)}, {Op::tan, IN(type, tan)}, {Op::tanh, IN(type, tanh)}, {Op::sinh, IN(type, sinh)},     \
      {Op::cosh, IN(type, cosh)}, {Op::asin, IN(type, asin)}, {Op::acos, IN(type, acos)}, {Op::atan, IN(type, atan)}, \
      {Op::asinh, IN(type, asinh)}, {Op::acosh, IN(type, acosh)}, {Op::atanh, IN(type, atanh)},                       \
      {Op::erf, IN(type, erf)}, {                                                                                     \
    Op::sigmoid, [](Wide x) -> Wide { return 1 / (1 + std::exp(static_cast<type>(-x))); }                             \
  }

template <class T>
void check_unary(const std::vector<Unary<T>>& functions) {
  const std::vector<T> x = sweep<T>();
  std::vector<std::vector<Wide>> wanted;  // by function
  for (const Unary<T>& f : functions) {
    wanted.emplace_back();
    for (const T v : x) wanted.back().push_back(f.value(v));
  }
  test::for_each_simd_target([&] {
    for (size_t f = 0; f < functions.size(); ++f) {
      const std::vector<T> got = run<T>(functions[f].op, x, {});
      const Wide units = functions[f].op == Op::erf ? 6 : 4;  // erf is a quotient where there is no AVX-512
      for (size_t i = 0; i < x.size() && !::testing::Test::HasFailure(); ++i)
        expect_close<T>(functions[f].op, got[i], wanted[f][i], units * unit<T>(wanted[f][i]), x[i], 0);
    }
  });
}

TEST(Functions, OfOneF32AreWithinFourUnitsOfTheLibraryOverTheWholeRange) { check_unary<float>({FUNCTIONS(double)}); }

TEST(Functions, OfOneF64AreWithinFourUnitsOfTheLibraryOverTheWholeRange) { check_unary<double>({FUNCTIONS(Wide)}); }

template <class T>
struct Binary {
  Op op;
  Wide (*value)(T, T);
};

template <class T>
void check_binary(const std::vector<Binary<T>>& functions) {
  std::vector<T> x, y;
  const T edges[] = {0,
                     -T{0},
                     1,
                     -1,
                     2,
                     -2,
                     3,
                     T{0.5},
                     T{-0.5},
                     T(kInf),
                     -T(kInf),
                     T(kNan),
                     T{7.5},
                     T{-1e20f},
                     T{1e30f},
                     std::numeric_limits<T>::denorm_min(),
                     -std::numeric_limits<T>::denorm_min(),
                     std::numeric_limits<T>::max(),
                     std::numeric_limits<T>::min(),
                     T(16777217)};
  for (const T a : edges) {
    for (const T b : edges) x.push_back(a), y.push_back(b);
  }
  const std::vector<T> all = sweep<T>();
  PhiloxStream random(5, 0, 1);
  const auto any = [&] { return all[static_cast<size_t>(random.uniform(0, 1) * static_cast<float>(all.size() - 1))]; };
  for (int i = 0; i < 60000; ++i) {
    x.push_back(i % 2 ? any() : static_cast<T>(random.uniform(-20, 20)));
    y.push_back(i % 2 ? any() : static_cast<T>(i % 4 ? std::round(random.uniform(-20, 20)) : random.uniform(-20, 20)));
  }
  test::for_each_simd_target([&] {
    for (const Binary<T>& f : functions) {
      const std::vector<T> got = run<T>(f.op, x, y);
      for (size_t i = 0; i < x.size() && !::testing::Test::HasFailure(); ++i) {
        const Wide wanted = f.value(x[i], y[i]);
        // Where logaddexp crosses 0, long double has few digits itself.
        const Wide most = f.op == Op::logaddexp ? std::fmax(Wide{x[i]}, Wide{y[i]}) : 0;
        const Wide units = 4 * unit<T>(wanted) + (std::isfinite(most) ? std::fabs(most) * 0x1p-62L : 0);
        expect_close<T>(f.op, got[i], wanted, units, x[i], y[i]);
      }
    }
  });
}

template <class T>
Wide log_add_exp(T a, T b) {
  const Wide x = a, y = b;
  if (a == b) return x + std::log(Wide{2});
  return std::isnan(a) || std::isnan(b) ? kNan : std::fmax(x, y) + std::log1p(std::exp(-std::fabs(x - y)));
}

TEST(Functions, OfTwoF32AreWithinFourUnitsOfTheLibrary) {
  check_binary<float>({{Op::pow, [](float a, float b) -> Wide { return std::pow(double{a}, double{b}); }},
                       {Op::fmod, [](float a, float b) -> Wide { return std::fmod(double{a}, double{b}); }},
                       {Op::atan2, [](float a, float b) -> Wide { return std::atan2(double{a}, double{b}); }},
                       {Op::hypot, [](float a, float b) -> Wide { return std::hypot(double{a}, double{b}); }},
                       {Op::logaddexp, log_add_exp<float>},
                       {Op::copysign, [](float a, float b) -> Wide { return std::copysign(a, b); }},
                       {Op::div, [](float a, float b) -> Wide { return a / b; }}});
}

TEST(Functions, OfTwoF64AreWithinFourUnitsOfTheLibrary) {
  check_binary<double>({{Op::pow, [](double a, double b) -> Wide { return std::pow(a, b); }},
                        {Op::fmod, [](double a, double b) -> Wide { return std::fmod(a, b); }},
                        {Op::atan2, [](double a, double b) -> Wide { return std::atan2(Wide{a}, Wide{b}); }},
                        {Op::hypot, [](double a, double b) -> Wide { return std::hypot(Wide{a}, Wide{b}); }},
                        {Op::logaddexp, log_add_exp<double>},
                        {Op::copysign, [](double a, double b) -> Wide { return std::copysign(a, b); }},
                        {Op::maximum, [](double a, double b) -> Wide { return a > b || a != a ? a : b; }},
                        {Op::minimum, [](double a, double b) -> Wide { return a < b || a != a ? a : b; }},
                        {Op::add, [](double a, double b) -> Wide { return a + b; }},
                        {Op::sub, [](double a, double b) -> Wide { return a - b; }},
                        {Op::mul, [](double a, double b) -> Wide { return a * b; }},
                        {Op::div, [](double a, double b) -> Wide { return a / b; }}});
}

TEST(Functions, NeverExceedOneWhereTheSineDoesNot) {
  const std::vector<float> x = sweep<float>();
  test::for_each_simd_target([&] {
    for (const Op op : {Op::sin, Op::cos}) {
      for (const float v : run<float>(op, x, {})) ASSERT_FALSE(std::fabs(v) > 1) << name(op) << " is " << v;
    }
  });
}

// One operand for all elements, and results of f32 and bool: f64 steps have loops for each of these.
TEST(Functions, OfF64TakeOneElementForAllAndConvert) {
  constexpr int64_t kCount = 1003;
  std::vector<double> x, out(kCount);
  for (int64_t i = 0; i < kCount; ++i) x.push_back(static_cast<double>(i % 37) - 18.25);
  std::vector<float> narrow(kCount);
  std::vector<uint8_t> truth(kCount);
  TileProgram p;
  p.space = Shape{kCount};
  const int a = p.input(0, DType::f64, {1}), two = p.constant(2, DType::f64), seven = p.constant(7, DType::f64);
  const int below = p.apply(Op::lt, DType::boolean, two, a);
  const int difference = p.apply(Op::sub, DType::f64, two, p.apply(Op::div, DType::f64, a, seven));
  const int choice = p.apply(Op::where, DType::f64, below, difference, seven);
  p.stores.push_back({.value = choice, .dtype = DType::f64, .operand = 1, .strides = {1}});
  p.stores.push_back({.value = p.apply(Op::cast, DType::f32, difference), .operand = 2, .strides = {1}});
  p.stores.push_back({.value = below, .dtype = DType::boolean, .operand = 3, .strides = {1}});
  test::for_each_simd_target([&] {
    const auto kernel = TileKernel::compile(p);
    void* operands[] = {x.data(), out.data(), narrow.data(), truth.data()};
    std::vector<std::byte> scratch(kernel->scratch_bytes() + 64);
    kernel->run(operands, scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64);
    for (size_t i = 0; i < x.size(); ++i) {
      const double wanted = 2 - x[i] / 7;
      ASSERT_EQ(out[i], x[i] > 2 ? wanted : 7) << i;
      ASSERT_EQ(narrow[i], static_cast<float>(wanted)) << i;
      ASSERT_EQ(truth[i], x[i] > 2) << i;
    }
  });
}

}  // namespace
}  // namespace freight::cpu
