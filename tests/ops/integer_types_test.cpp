// Arithmetic in i8 to u64: NumPy's results, bit for bit, on every backend of this process; comparisons of mixed signs,
// numbers beside tensors, and where integers become floating numbers.
#include "tests/ops/integer_types.h"

#include <cmath>
#include <limits>

#include "tests/support/error_of.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

using Exact = long double;  // holds the numbers of i64 and of u64

class Integers : public ::testing::TestWithParam<DType> {};

TEST_P(Integers, AreNumPysBitForBit) {
  for (const std::string& backend : computing_backends()) {
    SCOPED_TRACE(backend);
    for (const bool together : {false, true}) {
      expect_numpys_integers(GetParam(), together,
                             [&](const Graph& g, const std::vector<Array>& in) { return run_planned(backend, g, in); });
    }
  }
}

// Numbers of other types, which hold neither all of these nor less.
TEST_P(Integers, AreComparedWithThoseOfOtherTypesExactly) {
  const Array x = integer_arrays(GetParam()).at("a");
  for (const DType other : integer_types()) {
    const Array y = integer_arrays(other).at("b");
    const Tensor a(x), b(y);
    const auto wide = [](const Array& v) {
      std::vector<Exact> all;
      if (v.dtype() == DType::u64) {
        for (const uint64_t e : v.to_vector<uint64_t>()) all.push_back(static_cast<Exact>(e));
      } else {
        for (const int64_t e : v.to_vector<int64_t>()) all.push_back(static_cast<Exact>(e));
      }
      return all;
    };
    const std::vector<Exact> left = wide(x), right = wide(y);
    const std::vector<std::vector<uint8_t>> got = {
        (a < b).to_vector<uint8_t>(),  (a <= b).to_vector<uint8_t>(),    (a > b).to_vector<uint8_t>(),
        (a >= b).to_vector<uint8_t>(), equal(a, b).to_vector<uint8_t>(), not_equal(a, b).to_vector<uint8_t>()};
    for (size_t i = 0; i < left.size(); ++i) {
      const Exact l = left[i], r = right[i];
      const bool need[] = {l<r, l <= r, l> r, l >= r, l == r, l != r};
      for (size_t k = 0; k < got.size(); ++k) {
        EXPECT_EQ(got[k][i] != 0, need[k])
            << GetParam() << " and " << other << ", comparison " << k << " of " << l << " and " << r;
      }
    }
  }
}

TEST_P(Integers, BesideNumbersKeepTheirTypeOrBecomeF32) {
  const DType t = GetParam();
  const Tensor x = full({3}, 5, t);
  EXPECT_EQ((x + 1).dtype(), t);
  EXPECT_EQ((x + 1.5).dtype(), DType::f32);
  EXPECT_EQ((x / x).dtype(), DType::f32);
  EXPECT_EQ(pow(x, 2).dtype(), t);
  EXPECT_EQ(pow(x, 2).to_vector<int>(), (std::vector<int>{25, 25, 25}));
  EXPECT_EQ(clamp(x, 1, 4).to_vector<int>(), (std::vector<int>{4, 4, 4}));
  EXPECT_EQ((x < 1e30).to_vector<int>(), (std::vector<int>{1, 1, 1}));
  EXPECT_EQ((x > -1).to_vector<int>(), (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(matmul(full({2, 3}, 2, t), full({3, 2}, 3, t)).dtype(), t);
  EXPECT_EQ(sum(x).dtype(), t == DType::u64 ? DType::u64 : DType::i64);
  EXPECT_EQ(relu(x - 5).to_vector<int>(), (std::vector<int>{0, 0, 0}));
}

TEST_P(Integers, OfNothingHaveASumAndNoMaximum) {
  const Tensor none = zeros({0, 3}, GetParam());
  EXPECT_EQ(sum(none, 0).to_vector<int>(), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(prod(none, 0).to_vector<int>(), (std::vector<int>{1, 1, 1}));
  for (const auto& f : {max, min}) {
    EXPECT_NE(testing::message_of([&] { f(none, 0, Keep::no); }).find("is empty"), std::string::npos);
  }
  EXPECT_EQ(matmul(zeros({2, 0}, GetParam()), zeros({0, 1}, GetParam())).to_vector<int>(), (std::vector<int>{0, 0}));
}

// Long sums are cut into parts, and those of narrow types are cut to their own bits in the end alone.
TEST_P(Integers, WrapInLongSumsOfOps) {
  const DType t = GetParam();
  const int64_t n = 70000;
  Graph g;
  Builder b(g);
  const Value x = b.one(Op::input, LeafAttrs{"x", {t, {n, 3}}}, {});
  g.outputs = {b.one(Op::sum, AxesAttrs{{0}}, {x}), b.one(Op::sum, AxesAttrs{{0, 1}}, {x}),
               b.one(Op::reduce_max, AxesAttrs{{0}}, {x}), b.one(Op::reduce_min, AxesAttrs{{1}}, {x})};
  Array in(DType::i64, {n, 3});
  for (int64_t i = 0; i < 3 * n; ++i) in.data<int64_t>()[i] = (i * 37) % 251 - 125;
  const Array narrow = in.cast(t);
  const std::vector<Array> need = interpret(g, {narrow});
  int64_t total = 0;
  for (int64_t i = 0; i < 3 * n; ++i) {
    dispatch(t, [&]<class T>(T) {
      if constexpr (std::is_integral_v<T>) total += static_cast<int64_t>(narrow.data<T>()[i]);
    });
  }
  EXPECT_TRUE(same_bytes(need[1], Array::of<int64_t>({total}, {1, 1}).cast(t)));
  for (const std::string& backend : computing_backends()) {
    const std::vector<Array> got = run_planned(backend, g, {narrow});
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bytes(got[i], need[i])) << backend << " " << i;
  }
}

TEST_P(Integers, AreIndicesOfEveryType) {
  const DType t = GetParam();
  const Tensor x = Tensor::of<float>({10, 11, 12, 13}, {4}), at = cast(Tensor::of<int>({3, 0, 1}, {3}), t);
  EXPECT_EQ(gather(x, at).to_vector<float>(), (std::vector<float>{13, 10, 11}));
  EXPECT_EQ(x[at].to_vector<float>(), (std::vector<float>{13, 10, 11}));
  EXPECT_EQ(scatter_add(at, ones({3}, t), 4).to_vector<int>(), (std::vector<int>{1, 1, 0, 1}));
  EXPECT_EQ(sum(one_hot(at, 300)).item<float>(), 3);
  EXPECT_EQ(bincount(at, 5).to_vector<int>(), (std::vector<int>{1, 1, 0, 1, 0}));
  EXPECT_NE(testing::message_of([&] {
              gather(x, at + 4).to_vector<float>();
            }).find("index out of range: expected 0 to 3, got "),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, Integers, ::testing::ValuesIn(integer_types()),
                         [](const auto& p) { return freight::to_string(p.param); });

TEST(IntegersAsFloats, AreRoundedOnceAlsoAbove63Bits) {
  const std::vector<uint64_t> from{~uint64_t{0}, uint64_t{1} << 63, (uint64_t{1} << 63) + 1024, 0x8000008000000001u,
                                   (uint64_t{1} << 53) + 1};
  const Tensor x = Tensor::of(from, {static_cast<int64_t>(from.size())});
  const std::vector<float> single = cast(x, DType::f32).to_vector<float>();
  const std::vector<double> whole = cast(x, DType::f64).to_vector<double>();
  for (size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(single[i], static_cast<float>(from[i]));
    EXPECT_EQ(whole[i], static_cast<double>(from[i]));
  }
  EXPECT_EQ((x / 2).to_vector<float>()[1], 0x1p62F);
  EXPECT_EQ(cast(full({1}, 1e30), DType::u64).to_vector<uint64_t>()[0], ~uint64_t{0});
  EXPECT_EQ(full({1}, 1e19, DType::u64).to_vector<uint64_t>()[0], uint64_t{10000000000000000000u});
  EXPECT_EQ((full({1}, 1e19, DType::u64) + 1).to_vector<uint64_t>()[0], uint64_t{10000000000000000001u});
}

TEST(IntegersBool, StaysLogical) {
  const Tensor x = zeros({2}, DType::boolean);
  for (const auto& f : {std::function<void()>([&] { x + x; }), std::function<void()>([&] { -x; }),
                        std::function<void()>([&] { max(x); }), std::function<void()>([&] { bitwise_and(x, x); })}) {
    EXPECT_NE(testing::message_of(f).find("does not compute in bool: expected "), std::string::npos);
  }
}

}  // namespace
}  // namespace freight::test
