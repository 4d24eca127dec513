// Functions on whole arrays: creation, order, reductions, products, losses. The values are PyTorch's; a thousand random
// configurations are compared with it in tests/peers/torch_random_test.cpp where it is installed.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "freight/base/error.h"
#include "freight/ops/ops.h"
#include "tests/support/error_of.h"

namespace freight::test {
namespace {

using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

class Arrays : public ::testing::TestWithParam<std::string> {
 protected:
  const DeviceScope on_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Backends, Arrays, ::testing::Values("ref", "cpu"),
                         [](const auto& instance) { return instance.param; });

void expect(const Tensor& got, const Floats& values) {
  const Floats v = got.to_vector<float>();
  ASSERT_EQ(v.size(), values.size());
  for (size_t i = 0; i < v.size(); ++i) {
    if (std::isinf(values[i])) {
      EXPECT_EQ(v[i], values[i]) << i;
    } else {
      EXPECT_NEAR(v[i], values[i], 1e-5f * std::max(1.0f, std::fabs(values[i]))) << i;
    }
  }
}
void expect_integers(const Tensor& got, DType dtype, const Ints& values) {
  EXPECT_EQ(got.dtype(), dtype);
  EXPECT_EQ(got.to_vector<int64_t>(), values);
}
Floats gradient(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  return grad(sum(f(x)), std::vector<Tensor>{x})[0].to_vector<float>();
}
using freight::testing::message_of;

TEST_P(Arrays, TwoRandomNumbersAreThoseOfTheReference) {
  const auto drawn = [] {
    seed(5);
    const Tensor a = randn({2}), b = random_uniform({2}), c = dropout(ones({2}), 0.5);
    return concat({a, b, c, cast(randint(0, 1000, {2}), DType::f32)}, 0).to_vector<float>();
  };
  const std::vector<float> here = drawn();
  const DeviceScope on("ref");
  const std::vector<float> there = drawn();
  ASSERT_EQ(here.size(), there.size());
  for (size_t i = 0; i < here.size(); ++i) EXPECT_NEAR(here[i], there[i], 1e-5) << i;
}

TEST_P(Arrays, OfNegativeOrCountlessExtentsAreRefusedByName) {
  const Tensor x = ones({2, 3});
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  const std::pair<std::string, std::string> cases[] = {
      {message_of([] { zeros({-1}); }), "zeros: sizes must not be negative: got [-1]"},
      {message_of([] {
         ones({2, -3});
       }),
       "ones: sizes must not be negative: got [2,-3]"},
      {message_of([] { full({-2}, 1); }), "full: sizes must not be negative: got [-2]"},
      {message_of([] { iota({-2}, 0); }), "iota: sizes must not be negative: got [-2]"},
      {message_of([] { arange(-5); }), "arange: sizes must not be negative: got [-5]"},
      {message_of([] { eye(-5); }), "eye: sizes must not be negative: got [-5,-5]"},
      {message_of([] { randn({-1}); }), "randn: sizes must not be negative: got [-1]"},
      {message_of([] { random_uniform({-1}); }), "random_uniform: sizes must not be negative: got [-1]"},
      {message_of([] { randint(0, 5, {-2}); }), "randint: sizes must not be negative: got [-2]"},
      {message_of([&] {
         broadcast_to(x, {-1, 2, 3});
       }),
       "broadcast_to: sizes must not be negative: got [-1,2,3]"},
      {message_of([] {
         Variable("v", {DType::f32, {-1}});
       }),
       "'v': sizes must not be negative: got f32[-1]"},
      {message_of([&] { one_hot(arange(2), -1); }), "one_hot: sizes must not be negative: got [2,-1]"},
      {message_of([&] {
         pad(x, {kLargest, 0}, {1, 0});
       }),
       "pad: padding on axis 0 of f32[2,3] is too large"},
      {message_of([&] {
         pad(x, {0, 0}, {0, int64_t{1} << 48});
       }),
       "has too many elements"},
      {message_of([&] { narrow(x, 0, 1, kLargest); }), "is outside of axis 0"},
      {message_of([&] {
         split(x, {kLargest, 3 - kLargest, 0}, 1);
       }),
       "split: sizes must be from 0 to 3"},
      {message_of([&] {
         reshape(x, {int64_t{1} << 62, 4, -1});
       }),
       "reshape: too many elements"},
      {message_of([&] {
         reshape(x, {int64_t{1} << 32, int64_t{1} << 32});
       }),
       "too many elements"},
      {message_of([] { randint(-kLargest, kLargest, {2}); }), "expected from 1 to 2^24 numbers"},
      {message_of([] { arange(0.0, 1e300, 1.0); }), "arange: too many numbers"},
  };
  for (const auto& [got, need] : cases) EXPECT_NE(got.find(need), std::string::npos) << got << ", expected " << need;
}

TEST_P(Arrays, TakeStepsAsLargeAsANumberCanBe) {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  expect(slice(arange(5, DType::f32), 0, 1, 5, kLargest), {1});
  expect(slice(arange(5, DType::f32), 0, 0, 5, 3), {0, 3});
  EXPECT_EQ(slice(arange(5, DType::f32), 0, 5, 5, kLargest).shape(), (Shape{0}));
}

TEST_P(Arrays, AreMadeFromNumbers) {
  expect_integers(arange(2, 9, 3), DType::i32, {2, 5, 8});
  expect_integers(arange(5, 0, -2), DType::i32, {5, 3, 1});
  expect_integers(arange(3, 3), DType::i32, {});
  expect(arange(0.0, 1.0, 0.25), {0, 0.25f, 0.5f, 0.75f});
  EXPECT_EQ(arange(0, 1.0, 0.5).dtype(), DType::f32);
  expect(arange(2.5), {0, 1, 2});  // once it was the arange of the whole number 2
  expect(arange(2.0F), {0, 1});
  expect(linspace(-1, 1, 5), {-1, -0.5f, 0, 0.5f, 1});
  EXPECT_EQ(linspace(0, 0.3, 4).to_vector<float>()[3], 0.3f);
  expect(linspace(2, 5, 1), {2});
  expect(eye(2, 3), {1, 0, 0, 0, 1, 0});
  expect_integers(eye(2, -1, DType::i32), DType::i32, {1, 0, 0, 1});
  EXPECT_NE(message_of([] { arange(0, 5, -1); }).find("no way from 0 to 5 by steps of -1"), std::string::npos);
  seed(3);
  const Tensor r = randint(-2, 3, {1000});
  EXPECT_EQ(r.dtype(), DType::i64);
  EXPECT_EQ(min(r).item<int>(), -2);
  EXPECT_EQ(max(r).item<int>(), 2);
  EXPECT_NEAR(mean(randn({10000})).item<double>(), 0, 0.05);
  EXPECT_NEAR(stddev(randn({10000})).item<double>(), 1, 0.05);
}

TEST_P(Arrays, SortKeepsTheOrderOfEqualsAndPutsNanLast) {
  const Tensor x = Tensor::of<float>({2, -1, 2, NAN, 0});
  expect_integers(argsort(x), DType::i32, {1, 4, 0, 2, 3});
  expect_integers(argsort(x, 0, Order::descending), DType::i32, {3, 0, 2, 4, 1});
  expect_integers(sort(Tensor::of<int64_t>({9007199254740993, 9007199254740992, -5})).values, DType::i64,
                  {-5, 9007199254740992, 9007199254740993});
  const Sorted two = topk(Tensor::of<float>({{1, 5, 3}, {9, 7, 8}}), 2);
  expect(two.values, {5, 3, 9, 8});
  expect_integers(two.indices, DType::i32, {1, 2, 0, 2});
  expect(sort(Tensor::of<float>({{3, 1}, {2, 4}}), 0).values, {2, 1, 3, 4});
  EXPECT_EQ(gradient(
                [](const Tensor& t) {
                  return topk(t, 2).values * Tensor::of<float>({1, 10});
                },
                Tensor::of<float>({1, 5, 3})),
            (Floats{0, 1, 10}));
  EXPECT_NE(message_of([&] { topk(x, 6); }).find("expected 0 to 5 for f32[5], got k 6"), std::string::npos);
}

TEST_P(Arrays, Reductions) {
  const Tensor x = Tensor::of<float>({{1, 2, 3}, {4, 0, 6}});
  expect(prod(x, 1), {6, 0});
  EXPECT_EQ(gradient([](const Tensor& t) { return prod(t, 1); }, x), (Floats{6, 3, 2, 0, 24, 0}));
  expect_integers(prod(full({3}, 200, DType::u8)), DType::i64, {8000000});
  expect_integers(prod(arange(1, 21)), DType::i64, {2432902008176640000});
  expect(prod(zeros({0})), {1});
  expect_integers(any(x, 0), DType::boolean, {1, 1, 1});
  expect_integers(all(x, 0), DType::boolean, {1, 0, 1});
  expect_integers(all(zeros({0})), DType::boolean, {1});
  expect(norm(x), {8.1240384f});
  expect(norm(x, 1, {.p = 1}), {6, 10});
  expect(norm(x, 1, {.p = INFINITY}), {3, 6});
  expect(norm(x, 1, {.p = 0}), {3, 2});
  expect(norm(x, 1, {.p = 3}), {3.3019273f, 6.5421326f});
  EXPECT_EQ(gradient([](const Tensor& t) { return norm(t); }, zeros({2})), (Floats{0, 0}));
  expect(stddev(x, 1), {1, 3.0550504f});
  EXPECT_EQ(gradient([](const Tensor& t) { return stddev(t); }, full({2}, 2.0)), (Floats{0, 0}));
  expect(logsumexp(x * 100.0, 1), {300, 600});
  expect(cumsum(x, 1), {1, 3, 6, 4, 4, 10});
  EXPECT_EQ(gradient([](const Tensor& t) { return cumsum(t, 1); }, x), (Floats{3, 2, 1, 3, 2, 1}));
  expect_integers(cumsum(full({3}, 255, DType::u8), 0), DType::i64, {255, 510, 765});
  expect_integers(cumsum(Tensor::of<int64_t>({9007199254740993, 0, 1}), 0), DType::i64,
                  {9007199254740993, 9007199254740993, 9007199254740994});
  expect_integers(flip(arange(4), 0), DType::i32, {3, 2, 1, 0});
  expect_integers(bincount(Tensor::of<int32_t>({0, 2, 2}), 4), DType::i64, {1, 0, 2, 0});
}

TEST_P(Arrays, RemaindersHaveTheSignOfTheDivisor) {
  const Tensor a = Tensor::of<float>({5, -5, 5, -5, 5, 6}), b = Tensor::of<float>({3, 3, -3, -3, -INFINITY, 3});
  expect(remainder(a, b), {2, 1, -1, -2, -INFINITY, 0});
  expect(fmod(a, b), {2, -2, 2, -2, 5, 0});
  expect_integers(remainder(Tensor::of<int32_t>({5, -5, 5, -5}), Tensor::of<int32_t>({3, 3, -3, -3})), DType::i32,
                  {2, 1, -1, -2});
  const Tensor divisors = Tensor::of<float>({3, 3, -3, -3});
  EXPECT_EQ(gradient(
                [&](const Tensor& t) {
                  return remainder(Tensor::of<float>({5, -5, 5, -5}), t);
                },
                divisors),
            (Floats{-1, 2, 2, -1}));
}

TEST_P(Arrays, OperatorsOfLogicAndAssignment) {
  const Tensor x = Tensor::of<float>({-1, 0, 2});
  expect_integers(x > -0.5 && x < 1, DType::boolean, {0, 1, 0});
  expect_integers(!(x > 0) || x > 1, DType::boolean, {1, 1, 1});
  Tensor y = x;
  y += 1;
  y *= x;
  (y -= 0.5) /= 2;
  expect(y, {-0.25f, -0.25f, 2.75f});
  expect(x, {-1, 0, 2});
}

TEST_P(Arrays, EinsteinsSums) {
  const Tensor a = Tensor::of<float>({{1, 2}, {3, 4}}), b = Tensor::of<float>({{5, 6}, {7, 8}});
  expect(einsum("ij,jk->ik", {a, b}), {19, 22, 43, 50});
  expect(einsum("ij,jk", {a, b}), {19, 22, 43, 50});
  expect(einsum("ij->ji", {a}), {1, 3, 2, 4});
  expect(einsum("ii", {a}), {5});
  expect(einsum("ii->i", {a}), {1, 4});
  expect(einsum("ij,ij->i", {a, b}), {17, 53});
  expect(einsum("i,j->ij", {a[0], b[0]}), {5, 6, 10, 12});
  expect(einsum("ij,ik,il->jkl", {a, b, a}), {68, 94, 78, 108, 94, 132, 108, 152});
  expect_integers(einsum("ij,jk->ik", {arange(4)[Tensor::of<int32_t>({{0, 1}, {2, 3}})], eye(2, 2, DType::i32)}),
                  DType::i32, {0, 1, 2, 3});
  EXPECT_EQ(gradient([&](const Tensor& t) { return einsum("ij,jk->ik", {t, b}); }, a), (Floats{11, 15, 11, 15}));
  EXPECT_NE(message_of([&] { einsum("ij,jk->ik", {a}); }).find("names 2 operands: got 1"), std::string::npos);
  EXPECT_NE(message_of([&] { einsum("ij->ik", {a}); }).find("letter 'k' of the result"), std::string::npos);
  EXPECT_NE(message_of([&] {
              einsum("ij,jk->ik", {a, ones({3, 2})});
            }).find("letter 'j' has sizes 2 and 3"),
            std::string::npos);
}

TEST_P(Arrays, LossesOfDistances) {
  const Tensor x = Tensor::of<float>({0, 0.5f, 2, -3}), y = zeros({4});
  expect(smooth_l1_loss(x, y, 1, Reduction::none), {0, 0.125f, 1.5f, 2.5f});
  expect(huber_loss(x, y, 2, Reduction::none), {0, 0.125f, 2, 4});
  EXPECT_EQ(gradient([&](const Tensor& t) { return huber_loss(t, y, 2, Reduction::sum); }, x),
            (Floats{0, 0.5f, 2, -2}));
  const Tensor p = Tensor::of<float>({{0.5f, 0.5f, 0}}), q = Tensor::of<float>({{0.25f, 0.25f, 0.5f}});
  expect(kl_div(log(q), p, {.reduction = Reduction::sum}), {0.69314718f});
  expect(kl_div(log(q), log(p), {.reduction = Reduction::sum, .log_target = true}), {0.69314718f});
  expect(kl_div(Tensor::of<float>({{-1, -1, -INFINITY}}), p, {.reduction = Reduction::sum}), {0.30685282f});
}

// In 16 bits sums, squares and counts are beyond the type long before the statistic is. The values are computed here in
// double, of the elements as the type holds them; the statistic is rounded once.
TEST_P(Arrays, StatisticsOf16BitsAreRoundedOnce) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    SCOPED_TRACE(to_string(dtype));
    const double allowed = (dtype == DType::f16 ? 0x1p-11 : 0x1p-8) * 1.1;  // a rounding, and the errors of f32
    Floats elements;
    for (int i = 0; i < 3000; ++i) elements.push_back((i % 2 ? 100.0f : -100.0f) + static_cast<float>(i % 7));
    const Tensor x = cast(Tensor::of<float>(elements, {3000}), dtype), rows = reshape(x, {1500, 2});
    const std::vector<double> v = x.to_vector<double>();
    const auto mean_of = [&](const std::function<double(double)>& f) {
      double total = 0;
      for (const double e : v) total += f(e);
      return total / static_cast<double>(v.size());
    };
    const double mean_x = mean_of([](double e) { return e; });
    const double spread = mean_of([&](double e) { return (e - mean_x) * (e - mean_x); }) * 3000 / 2999;
    const double squares = mean_of([](double e) { return e * e; }),
                 sizes = mean_of([](double e) { return std::fabs(e); });
    double entropy = 0, likelihood = 0;  // of class 0 of each row
    for (size_t i = 0; i < v.size(); i += 2) {
      entropy += std::max(v[i], v[i + 1]) + std::log1p(std::exp(-std::fabs(v[i] - v[i + 1]))) - v[i];
      likelihood -= v[i];
    }
    const Tensor labels = zeros({1500}, DType::i64), one = ones({3000}, dtype);
    const Tensor image = full({1, 1, 64, 64}, 3008, dtype);
    const struct {
      const char* name;
      Tensor got;
      double value;
    } cases[] = {
        {"mean of 70,000", mean(ones({70000}, dtype)), 1},
        {"mean of 2,049", mean(ones({2049}, dtype)), 1},
        {"mean", mean(abs(x)), sizes},
        {"var", var(x), spread},
        {"stddev", stddev(x), std::sqrt(spread)},
        {"stddev whose square is no f16", stddev(x * 8), 8 * std::sqrt(spread)},
        {"norm", norm(x), std::sqrt(squares * 3000)},
        {"norm 3", norm(x, {}, {.p = 3}), std::cbrt(mean_of([](double e) { return std::fabs(e * e * e); }) * 3000)},
        {"logsumexp", logsumexp(zeros({70000}, dtype)), std::log(70000.0)},
        {"prod", prod(cast(Tensor::of<float>({512, 0.0009765625f, 512, 0.0009765625f}), dtype)), 0.25},
        {"mse_loss", mse_loss(x, -x), 4 * squares},
        {"mse_loss whose squares are no f16", mse_loss(concat({full({1}, 512, dtype), zeros({99}, dtype)}, 0), 0),
         2621.44},
        {"l1_loss", l1_loss(x, -x), 2 * sizes},
        {"smooth_l1_loss", smooth_l1_loss(x, -x), 2 * sizes - 0.5},
        {"huber_loss", huber_loss(x, -x, 50), 50 * (2 * sizes - 25)},
        {"kl_div", kl_div(-abs(x), one), sizes},
        {"bce_with_logits", bce_with_logits(x, one),
         mean_of([](double e) { return std::log1p(std::exp(-std::fabs(e))) + std::max(-e, 0.0); })},
        {"cross_entropy", cross_entropy(rows, labels), entropy / 1500},
        {"cross_entropy but for ignored ones", cross_entropy(rows, labels, {.ignore_index = 1}), entropy / 1500},
        {"nll_loss", nll_loss(rows, labels), likelihood / 1500},
        {"adaptive_avg_pool2d", max(adaptive_avg_pool2d(image)), 3008},
        {"adaptive_avg_pool2d of equal windows", max(adaptive_avg_pool2d(image, {2, 2})), 3008},
        {"adaptive_avg_pool2d of unequal windows", max(adaptive_avg_pool2d(image, {3, 5})), 3008},
        {"avg_pool2d", max(avg_pool2d(image, {.kernel = 32})), 3008},
    };
    for (const auto& c : cases) {
      EXPECT_EQ(c.got.dtype(), dtype) << c.name;
      EXPECT_NEAR(c.got.item<double>(), c.value, allowed * std::fabs(c.value)) << c.name;
    }
    EXPECT_NEAR(grad(mean(x), std::vector<Tensor>{x})[0].to_vector<double>()[0], 1.0 / 3000, allowed / 3000);
  }
}

TEST_P(Arrays, LossesOf16BitsStillRefuseOtherTypes) {
  const Tensor h = ones({4}, DType::f16), f = ones({4});
  for (const auto& loss :
       {std::function<Tensor()>([&] { return mse_loss(h, f); }), std::function<Tensor()>([&] { return l1_loss(f, h); }),
        std::function<Tensor()>([&] { return bce_with_logits(h, f); })}) {
    EXPECT_NE(message_of([&] { loss(); }).find("element types differ"), std::string::npos);
  }
  EXPECT_EQ(mse_loss(h, 3).dtype(), DType::f16);
  EXPECT_EQ(mse_loss(h, 3).item<float>(), 4);
}

// Between 10^6 and 10^6 + 1 lie 15 numbers of f32: one draw in 32 was rounded to the end that is no draw.
TEST_P(Arrays, UniformDrawsStayBelowTheirEnd) {
  seed(5);
  const Floats drawn = random_uniform({10000}, 1e6, 1e6 + 1).to_vector<float>();
  seed(5);
  const Floats plain = (random_uniform({10000}) + 1e6).to_vector<float>();
  int held = 0;
  for (size_t i = 0; i < drawn.size(); ++i) {
    EXPECT_LT(drawn[i], 1000001.0f);
    if (plain[i] < 1000001.0f) {
      EXPECT_EQ(drawn[i], plain[i]);  // the other draws have the bits that they had
    } else {
      ++held;
    }
  }
  EXPECT_GT(held, 100);
}

}  // namespace
}  // namespace freight::test
