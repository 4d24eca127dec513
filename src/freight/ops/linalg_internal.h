// The sources of linear algebra share these: checks of matrices, right sides, batches. Internal: only ops/linalg*.cpp
// include it.
#pragma once
#include "freight/ops/common.h"
#include "freight/ops/linalg.h"
#include "freight/ops/shape.h"

namespace freight::ops {

inline void need_matrix(const Tensor& t, const char* op, const char* form = "(..., M, N)") {
  if (t.rank() < 2) fail_here(op, "needs a matrix: expected ", form, ", got ", t.type());
}
// Factorizations need a matrix of f32 or f64.
inline void need_factors(const Tensor& t, const char* op, const char* form = "(..., M, N)") {
  need_types(t, dtypes::kDouble, op);
  need_matrix(t, op, form);
}
inline void need_square(const Tensor& t, const char* op) {
  need_factors(t, op, "(..., N, N)");
  if (t.dim(-1) != t.dim(-2)) fail_here(op, "the matrix is not square: expected (..., N, N), got ", t.type());
}

// The axes in front of the last `count`.
inline Shape batch_of(const Tensor& t, int count = 2) { return Shape(t.shape().begin(), t.shape().end() - count); }
// The tensor with other axes in front of its last `count`, to which its own broadcast.
inline Tensor with_batch(const Tensor& t, const Shape& batch, const char* op, int count = 2) {
  Shape s = batch;
  for (int i = t.rank() - count; i < t.rank(); ++i) s.push_back(t.shape()[i]);
  return expanded(t, s, op);
}
// The batch axes of a and b, broadcast. Throws with the location where they do not.
inline Shape common_batch(const Tensor& a, const Tensor& b, const char* op) {
  Shape batch;
  if (!broadcast_shapes(batch_of(a), batch_of(b), batch))
    fail_here(op, "batch axes do not broadcast: a ", a.type(), ", b ", b.type());
  return batch;
}

// The right side of a system: b (..., rows, K), or (rows), which becomes a column.
struct RightSide {
  Tensor b;
  bool vector;
  // The solution, without the column's axis where b had none.
  Tensor result(const Tensor& x) const { return vector ? squeeze(x, -1) : x; }
};
inline RightSide right_side(const Tensor& a, const Tensor& b, int64_t rows, const char* op) {
  need_factors(a, op);
  if (a.dtype() != b.dtype())
    fail_here(op, "element types differ: a ", a.type(), ", b ", b.type(), "; cast one of them");
  if (b.rank() == 0) fail_here(op, "b needs an axis: expected (", rows, ") or (..., ", rows, ", K), got ", b.type());
  const bool vector = b.rank() == 1;
  const int axis = vector ? 0 : b.rank() - 2;
  if (b.shape()[axis] != rows) {
    fail_here(op, "a and b do not match: a ", a.type(), ", b ", b.type(), " axis ", axis, " = ", b.shape()[axis],
              ", expected ", rows);
  }
  return {vector ? unsqueeze(b, -1) : b, vector};
}
// The matrix and the right side of a system, with the batch axes of both.
struct System {
  Tensor a;
  RightSide side;
};
inline System system_of(const Tensor& a, const Tensor& b, const char* op) {
  const RightSide side = right_side(a, b, a.dim(-1), op);
  const Shape batch = common_batch(a, side.b, op);
  return {with_batch(a, batch, op), {with_batch(side.b, batch, op), side.vector}};
}

// Singular values up to so much of the largest count as 0.
double rank_tolerance(const Tensor& x, const std::optional<double>& given, const char* op);
// The solution of x y = b by the factors of x, all with the batch axes of b.
Tensor solved_by_lu(const Tensor& lu, const Tensor& permutation, const Tensor& b, bool transposed);

}  // namespace freight::ops
