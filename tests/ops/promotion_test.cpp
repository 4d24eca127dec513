// Expressions of mixed types: what a number becomes beside a tensor, and what it does to the tensor's type. The values
// are PyTorch's, but for comparisons of integers with numbers that their type cannot hold (255 < 256 in u8), which are
// NumPy 2's, exact.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "freight/base/error.h"
#include "freight/ops/ops.h"

namespace freight::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

struct Operands {
  Tensor u = Tensor::of<uint8_t>({0, 128, 255}, {3}), i = Tensor::of<int32_t>({1, -2, 3}, {3}),
         l = Tensor::of<int64_t>({-7, 0, 16777217}, {3}), f = Tensor::of<float>({0.5f, -1.5f, 2}, {3}),
         h = cast(f, DType::f16), b = cast(f, DType::bf16), d = Tensor::of<double>({0.1, -1.5, 2}, {3}),
         m = cast(Tensor::of<int32_t>({1, 0, 1}, {3}), DType::boolean);
};

struct Expression {
  const char* text;
  std::function<Tensor(const Operands&)> value;
};
struct Case {
  Expression expression;
  DType dtype;
  std::vector<double> values;  // those of i64 are below 2^54, and compared as integers
};

// The operands of an expression by the names of their types: u8, i32, i64, f32, f16, bf16, f64, bool.
#define FREIGHT_EXPRESSION(...)                                                                  \
  Expression {                                                                                   \
#__VA_ARGS__, [](const Operands& o) {                                                          \
      [[maybe_unused]] const auto& [u, i, l, f, h, b, d, m] = o;                                   \
      return __VA_ARGS__;                                                                          \
    } \
  }

const std::vector<Case> kCases = {
    {FREIGHT_EXPRESSION(u / 255.0), DType::f32, {0, 0.501960813999176, 1}},
    {FREIGHT_EXPRESSION(u / 2), DType::f32, {0, 64, 127.5}},
    {FREIGHT_EXPRESSION(u * 0.5), DType::f32, {0, 64, 127.5}},
    {FREIGHT_EXPRESSION(u + 1), DType::u8, {1, 129, 0}},
    {FREIGHT_EXPRESSION(u - 1.0), DType::f32, {-1, 127, 254}},
    {FREIGHT_EXPRESSION(u * 2), DType::u8, {0, 0, 254}},
    {FREIGHT_EXPRESSION(u + 0.0), DType::f32, {0, 128, 255}},
    {FREIGHT_EXPRESSION(255 - u), DType::u8, {255, 127, 0}},
    {FREIGHT_EXPRESSION(1.0 / i), DType::f32, {1, -0.5, 0.3333333432674408}},
    {FREIGHT_EXPRESSION(i * 0.5), DType::f32, {0.5, -1, 1.5}},
    {FREIGHT_EXPRESSION(i * 2.0), DType::f32, {2, -4, 6}},
    {FREIGHT_EXPRESSION(i * 2), DType::i32, {2, -4, 6}},
    {FREIGHT_EXPRESSION(i + 1000000), DType::i32, {1000001, 999998, 1000003}},
    {FREIGHT_EXPRESSION(i - 0.5), DType::f32, {0.5, -2.5, 2.5}},
    {FREIGHT_EXPRESSION(i / 2), DType::f32, {0.5, -1, 1.5}},
    {FREIGHT_EXPRESSION(i / 2.0), DType::f32, {0.5, -1, 1.5}},
    {FREIGHT_EXPRESSION(2 / i), DType::f32, {2, -1, 0.6666666865348816}},
    {FREIGHT_EXPRESSION(7.0 - i), DType::f32, {6, 9, 4}},
    {FREIGHT_EXPRESSION(-i), DType::i32, {-1, 2, -3}},
    {FREIGHT_EXPRESSION(i / i), DType::f32, {1, 1, 1}},
    {FREIGHT_EXPRESSION(u / u), DType::f32, {kNan, 1, 1}},
    {FREIGHT_EXPRESSION(l / 2), DType::f32, {-3.5, 0, 8388608}},
    {FREIGHT_EXPRESSION(l + 0.5), DType::f32, {-6.5, 0.5, 16777216}},
    {FREIGHT_EXPRESSION(l + 1), DType::i64, {-6, 1, 16777218}},
    {FREIGHT_EXPRESSION(l * 3), DType::i64, {-21, 0, 50331651}},
    {FREIGHT_EXPRESSION(l - 4294967296), DType::i64, {-4294967303, -4294967296, -4278190079}},
    {FREIGHT_EXPRESSION(l / l), DType::f32, {1, kNan, 1}},
    {FREIGHT_EXPRESSION(f + 1), DType::f32, {1.5, -0.5, 3}},
    {FREIGHT_EXPRESSION(f * 2), DType::f32, {1, -3, 4}},
    {FREIGHT_EXPRESSION(f / 2), DType::f32, {0.25, -0.75, 1}},
    {FREIGHT_EXPRESSION(f - 0.1), DType::f32, {0.4000000059604645, -1.600000023841858, 1.899999976158142}},
    {FREIGHT_EXPRESSION(1 - f), DType::f32, {0.5, 2.5, -1}},
    {FREIGHT_EXPRESSION(h + 1), DType::f16, {1.5, -0.5, 3}},
    {FREIGHT_EXPRESSION(h / 3), DType::f16, {0.1666259765625, -0.5, 0.66650390625}},
    {FREIGHT_EXPRESSION(b + 1), DType::bf16, {1.5, -0.5, 3}},
    {FREIGHT_EXPRESSION(d + 1), DType::f64, {1.1, -0.5, 3}},
    {FREIGHT_EXPRESSION(d * 0.1), DType::f64, {0.010000000000000002, -0.15000000000000002, 0.2}},
    {FREIGHT_EXPRESSION(cast(cast(d, DType::f32), DType::f64)), DType::f64, {0.10000000149011612, -1.5, 2}},
    {FREIGHT_EXPRESSION(cast(cast(d, DType::f32), DType::f64) - d), DType::f64, {1.4901161138336505e-09, 0, 0}},
    {FREIGHT_EXPRESSION(cast(cast(l, DType::f32), DType::f64)), DType::f64, {-7, 0, 16777216}},
    {FREIGHT_EXPRESSION(d / 3), DType::f64, {0.03333333333333333, -0.5, 0.6666666666666666}},
    {FREIGHT_EXPRESSION(i < 1.5), DType::boolean, {1, 1, 0}},
    {FREIGHT_EXPRESSION(i > 0.5), DType::boolean, {1, 0, 1}},
    {FREIGHT_EXPRESSION(i >= 2.5), DType::boolean, {0, 0, 1}},
    {FREIGHT_EXPRESSION(i <= -1.5), DType::boolean, {0, 1, 0}},
    {FREIGHT_EXPRESSION(u < 256), DType::boolean, {1, 1, 1}},
    {FREIGHT_EXPRESSION(u > -1), DType::boolean, {1, 1, 1}},
    {FREIGHT_EXPRESSION(u >= 255.5), DType::boolean, {0, 0, 0}},
    {FREIGHT_EXPRESSION(u < 1e300), DType::boolean, {1, 1, 1}},
    {FREIGHT_EXPRESSION(i < kInf), DType::boolean, {1, 1, 1}},
    {FREIGHT_EXPRESSION(i > kNan), DType::boolean, {0, 0, 0}},
    {FREIGHT_EXPRESSION(0.5 < i), DType::boolean, {1, 0, 1}},
    {FREIGHT_EXPRESSION(l > 16777216.5), DType::boolean, {0, 0, 1}},
    {FREIGHT_EXPRESSION(l < ~uint64_t{0}), DType::boolean, {1, 1, 1}},
    {FREIGHT_EXPRESSION(l >= uint64_t{1} << 63), DType::boolean, {0, 0, 0}},
    {FREIGHT_EXPRESSION(equal(l, uint64_t(-7))), DType::boolean, {0, 0, 0}},
    {FREIGHT_EXPRESSION(not_equal(l, uint64_t(-7))), DType::boolean, {1, 1, 1}},
    {FREIGHT_EXPRESSION(l < 1), DType::boolean, {1, 1, 0}},
    {FREIGHT_EXPRESSION(f < 0.6), DType::boolean, {1, 1, 0}},
    {FREIGHT_EXPRESSION(f > 1), DType::boolean, {0, 0, 1}},
    {FREIGHT_EXPRESSION(maximum(i, 1.5)), DType::f32, {1.5, 1.5, 3}},
    {FREIGHT_EXPRESSION(minimum(u, 10)), DType::u8, {0, 10, 10}},
    {FREIGHT_EXPRESSION(maximum(l, 0)), DType::i64, {0, 0, 16777217}},
    {FREIGHT_EXPRESSION(minimum(f, 1)), DType::f32, {0.5, -1.5, 1}},
    {FREIGHT_EXPRESSION(where(m, i, 7)), DType::i32, {1, 7, 3}},
    {FREIGHT_EXPRESSION(where(m, i, 0.5)), DType::f32, {1, 0.5, 3}},
    {FREIGHT_EXPRESSION(where(m, f, 0)), DType::f32, {0.5, 0, 2}},
    {FREIGHT_EXPRESSION(sum(u)), DType::i64, {383}},
    {FREIGHT_EXPRESSION(sum(i)), DType::i64, {2}},
    {FREIGHT_EXPRESSION(sum(l)), DType::i64, {16777210}},
    {FREIGHT_EXPRESSION(sum(m)), DType::i64, {2}},
    {FREIGHT_EXPRESSION(sum(h)), DType::f16, {1}},
    {FREIGHT_EXPRESSION(clamp(i, 0, 2)), DType::i32, {1, 0, 2}},
    {FREIGHT_EXPRESSION(clamp(i, -0.5, 2.5)), DType::f32, {1, -0.5, 2.5}},
    {FREIGHT_EXPRESSION(clamp(f, -1, 1)), DType::f32, {0.5, -1, 1}},
    {FREIGHT_EXPRESSION(equal(i, 3)), DType::boolean, {0, 0, 1}},
    {FREIGHT_EXPRESSION(equal(i, 2.5)), DType::boolean, {0, 0, 0}},
    {FREIGHT_EXPRESSION(not_equal(u, 256)), DType::boolean, {1, 1, 1}},
    {FREIGHT_EXPRESSION(not_equal(i, 0.5)), DType::boolean, {1, 1, 1}},
    {FREIGHT_EXPRESSION(equal(l, 16777217.0)), DType::boolean, {0, 0, 1}},
    {FREIGHT_EXPRESSION(pow(f, 2)), DType::f32, {0.25, 2.25, 4}},
    {FREIGHT_EXPRESSION(max(u)), DType::u8, {255}},
    {FREIGHT_EXPRESSION(h * 0.25), DType::f16, {0.125, -0.375, 0.5}},
    {FREIGHT_EXPRESSION(b * 0.25), DType::bf16, {0.125, -0.375, 0.5}},
};

class Promotion : public testing::TestWithParam<std::string> {
 protected:
  const DeviceScope on_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Backends, Promotion, testing::Values("ref", "cpu"),
                         [](const auto& instance) { return instance.param; });

TEST_P(Promotion, ExpressionsHaveTheTypesAndValuesOfNumPyAndPyTorch) {
  EXPECT_GE(kCases.size(), 60u);
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.expression.text);
    const Tensor got = c.expression.value(Operands());
    EXPECT_EQ(got.dtype(), c.dtype);
    if (c.dtype == DType::i64) {
      EXPECT_EQ(got.to_vector<int64_t>(), std::vector<int64_t>(c.values.begin(), c.values.end()));
      continue;
    }
    const std::vector<double> values = got.to_vector<double>();
    ASSERT_EQ(values.size(), c.values.size());
    for (size_t k = 0; k < values.size(); ++k) {
      const double e = c.values[k], v = values[k];
      const double allowed = c.dtype == DType::f64 ? 1e-15 : 1e-7;
      EXPECT_TRUE(std::isnan(e) ? std::isnan(v) : std::fabs(v - e) <= allowed * std::fabs(e))
          << "element " << k << ": got " << v << ", expected " << e;
    }
  }
}

struct Refusal {
  Expression expression;
  const char* message;
};
const std::vector<Refusal> kRefusals = {
    {FREIGHT_EXPRESSION(u + 300), "add: number 300 does not fit next to u8[3]: u8 holds whole numbers from 0 to 255"},
    {FREIGHT_EXPRESSION(-1 + u), "number -1 does not fit next to u8[3]"},
    {FREIGHT_EXPRESSION(maximum(u, -1)), "number -1 does not fit next to u8[3]"},
    {FREIGHT_EXPRESSION(clamp(u, 0, 300)), "number 300 does not fit next to u8[3]"},
    {FREIGHT_EXPRESSION(i * 3000000000), "number 3000000000 does not fit next to i32[3]"},
    {FREIGHT_EXPRESSION(where(m, i, 1L << 40)), "number 1099511627776 does not fit next to i32[3]"},
    {FREIGHT_EXPRESSION(h + 70000), "number 70000 does not fit next to f16[3]: the largest f16 is 65504"},
    {FREIGHT_EXPRESSION(f * 1e39), "does not fit next to f32[3]"},
    {FREIGHT_EXPRESSION(b - 3.4e38), "does not fit next to bf16[3]"},
    {FREIGHT_EXPRESSION(m * 0.5), "number 0.5 does not fit next to bool[3]"},
    {FREIGHT_EXPRESSION(m + 1), "add"},
    {FREIGHT_EXPRESSION(f + i), "element types differ: lhs f32[3], rhs i32[3]"},
    {FREIGHT_EXPRESSION(u + i), "element types differ: lhs u8[3], rhs i32[3]"},
    {FREIGHT_EXPRESSION(full({1}, 2.7, DType::i32)), "number 2.7 does not fit next to i32[1]"},
    {FREIGHT_EXPRESSION(full({1}, 300, DType::u8)), "number 300 does not fit next to u8[1]"},
    {FREIGHT_EXPRESSION(full({1}, kNan, DType::i64)), "does not fit next to i64[1]"},
    {FREIGHT_EXPRESSION(full({1}, 1e39)), "does not fit next to f32[1]"},
    {FREIGHT_EXPRESSION(l + ~uint64_t{0}), "add: number 18446744073709551615 does not fit next to i64[3]"},
    {FREIGHT_EXPRESSION(maximum(l, uint64_t{1} << 63)), "number 9223372036854775808 does not fit next to i64[3]"},
    {FREIGHT_EXPRESSION(where(m, l, ~uint64_t{0})), "number 18446744073709551615 does not fit next to i64[3]"},
    {FREIGHT_EXPRESSION(full({1}, -1, DType::u64)), "number -1 does not fit next to u64[1]"},
    {FREIGHT_EXPRESSION(full({1}, ~uint64_t{0}, DType::u8)), "number 18446744073709551615 does not fit next to u8[1]"},
    {FREIGHT_EXPRESSION(arange(0, ~uint64_t{0}, int64_t{1} << 60)), "number 18446744073709551615 does not fit i32"},
    {FREIGHT_EXPRESSION(pad(l, {1}, {0}, 9007199254740993)), "number 9007199254740993 may be rounded here"},
    {FREIGHT_EXPRESSION(pad(i, {1}, {0}, 0.5)), "number 0.5 does not fit into i32"},
    {FREIGHT_EXPRESSION(cast(300, DType::u8)), "number 300 does not fit next to u8[]"},
};

TEST_P(Promotion, WhatATypeCannotHoldIsRefusedWithBothNames) {
  for (const Refusal& r : kRefusals) {
    SCOPED_TRACE(r.expression.text);
    try {
      r.expression.value(Operands()).array();
      FAIL() << "accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      EXPECT_NE(std::string(e.what()).find(r.message), std::string::npos) << e.what();
    }
  }
}

TEST_P(Promotion, SumsOfSmallIntegersAreExact) {
  EXPECT_EQ(sum(full({300}, 1, DType::u8)).item<int64_t>(), 300);
  EXPECT_EQ(sum(full({3}, 1000000000, DType::i32)).item<int64_t>(), 3000000000);
  EXPECT_EQ(sum(full({2, 300}, 1, DType::u8), 1).to_vector<int64_t>(), (std::vector<int64_t>{300, 300}));
}

TEST_P(Promotion, LargeIntegersAreNotRoundedToDoubles) {
  const int64_t large = (int64_t{1} << 60) + 1;
  EXPECT_EQ(full({2}, large, DType::i64).to_vector<int64_t>(), (std::vector<int64_t>{large, large}));
  EXPECT_EQ((Tensor::of<int64_t>({1}, {1}) - large).item<int64_t>(), 1 - large);
  EXPECT_EQ(sum(Tensor::of<int64_t>({large - 1, large}, {2}) < large).item<int64_t>(), 1);
}

// 2^53 + 1 is the first integer that is no double: its double is 2^53.
TEST_P(Promotion, TheFirstIntegersBetweenDoublesAreExact) {
  using Ints = std::vector<int64_t>;
  const int64_t odd = 9007199254740993;
  const Tensor x = Tensor::of<int64_t>({1, odd - 1, odd});
  for (const int64_t n : {odd, -odd, odd - 1, odd - 2}) {
    EXPECT_EQ(full({2}, n, DType::i64).to_vector<int64_t>(), (Ints{n, n}));
    EXPECT_EQ((full({1}, 1, DType::i64) * n).item<int64_t>(), n);
    EXPECT_EQ(cast(n, DType::i64).item<int64_t>(), n);
    EXPECT_EQ(where(equal(x, 1), x, n).to_vector<int64_t>(), (Ints{1, n, n}));
  }
  EXPECT_EQ(maximum(x, odd).to_vector<int64_t>(), (Ints{odd, odd, odd}));
  EXPECT_EQ(clamp(x, 0, odd).to_vector<int64_t>(), (Ints{1, odd - 1, odd}));
  EXPECT_EQ(equal(x, odd).to_vector<int64_t>(), (Ints{0, 0, 1}));
  EXPECT_EQ((x < odd).to_vector<int64_t>(), (Ints{1, 1, 0}));
  EXPECT_EQ(pad(x, {1}, {0}, odd - 2).to_vector<int64_t>(), (Ints{odd - 2, 1, odd - 1, odd}));
}

TEST_P(Promotion, UnsignedNumbersBeyondI64AreWhatTheyAre) {
  const uint64_t most = ~uint64_t{0}, half = uint64_t{1} << 63;
  const Tensor x = Tensor::of<uint64_t>({most, half, 1});
  EXPECT_EQ(full({2}, most, DType::u64).to_vector<uint64_t>(), (std::vector<uint64_t>{most, most}));
  EXPECT_EQ(full({1}, half + 1, DType::u64).to_vector<uint64_t>(), (std::vector<uint64_t>{half + 1}));
  EXPECT_EQ(equal(x, most).to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 0}));
  EXPECT_EQ(not_equal(x, half).to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 1}));
  EXPECT_EQ(equal(Tensor::of<int64_t>({-1}), most).to_vector<int64_t>(), (std::vector<int64_t>{0}));
  EXPECT_EQ(full({1}, most, DType::f64).item<double>(), 0x1p64);
}

// What has two meanings does not compile: a number with a decimal point, or a truth value, is neither axis nor extent.
template <class T>
concept NamesAxes = requires(const Tensor& x, T v) {
  max(x, v);
};
template <class T>
concept NamesAnAxis = requires(const Tensor& x, T v) {
  softmax(x, v);
};
static_assert(NamesAxes<int> && NamesAxes<int64_t> && NamesAnAxis<int>);
static_assert(!NamesAxes<double> && !NamesAxes<float> && !NamesAxes<bool> && !NamesAxes<Tensor>);
static_assert(!NamesAnAxis<double> && !NamesAnAxis<bool>);
static_assert(!std::is_constructible_v<Extents, double> && !std::is_constructible_v<Extents, bool>);

}  // namespace
}  // namespace freight::test
