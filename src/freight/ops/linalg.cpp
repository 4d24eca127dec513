// Front ends of contractions. See linalg.h. Letters: M rows, K contracted, N columns.
#include "freight/ops/linalg.h"

#include "freight/ops/common.h"
#include "freight/ops/elementwise.h"

namespace freight {

namespace {

[[noreturn]] void inner_differ(const Type& a, int axis_a, const Type& b, int axis_b) {
  ops::fail_here("matmul", "inner dimensions differ: lhs ", a, " axis ", axis_a, " = ", a.shape[axis_a], ", rhs ", b,
                 " axis ", axis_b, " = ", b.shape[axis_b]);
}

Shape with_batch(const Shape& batch, const Shape& matrix) {
  Shape s = batch;
  s.push_back(matrix[matrix.rank() - 2]);
  s.push_back(matrix[matrix.rank() - 1]);
  return s;
}

// Leading axes folded into rows: (..., K) x (K, N), or x (N, K) transposed.
Tensor folded(const Tensor& a, const Tensor& b, bool trans_b) {
  const int64_t k = a.dim(-1), n = b.dim(trans_b ? 0 : 1);
  Shape s = a.shape();
  s[s.rank() - 1] = 1;
  const Tensor rows = a.rank() == 2 ? a : ops::reshaped(a, {s.numel(), k});
  const Tensor y = ops::one(Op::matmul, MatmulAttrs{false, trans_b, {}}, {rows, b});
  s[s.rank() - 1] = n;
  return ops::reshaped(y, s);
}

Tensor linear_product(const Tensor& x, const Tensor& w) {
  if (w.rank() != 2 || x.rank() < 1)
    ops::fail_here("linear", "expected x (..., in) and w (out, in), got ", x.type(), ", ", w.type());
  if (x.dim(-1) != w.dim(1)) {
    ops::fail_here("linear", "inner dimensions differ: input ", x.type(), " axis ", x.rank() - 1, " = ", x.dim(-1),
                   ", weight ", w.type(), " axis 1 = ", w.dim(1));
  }
  if (x.rank() == 1) return ops::reshaped(folded(ops::reshaped(x, {1, x.dim(0)}), w, true), {w.dim(0)});
  return folded(x, w, true);
}

}  // namespace

Tensor matmul(const In& lhs, const In& rhs) {
  const Frame frame(lhs.where, "matmul");
  const Tensor a0 = ops::get(lhs, "matmul"), b0 = ops::get(rhs, "matmul");
  if (a0.rank() == 0 || b0.rank() == 0)
    ops::fail_here("matmul", "operands need an axis: lhs ", a0.type(), ", rhs ", b0.type());
  const int axis_b = b0.rank() == 1 ? 0 : b0.rank() - 2;
  if (a0.dim(-1) != b0.dim(axis_b)) inner_differ(a0.type(), a0.rank() - 1, b0.type(), axis_b);
  // One-dimensional operands become a row or a column; their axis is dropped from the result.
  const Tensor a = a0.rank() == 1 ? ops::reshaped(a0, {1, a0.dim(0)}) : a0;
  const Tensor b = b0.rank() == 1 ? ops::reshaped(b0, {b0.dim(0), 1}) : b0;
  Tensor y;
  if (b.rank() == 2) {
    y = folded(a, b, false);
  } else {
    Shape batch;
    const Shape batch_a(a.shape().begin(), a.shape().end() - 2), batch_b(b.shape().begin(), b.shape().end() - 2);
    if (!broadcast_shapes(batch_a, batch_b, batch)) {
      ops::fail_here("matmul", "batch axes do not broadcast: lhs ", a0.type(), ", rhs ", b0.type());
    }
    y = ops::one(Op::matmul, MatmulAttrs{},
                 {ops::expanded(a, with_batch(batch, a.shape()), "matmul"),
                  ops::expanded(b, with_batch(batch, b.shape()), "matmul")});
  }
  Shape s = y.shape();
  if (b0.rank() == 1) s.erase(s.rank() - 1);
  if (a0.rank() == 1) s.erase(s.rank() - (b0.rank() == 1 ? 1 : 2));
  return ops::reshaped(y, s);
}

Tensor linear(const In& x, const In& w) {
  const Frame frame(x.where, "linear");
  return ops::named("linear", [&] { return linear_product(ops::get(x, "linear"), ops::get(w, "linear")); });
}

Tensor linear(const In& x, const In& w, const In& b) {
  const Frame frame(x.where, "linear");
  const Tensor weight = ops::get(w, "linear"), bias = ops::get(b, "linear");
  const Tensor y = linear(x, weight);
  if (bias.shape() != Shape{weight.dim(0)})
    ops::fail_here("linear", "expected bias (out), got ", bias.type(), " with weight ", weight.type());
  return ops::named("linear", [&] { return y + bias; });
}

}  // namespace freight
