// Plans of frozen weights that compute a batch in parts: the graph of a part, what has no parts, and runs of all parts.
#include <gtest/gtest.h>

#include "freight/nn/nn.h"
#include "freight/ops/ops.h"
#include "freight/passes/batch_parts.h"
#include "freight/passes/passes.h"
#include "freight/run/plan.h"
#include "freight/trace/compile.h"
#include "freight/trace/tracer.h"
#include "tests/support/arrays.h"
#include "tests/support/fusing_backend.h"

namespace freight::test {
namespace {

// Holds what three samples of `images` below move, and not four.
constexpr size_t kCache = 28000;

class SmallCache final : public FusingBackend {
 public:
  std::string name() const override { return "small_cache"; }
  size_t cache_bytes() const override { return kCache; }
};

const char* small_cache() {
  static const bool registered = [] {
    register_backend(std::make_unique<SmallCache>());
    return true;
  }();
  return registered ? "small_cache" : "";
}

using Function = std::function<Tensor(const Tensor&)>;

// Images (N, 2, 8, 16): convolutions with BatchNorm, a residual sum, pooling, products, and a softmax.
Function images() {
  struct Net {
    nn::Conv2d first{2, 4, 3, {.padding = 1}}, second{4, 4, 3, {.padding = 1}};
    nn::BatchNorm2d norm{4};
    nn::Linear last{4, 5};
  };
  auto net = std::make_shared<Net>();
  net->norm.eval();
  return [net](const Tensor& x) {
    const Tensor y = relu(net->norm(net->first(x)));
    return softmax(net->last(mean(minimum(net->second(y), 6) + y, {2, 3})), -1);
  };
}

// Sequences (N, 16, 16): heads as an axis before the others, and samples joined with another axis.
Tensor sequences(const Tensor& x) {
  const int64_t n = x.shape()[0];
  const Tensor heads = transpose(reshape(x, {n, 16, 2, 8}), 1, 2);
  const Tensor rows = reshape(transpose(attention(heads, heads, heads), 1, 2), {n * 16, 16});
  return narrow(layer_norm(reshape(matmul(rows, full({16, 16}, 0.5)), {n, 16, 16}), ones({16}), zeros({16})), 1, 0, 1);
}

Graph graph_of(const Function& f, Shape shape, int64_t n) {
  const auto tape = std::make_shared<trace::Trace>(trace::Trace::Mode::compile);
  const trace::Recording recording(tape);
  shape.insert(0, n);
  const Tensor x = tape->input("x", {DType::f32, shape});
  tape->finish({tape->value_of(f(x))});
  return passes::dead_code(tape->graph());
}

Array noise(Shape shape, uint64_t seed) { return random_array({{DType::f32, std::move(shape)}, Fill::normal}, seed); }

TEST(BatchParts, TheGraphOfAPartIsThatOfABatchOfItsSize) {
  const auto expect_parts = [](const Function& f, const Shape& sample, size_t cache, int64_t n, int64_t part) {
    const passes::BatchParts parts = passes::batch_parts(graph_of(f, sample, n), cache);
    EXPECT_EQ(parts.count, n / part) << n;
    if (part == n) return;
    EXPECT_TRUE(structurally_equal(parts.graph, graph_of(f, sample, part))) << print(parts.graph);
    EXPECT_EQ(parts.inputs, std::vector<bool>{true});
  };
  const Function net = images();
  expect_parts(net, {2, 8, 16}, kCache, 12, 3);
  expect_parts(net, {2, 8, 16}, kCache, 8, 2);
  expect_parts(net, {2, 8, 16}, kCache, 3, 3);
  expect_parts(net, {2, 8, 16}, 0, 12, 12);  // there is no cache
  expect_parts(sequences, {16, 16}, 10000, 6, 2);
}

TEST(BatchParts, WhatMixesSamplesOrNamesThemHasNone) {
  const auto count = [](const Function& f) {
    const auto of_product = [&f](const Tensor& x) { return f(matmul(x, full({24, 8}, 0.5))); };
    return passes::batch_parts(graph_of(of_product, {32, 24}, 16), 8192).count;
  };
  EXPECT_EQ(count([](const Tensor& x) { return relu(x); }), 16);
  EXPECT_EQ(count([](const Tensor& x) { return softmax(x, 0); }), 1);
  EXPECT_EQ(count([](const Tensor& x) { return x - mean(x, 0, Keep::yes); }), 1);
  EXPECT_EQ(count([](const Tensor& x) { return sum(x); }), 1);
  EXPECT_EQ(count([](const Tensor& x) { return x * cast(iota(x.shape(), 0, DType::i32), DType::f32); }), 1);
  // It refuses an index by its place in the batch.
  EXPECT_EQ(count([](const Tensor& x) { return gather(ones({8, 4}), cast(x, DType::i32), 0); }), 1);
  // The zeros are equal for all samples, but no rows of them.
  const auto by_zeros = [](const Tensor& x) { return matmul(x, zeros({16, 16})); };
  EXPECT_EQ(passes::batch_parts(graph_of(by_zeros, {16}, 16), 512).count, 1);
}

TEST(BatchParts, ManyWeightsAreNotReadForEachPart) {
  const Variable weight("w", Type{DType::f32, {16, 8}});
  const auto product = [&](const Tensor& x) { return matmul(x, weight); };
  // A part makes 8 numbers in each row; 48 rows of them are three times the weights.
  for (const int64_t rows : {48, 47})
    EXPECT_EQ(passes::batch_parts(graph_of(product, {rows, 16}, 16), 16384).count, rows == 48 ? 16 : 1) << rows;
}

TEST(BatchParts, AllPartsTogetherAreTheBatch) {
  const Function net = images();
  auto parts = compile(net, {.backend = small_cache(), .frozen = true});
  auto whole = compile(net, {.backend = fusing_backend(), .frozen = true});
  for (const int64_t n : {12, 7, 2, 1}) {
    for (const uint64_t seed : {1, 2}) {  // at other addresses
      const Array x = noise({n, 2, 8, 16}, seed);
      EXPECT_TRUE(close(parts(x).array(), whole(x).array(), 1e-6, 1e-6)) << n;
    }
    const Array x = noise({n, 2, 8, 16}, 3);
    EXPECT_TRUE(close(parts.repeat(3, x).array(), whole(x).array(), 1e-6, 1e-6)) << n;
    const auto plan = parts.plan(x), other = whole.plan(x);
    EXPECT_EQ(plan->parts().count, n == 12 ? 4 : n == 7 ? 7 : 1);
    EXPECT_EQ(other->parts().count, 1);
    EXPECT_EQ(plan->total_cost().flops, other->total_cost().flops);
    EXPECT_EQ(plan->arena_bytes() < other->arena_bytes(), n > 3) << n;
    const std::vector<double> seconds = parts.executable(x).run_timed({x}, {Array(DType::f32, {n, 5})});
    EXPECT_EQ(seconds.size(), plan->steps().size());
  }
}

TEST(BatchParts, NeitherFixedKernelsNorChangingWeightsHaveThem) {
  const Array x = noise({12, 2, 8, 16}, 1);
  const auto count = [&](CompileOptions options) {
    options.backend = small_cache();
    return compile(images(), options).plan(x)->parts().count;
  };
  EXPECT_EQ(count({.frozen = true}), 4);
  EXPECT_EQ(count({.deterministic = true, .frozen = true}), 1);
  EXPECT_EQ(count({}), 1);
}

}  // namespace
}  // namespace freight::test
