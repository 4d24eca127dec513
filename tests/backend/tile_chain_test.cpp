// Chains of tile steps (kernels/tile_chain.h) against plain evaluation in double: random programs on every form of
// operand, whose numbers f32 holds without an error, in memory that ends where a page does, with a result in place.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "freight/backend/cpu/kernels/tile.h"
#include "freight/base/philox.h"
#include "tests/backend/bf16_kernels.h"
#include "tests/support/simd_targets.h"

namespace freight::cpu {
namespace {

// Operands: two of bf16, one of f32, one of bool on the whole space; f32 per column, per row and for all; then results.
enum Operand : int {
  kX,
  kY,
  kF,
  kMask,
  kColumn,
  kRowwise,
  kOne,
  kInPlace,
  kWide,
  kBool,
  kSum,
  kProducts,
  kMost,
  kOperands
};

struct Sizes {
  int64_t rows, width;
};
void PrintTo(const Sizes& s, std::ostream* out) { *out << s.rows << "x" << s.width; }

class ChainOf : public ::testing::TestWithParam<Sizes> {
 protected:
  // The value in double, which is exact.
  double evaluate(int v, int64_t r, int64_t c) {
    const TileValue& t = p_.values[static_cast<size_t>(v)];
    if (t.kind == TileValue::Kind::constant) return t.number;
    if (t.kind == TileValue::Kind::input) {
      const int64_t i = r * t.strides[0] + c * t.strides[1];
      if (t.dtype == DType::bf16) return value(static_cast<const Bf16*>(given_[t.operand])[i]);
      if (t.dtype == DType::boolean) return static_cast<const uint8_t*>(given_[t.operand])[i];
      return value(static_cast<const float*>(given_[t.operand])[i]);
    }
    const double a = evaluate(t.a, r, c), b = t.b < 0 ? 0 : evaluate(t.b, r, c);
    switch (t.op) {
      case Op::neg: return -a;
      case Op::relu: return std::max(a, 0.0);
      case Op::add: return a + b;
      case Op::sub: return a - b;
      case Op::mul: return a * b;
      case Op::maximum: return std::max(a, b);
      case Op::gt: return a > b;
      default: return a != 0 ? b : evaluate(t.c, r, c);  // where
    }
  }

  // A program of `steps` random operations; each number is a multiple of 8^-digits and below 2^12.
  void make(int steps, uint64_t seed) {
    PhiloxStream random(seed, 0, 2);
    const auto below = [&](size_t n) { return static_cast<int>(random.uniform(0, 1) * static_cast<float>(n)); };
    const Strides whole{w_, 1};
    std::vector<int> digits{1, 1, 1, 0, 1, 1, 1, 0, 0};
    std::vector<double> most{2, 2, 2, 1, 2, 2, 2, 2, 2};
    for (int i : {kX, kY}) p_.input(i, DType::bf16, whole);
    p_.input(kF, DType::f32, whole);
    p_.input(kMask, DType::boolean, whole);
    p_.input(kColumn, DType::f32, Strides{0, 1});
    p_.input(kRowwise, DType::f32, Strides{1, 0});
    p_.input(kOne, DType::f32, Strides{0, 0});
    p_.constant(0, DType::f32);
    p_.constant(2, DType::f32);
    int condition = kMask;
    while (static_cast<int>(p_.values.size()) < 9 + steps) {
      const Op ops[] = {Op::neg, Op::relu,    Op::add, Op::add,   Op::sub,  Op::mul,
                        Op::mul, Op::maximum, Op::gt,  Op::where, Op::where};
      const Op op = ops[below(std::size(ops))];
      // New values more often than old ones.
      const auto any = [&] {
        return below(2) ? std::max(0, static_cast<int>(p_.values.size()) - 1 - below(3)) : below(p_.values.size());
      };
      const int a = op == Op::where ? condition : any(), b = any(), c = below(2) ? any() : 7;
      const auto of = [&](const auto& list, int v) { return list[static_cast<size_t>(v)]; };
      const int d =
          op == Op::mul ? of(digits, a) + of(digits, b) : std::max({of(digits, a), of(digits, b), of(digits, c)});
      const double m = op == Op::mul ? of(most, a) * of(most, b) : of(most, a) + of(most, b) + of(most, c);
      if (d > 4 || m > 1000) continue;
      const bool unary = op == Op::neg || op == Op::relu;
      const int made =
          p_.apply(op, op == Op::gt ? DType::boolean : DType::f32, a, unary ? -1 : b, op == Op::where ? c : -1);
      if (op == Op::gt) condition = made;
      digits.push_back(op == Op::gt ? 0 : d);
      most.push_back(op == Op::gt ? 1 : m);
    }
    const int last = static_cast<int>(p_.values.size()) - 1;
    const int whole_value = p_.apply(Op::add, DType::f32, last, kX);
    p_.stores.push_back(
        {.value = whole_value, .dtype = DType::bf16, .operand = kInPlace, .strides = whole, .stream = below(2) == 1});
    p_.stores.push_back({.value = 9 + below(static_cast<size_t>(steps)),
                         .dtype = DType::f32,
                         .operand = kWide,
                         .strides = whole,
                         .stream = below(2) == 1});
    p_.stores.push_back({.value = condition, .dtype = DType::boolean, .operand = kBool, .strides = whole});
    const auto sum = [&](int v, Op op, int to) {
      p_.sums.push_back({.value = v, .op = op, .operand = to, .strides = Strides{0, 1}, .keep = {false, true}});
    };
    sum(whole_value, Op::sum, kSum);
    sum(p_.apply(Op::mul, DType::f32, whole_value, below(2) ? kY : last), Op::sum, kProducts);
    sum(last, Op::reduce_max, kMost);
  }

  void check() {
    const int64_t n = r_ * w_;
    Guarded<Bf16> x(n), y(n), first(n);
    Guarded<float> f(n), column(w_), rowwise(r_), one(1), wide(n), sums(w_), products(w_), most(w_);
    Guarded<uint8_t> mask(n), truth(n);
    fill_exact(x.data(), n, 1);
    fill_exact(y.data(), n, 2);
    PhiloxStream random(3, 0, 1);
    const auto eighths = [&](const Guarded<float>& to) {
      for (int64_t i = 0; i < to.size(); ++i) to[i] = std::round(random.uniform(-16, 16)) / 8;
    };
    for (const auto* to : {&f, &column, &rowwise, &one}) eighths(*to);
    for (int64_t i = 0; i < n; ++i) mask[i] = random.uniform(0, 1) > 0.5f;
    std::memcpy(first.data(), x.data(), x.bytes());
    given_ = {first.data(), y.data(), f.data(), mask.data(), column.data(), rowwise.data(), one.data()};
    const auto kernel = TileKernel::compile(p_);
    Guarded<char> scratch(static_cast<int64_t>((kernel->scratch_bytes() + 64) / 64 * 64));
    void* operands[kOperands] = {x.data(),       y.data(),        f.data(),   mask.data(), column.data(),
                                 rowwise.data(), one.data(),      x.data(),   wide.data(), truth.data(),
                                 sums.data(),    products.data(), most.data()};
    kernel->run(operands, scratch.data());
    const auto of = [&](size_t i, int64_t r, int64_t c) { return evaluate(p_.stores[i].value, r, c); };
    for (int64_t r = 0; r < r_; ++r) {
      for (int64_t c = 0; c < w_; ++c) {
        const int64_t i = r * w_ + c;
        ASSERT_EQ(value(x[i]), value(narrow(of(0, r, c)))) << r << ", " << c;
        ASSERT_EQ(value(wide[i]), of(1, r, c)) << r << ", " << c;
        ASSERT_EQ(truth[i], of(2, r, c)) << r << ", " << c;
      }
    }
    for (int64_t c = 0; c < w_; ++c) {
      const Guarded<float>* results[] = {&sums, &products, &most};
      for (size_t k = 0; k < 3; ++k) {
        double total = k == 2 ? -std::numeric_limits<double>::infinity() : 0, size = 0;
        for (int64_t r = 0; r < r_; ++r) {
          const double v = evaluate(p_.sums[k].value, r, c);
          total = k == 2 ? std::max(total, v) : total + v;
          size += std::abs(v);
        }
        ASSERT_NEAR(value((*results[k])[c]), total, k == 2 ? 0 : 1e-6 * size) << "sum " << k << " of column " << c;
      }
    }
  }

  void check_seeds(uint64_t seeds) {
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      p_ = {};
      p_.space = Shape{r_, w_};
      make(2 + static_cast<int>(seed % 9), 100 * seed + static_cast<uint64_t>(w_));
      SCOPED_TRACE(seed);
      check();
      if (HasFatalFailure()) return;
    }
  }

  const int64_t r_ = GetParam().rows, w_ = GetParam().width;
  TileProgram p_;
  std::vector<const void*> given_;
};

TEST_P(ChainOf, RandomStepsGivesWhatDoubleGives) { check_seeds(60); }

TEST_P(ChainOf, RandomStepsGivesWhatDoubleGivesWithEachInstructionSet) {
  test::for_each_simd_target([&] { check_seeds(9); });
}

INSTANTIATE_TEST_SUITE_P(Sizes, ChainOf,
                         ::testing::Values(Sizes{1, 4096}, Sizes{1000, 1}, Sizes{37, 16}, Sizes{300, 64}, Sizes{70, 48},
                                           Sizes{9, 7}, Sizes{5, 1000}, Sizes{3, 2500}, Sizes{130, 1}, Sizes{2, 65}));

// Sums over rows of what gradients of normalizations sum, with every form of operand: x is a part of longer rows, so
// that it is loaded into a slot; the difference is read again after another value. All sums are exact.
class SumsOf : public ::testing::TestWithParam<Sizes> {
 protected:
  enum Operand : int { kPart, kHalf, kFloat, kBools, kMean, kKept, kResults, kOperands = kResults + 5 };

  void run(const std::function<void(Bf16* part, float* wide)>& change) {
    const int64_t r = GetParam().rows, w = GetParam().width, n = r * w, longer = w + 24;
    TileProgram p;
    p.space = Shape{r, w};
    const Strides whole{w, 1};
    const auto op = [&](Op o, int a, int b = -1, int c = -1) { return p.apply(o, DType::f32, a, b, c); };
    const int x = p.input(kPart, DType::bf16, Strides{longer, 1}), y = p.input(kHalf, DType::bf16, whole),
              f = p.input(kFloat, DType::f32, whole), bools = p.input(kBools, DType::boolean, whole),
              mean = p.input(kMean, DType::f32, Strides{0, 1}), zero = p.constant(0, DType::f32);
    const int less = op(Op::sub, x, mean), kept = op(Op::where, bools, f, zero);
    const int products[] = {less, op(Op::square, less), op(Op::mul, kept, less), op(Op::mul, y, mean)};
    p.stores.push_back({.value = kept, .dtype = DType::bf16, .operand = kKept, .strides = whole});
    for (int i = 0; i < 4; ++i) sum(p, products[i], Op::sum, kResults + i);
    sum(p, less, Op::reduce_max, kResults + 4);

    Guarded<Bf16> part(r * longer), half(n), stored(n);
    Guarded<float> wide(n), means(w), results(5 * w);
    Guarded<uint8_t> chosen(n);
    fill_exact(part.data(), part.size(), 1);
    fill_exact(half.data(), n, 2);
    for (int64_t i = 0; i < n; ++i) {
      wide[i] = static_cast<float>(i * 7 % 31 - 15) / 8;
      chosen[i] = i % 3 != 0;
    }
    for (int64_t i = 0; i < w; ++i) means[i] = static_cast<float>(i % 9 - 4) / 8;
    change(part.data(), wide.data());
    const auto kernel = TileKernel::compile(p);
    Guarded<char> scratch(static_cast<int64_t>((kernel->scratch_bytes() + 64) / 64 * 64));
    void* operands[kOperands] = {part.data(), half.data(), wide.data(), chosen.data(), means.data(), stored.data()};
    for (int i = 0; i < 5; ++i) operands[kResults + i] = results.data() + i * w;
    kernel->run(operands, scratch.data());

    for (int64_t c = 0; c < w; ++c) {
      double expected[5] = {0, 0, 0, 0, -std::numeric_limits<double>::infinity()};
      for (int64_t i = 0; i < r; ++i) {
        const double d = value(part[i * longer + c]) - value(means[c]);
        const double g = chosen[i * w + c] ? value(wide[i * w + c]) : 0;
        ASSERT_TRUE(same(value(stored[i * w + c]), value(narrow(g)))) << i << ", " << c;
        const double terms[] = {d, d * d, g * d, value(half[i * w + c]) * value(means[c])};
        for (int k = 0; k < 4; ++k) expected[k] += terms[k];
        expected[4] = std::isnan(d) || std::isnan(expected[4]) ? d + expected[4] : std::max(expected[4], d);
      }
      for (int k = 0; k < 5; ++k) {
        ASSERT_TRUE(same(value(results[k * w + c]), expected[k]))
            << "sum " << k << " of column " << c << ": " << value(results[k * w + c]) << ", expected " << expected[k];
      }
    }
  }

 private:
  static void sum(TileProgram& p, int v, Op op, int to) {
    p.sums.push_back({.value = v, .op = op, .operand = to, .strides = Strides{0, 1}, .keep = {false, true}});
  }
};

TEST_P(SumsOf, ColumnsAreExactWithEachInstructionSet) {
  test::for_each_simd_target([&] { run([](Bf16*, float*) {}); });
}

TEST_P(SumsOf, ColumnsKeepNanAndInfinitiesInTheirColumn) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const int64_t w = GetParam().width, longer = w + 24, last = GetParam().rows - 1;
  test::for_each_simd_target([&] {
    run([&](Bf16* part, float* wide) {
      part[0] = narrow(std::numeric_limits<double>::quiet_NaN());
      part[last * longer + w - 1] = narrow(static_cast<double>(kInf));
      part[last * longer + w / 2] = narrow(static_cast<double>(-kInf));
      wide[last * w + 1] = kInf;
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, SumsOf,
                         ::testing::Values(Sizes{3, 64}, Sizes{4, 16}, Sizes{5, 1000}, Sizes{67, 7}, Sizes{130, 24},
                                           Sizes{259, 65}, Sizes{1500, 48}, Sizes{6000, 16}, Sizes{70, 2048},
                                           Sizes{66, 4100}));

// y = op(x) of n numbers.
void apply(Op op, const float* x, float* y, int64_t n) {
  TileProgram p;
  p.space = Shape{n};
  const int v = p.apply(op, DType::f32, p.input(0, DType::f32, Strides{1}));
  p.stores.push_back({.value = v, .operand = 1, .strides = Strides{1}});
  const auto kernel = TileKernel::compile(p);
  void* operands[] = {const_cast<float*>(x), y};
  Guarded<char> scratch(64);
  kernel->run(operands, scratch.data());
}

TEST(TileFunctions, ErfAndExpErrByFewUnitsOfTheLastPlaceEverywhere) {
  std::vector<float> x;
  for (float v = 1e-30f; v < 100; v *= 1.0005f) x.insert(x.end(), {v, -v});
  for (int i = 1; i < 40000; ++i) x.push_back(static_cast<float>(i) * 1e-4f);
  std::vector<float> e(x.size()), r(x.size());
  apply(Op::erf, x.data(), r.data(), static_cast<int64_t>(x.size()));
  apply(Op::exp, x.data(), e.data(), static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = static_cast<double>(x[i]);
    ASSERT_LE(std::abs(static_cast<double>(r[i]) / std::erf(v) - 1), 3.5e-7) << v;
    if (v < 88.7 && v > -87) {
      ASSERT_LE(std::abs(static_cast<double>(e[i]) / std::exp(v) - 1), 3.5e-7) << v;
    }
    if (v >= 88.73) {
      ASSERT_TRUE(std::isinf(e[i])) << v;
    }
  }
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float special[] = {kInf, -kInf, std::numeric_limits<float>::quiet_NaN(), 0.0f, -0.0f};
  float y[5];
  apply(Op::exp, special, y, 5);
  EXPECT_EQ(y[0], kInf);
  EXPECT_EQ(y[1], 0.0f);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 1.0f);
  apply(Op::erf, special, y, 5);
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], -1.0f);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_TRUE(y[3] == 0.0f && !std::signbit(y[3]) && y[4] == 0.0f && std::signbit(y[4]));
}

// Rows of a tensor whose numbers are counted beyond 2^31, 2^32 and 2^34, where a generator's counter of numbers, and
// that of its blocks of four, leave 32 bits.
TEST(TileFunctions, RandomNumbersFarBehindAreThoseOfTheGenerator) {
  constexpr int64_t kRows = 5, kColumns = 77, kSeed = 1234, kStep = 5;
  for (const int64_t apart : {(int64_t{1} << 30) - 3, (int64_t{1} << 32) - 9}) {
    for (const Op op : {Op::random_uniform, Op::random_normal}) {
      TileProgram p;
      p.space = {kRows, kColumns};
      const int v =
          p.add({.kind = TileValue::Kind::random, .op = op, .operand = 0, .strides = {apart, 1}, .number = 3});
      p.stores.push_back({.value = v, .operand = 1, .strides = {kColumns, 1}});
      int64_t key[] = {kSeed, kStep};
      std::vector<float> y(kRows * kColumns);
      void* operands[] = {key, y.data()};
      const auto kernel = TileKernel::compile(p);
      kernel->run(operands, scratch(kernel->scratch_bytes()).raw());
      for (int64_t i = 0; i < kRows * kColumns; ++i) {
        const auto at = static_cast<uint64_t>(i / kColumns * apart + i % kColumns);
        const float want = op == Op::random_uniform ? freight::random_uniform(kSeed, kStep, 3, at)
                                                    : freight::random_normal(kSeed, kStep, 3, at);
        ASSERT_NEAR(y[static_cast<size_t>(i)], want, 1e-6f) << name(op) << " " << at;
      }
    }
  }
}

// sin is no link: it may not be taken before the chain that still reads what its result replaces.
TEST(Chain, AStepBetweenDoesNotReplaceWhatTheChainReads) {
  constexpr int64_t kSize = 100;
  TileProgram p;
  p.space = {kSize};
  const int x = p.input(0, DType::f32, {1});
  p.stores.push_back({.value = p.apply(Op::relu, DType::f32, x), .dtype = DType::f32, .operand = 1, .strides = {1}});
  p.stores.push_back({.value = p.apply(Op::sin, DType::f32, x), .dtype = DType::f32, .operand = 2, .strides = {1}});
  std::vector<float> in(kSize), positive(kSize);
  for (int64_t i = 0; i < kSize; ++i) in[i] = static_cast<float>(i - 50) / 16;
  std::vector<float> out = in;
  void* operands[] = {out.data(), positive.data(), out.data()};
  const auto kernel = TileKernel::compile(p);
  kernel->run(operands, scratch(kernel->scratch_bytes()).raw());
  for (int64_t i = 0; i < kSize; ++i) {
    EXPECT_EQ(positive[i], std::max(in[i], 0.0f)) << i;
    EXPECT_NEAR(out[i], std::sin(in[i]), 1e-6f) << i;
  }
}

}  // namespace
}  // namespace freight::cpu
