// Which values of a forward pass depend on one sample each.
#include "freight/ir/sample_rows.h"

#include <gtest/gtest.h>

#include "freight/ops/ops.h"
#include "freight/trace/tracer.h"

namespace freight::test {
namespace {

// Dependences of the results of a function on x (2, ...).
Dependence of(const Shape& shape, const std::function<Tensor(const Tensor&)>& f) {
  const auto tape = std::make_shared<trace::Trace>(trace::Trace::Mode::compile);
  const trace::Recording recording(tape);
  const Tensor x = tape->input("x", {DType::f32, shape});
  const Value input = tape->value_of(x), y = tape->value_of(f(x));
  return dependences_of(tape->graph(), 2,
                        [&](Value leaf) { return leaf == input ? Dependence::rows : Dependence::constant; })[y];
}

TEST(Dependence, KnowsWhatMixesSamples) {
  using enum Dependence;
  const Shape s{2, 3, 4};
  EXPECT_EQ(of(s, [](const Tensor& x) { return relu(x * 2 + 1); }), rows);
  EXPECT_EQ(of(s, [](const Tensor& x) { return softmax(x, -1); }), rows);
  EXPECT_EQ(of(s, [](const Tensor& x) { return softmax(x, 0); }), other);
  EXPECT_EQ(of(s, [](const Tensor& x) { return x - mean(x, 0, Keep::yes); }), other);
  EXPECT_EQ(of(s, [](const Tensor& x) { return sum(x, 2); }), rows);
  EXPECT_EQ(of(s, [](const Tensor& x) { return reshape(x, {6, 4}); }), rows);
  EXPECT_EQ(of(s, [](const Tensor& x) { return matmul(reshape(x, {6, 4}), ones({4, 5})); }), rows);
  EXPECT_EQ(of(s, [](const Tensor& x) { return matmul(x, transpose(x, 1, 2)); }), rows);
  EXPECT_EQ(of({2, 3}, [](const Tensor& x) { return matmul(x, transpose(x)); }), other);
  EXPECT_EQ(of(s, [](const Tensor& x) { return transpose(x, 0, 1); }), other);
  EXPECT_EQ(of(s, [](const Tensor& x) { return narrow(x, 0, 0, 1); }), other);
  EXPECT_EQ(of(s, [](const Tensor& x) { return concat({x, x}, 1); }), rows);
  EXPECT_EQ(of(s, [](const Tensor& x) { return concat({x, x}, 0); }), other);
  // What depends on the place in the batch is no property of the sample.
  EXPECT_EQ(of(s, [](const Tensor& x) { return x + cast(iota(x.shape(), 0, DType::i32), DType::f32); }), other);
  EXPECT_EQ(of(s, [](const Tensor& x) { return x + cast(iota(x.shape(), 1, DType::i32), DType::f32); }), rows);
  EXPECT_EQ(of(s, [](const Tensor& x) { return dropout(x, 0.5); }), other);
  EXPECT_EQ(of(s, [](const Tensor& x) { return layer_norm(x, ones({4}), zeros({4})); }), rows);
}

}  // namespace
}  // namespace freight::test
