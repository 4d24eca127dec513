// Random functions as programs write them, with gradients with respect to all inputs: compiled for the CPU they give
// what the reference gives. Inputs have few numbers, many of them one row or column, so that values of several shapes
// meet in a step.
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "freight/base/strings.h"
#include "freight/ops/ops.h"
#include "freight/trace/compile.h"

namespace freight::test {
namespace {

// One step of a function: an operation on two of the values so far, and two numbers for it.
struct Step {
  uint64_t op = 0;
  size_t a = 0, b = 0;
  uint64_t k = 0, l = 0;
};

bool broadcast(const Shape& a, const Shape& b) {
  return a.rank() == 2 && b.rank() == 2 && (a[0] == b[0] || a[0] == 1 || b[0] == 1) &&
         (a[1] == b[1] || a[1] == 1 || b[1] == 1);
}

// The value of a step; undefined where the operation is not for such values.
Tensor value_of(const Step& s, const std::vector<Tensor>& values) {
  const Tensor &a = values[s.a], &b = values[s.b];
  const auto axis = static_cast<int>(s.k % 2);
  const auto n = a.dim(axis);
  const auto first = static_cast<int64_t>(s.k / 2 % static_cast<uint64_t>(n));
  const bool same = broadcast(a.shape(), b.shape());
  switch (s.op) {
    case 0: return same ? a + b : Tensor();
    case 1: return same ? a * b : Tensor();
    case 2: return same ? tanh(a) * sin(b) : Tensor();
    case 3: return same ? a / (square(b) + 1.3) : Tensor();
    case 4: return same ? where(a > 0.1, a * 2.0, sin(b)) : Tensor();
    case 5: return sum(a, {axis}, Keep::yes);
    case 6: return mean(a, {axis}, Keep::yes) * b.dim(0);
    case 7: return transpose(a);
    case 8: return slice(a, axis, first, n);
    case 9: return a.dim(1 - axis) == b.dim(1 - axis) ? concat({a, b}, axis) : Tensor();
    case 10: return a.dim(1) == b.dim(1) ? matmul(a, transpose(b)) * 0.3 : Tensor();
    case 11: return matmul(transpose(a), a) * 0.3;
    case 12: return softmax(a, axis);
    case 13: return max(a, {axis}, Keep::yes) - a * 0.1;
    case 14: return reshape(a, {a.numel(), 1});
    case 15: return gather(a, Tensor::of<int64_t>({first, 0, first}), axis);
    case 16: return cumsum(a, axis) * 0.3;
    case 17: return pad(a, Shape{axis, 1}, Shape{1, axis}, 0.25);
    case 18: return exp(tanh(a));
    default: return same ? square(a - b) : Tensor();
  }
}

struct Function {
  std::vector<Step> steps;
  std::vector<Tensor> inputs;

  // (loss of all values, its gradients)
  std::pair<Tensor, std::vector<Tensor>> operator()(const std::vector<Tensor>& in) const {
    std::vector<Tensor> values = in;
    Tensor loss = zeros({}, DType::f64);
    for (const Step& s : steps) {
      values.push_back(value_of(s, values));
      loss = loss + sum(sin(values.back() * 0.4));
    }
    return {loss, grad(loss, in, {.allow_unused = true})};
  }
};

Function random_function(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return random() % n; };
  Function f;
  for (uint64_t i = 0; i < 2 + seed % 2; ++i) {
    const Shape shape{static_cast<int64_t>(1 + below(4)), static_cast<int64_t>(1 + below(3))};
    std::vector<double> numbers(static_cast<size_t>(shape[0] * shape[1]));
    for (double& x : numbers) x = static_cast<double>(below(4001)) / 1000 - 2;
    f.inputs.push_back(Tensor::of<double>(numbers, shape));
  }
  std::vector<Tensor> values = f.inputs;
  for (int i = 0; i < 60 && f.steps.size() < 3 + seed % 6; ++i) {
    const Step s{below(20), below(values.size()), below(values.size()), random(), random()};
    const Tensor y = value_of(s, values);
    if (!y.defined() || y.numel() > 60) continue;
    values.push_back(y);
    f.steps.push_back(s);
  }
  return f;
}

TEST(RandomFunctions, HaveTheValuesAndGradientsOfTheReferenceOnTheCpu) {
  for (uint64_t seed = 0; seed < 3000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    const Function f = random_function(seed);
    const auto [expected, expected_gradients] = compile(f, {.backend = "ref"})(f.inputs);
    const auto [loss, gradients] = compile(f, {.backend = "cpu"})(f.inputs);
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-9 * (1 + std::abs(expected.item<double>())));
    for (size_t i = 0; i < gradients.size(); ++i) {
      const auto got = gradients[i].to_vector<double>(), want = expected_gradients[i].to_vector<double>();
      for (size_t k = 0; k < want.size(); ++k) EXPECT_NEAR(got[k], want[k], 1e-8 * (1 + std::abs(want[k]))) << i;
    }
  }
}

}  // namespace
}  // namespace freight::test
