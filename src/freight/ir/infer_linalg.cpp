// Type rules of linear algebra. The last two axes are matrices, those in front of them a batch. See infer.h; the other
// rules are in infer.cpp.
#include <algorithm>

#include "freight/ir/infer_internal.h"

namespace freight::infer {

namespace {

// The shape of matrices of these rows and columns, as many as in `like`.
Shape matrices(const Shape& like, int64_t rows, int64_t columns) {
  Shape s = like;
  s[s.rank() - 2] = rows;
  s[s.rank() - 1] = columns;
  return s;
}
// The same of vectors.
Shape vectors(const Shape& like, int64_t extent) {
  Shape s = like;
  s.erase(s.rank() - 1);
  s[s.rank() - 1] = extent;
  return s;
}

int64_t rows(const Type& t) { return t.shape[t.shape.rank() - 2]; }
int64_t columns(const Type& t) { return t.shape[t.shape.rank() - 1]; }
int64_t least(const Type& t) { return std::min(rows(t), columns(t)); }

void need_matrix(const Node& node, const Type& t) {
  if (t.shape.rank() < 2) bad(node, "needs a matrix, (..., M, N): got ", t);
}
void need_square(const Node& node, const Type& t) {
  need_matrix(node, t);
  if (rows(t) != columns(t)) bad(node, "the matrix is not square: expected (..., N, N), got ", t);
}

// The matrices a and right sides b (..., M, K) of systems.
void need_systems(const Node& node, const Type& a, const Type& b) {
  need_matrix(node, b);
  if (a.dtype != b.dtype) bad(node, "element types differ: a ", a, ", b ", b);
  const Shape need = matrices(a.shape, rows(a), columns(b));
  if (b.shape != need) bad(node, "b has the wrong shape: a ", a, ", b ", b, ", expected ", need);
}

}  // namespace

Types lu_factor(const Node& node, const Types& in) {
  need_matrix(node, in[0]);
  need_i32_places(node, rows(in[0]), cat("axis ", in[0].shape.rank() - 2, " of ", in[0]));
  return {in[0], {DType::i32, vectors(in[0].shape, least(in[0]))}, {DType::i32, vectors(in[0].shape, rows(in[0]))}};
}

Types cholesky(const Node& node, const Types& in) {
  need_square(node, in[0]);
  return {in[0]};
}

Types qr(const Node& node, const Types& in) {
  need_matrix(node, in[0]);
  const Type& x = in[0];
  const int64_t k = attrs<QrAttrs>(node).complete ? rows(x) : least(x);
  return {{x.dtype, matrices(x.shape, rows(x), k)}, {x.dtype, matrices(x.shape, k, columns(x))}};
}

Types solve_triangular(const Node& node, const Types& in) {
  const Type &a = in[0], &b = in[1];
  need_square(node, a);
  need_matrix(node, b);
  if (a.dtype != b.dtype) bad(node, "element types differ: a ", a, ", b ", b);
  const bool right = attrs<TriangularAttrs>(node).right;
  const Shape need = right ? matrices(a.shape, rows(b), rows(a)) : matrices(a.shape, rows(a), columns(b));
  if (b.shape != need) bad(node, "b has the wrong shape: a ", a, ", b ", b, ", expected ", need);
  return {b};
}

Types eigh(const Node& node, const Types& in) {
  need_square(node, in[0]);
  return {{in[0].dtype, vectors(in[0].shape, rows(in[0]))}, in[0]};
}

Types svd(const Node& node, const Types& in) {
  need_matrix(node, in[0]);
  const Type& x = in[0];
  const int64_t k = least(x);
  const bool full = attrs<SvdAttrs>(node).full;
  return {{x.dtype, matrices(x.shape, rows(x), full ? rows(x) : k)},
          {x.dtype, vectors(x.shape, k)},
          {x.dtype, matrices(x.shape, full ? columns(x) : k, columns(x))}};
}

Types eig(const Node& node, const Types& in) {
  need_square(node, in[0]);
  const Type values{in[0].dtype, vectors(in[0].shape, rows(in[0]))};
  return {values, values, in[0], in[0]};
}

Types lstsq(const Node& node, const Types& in) {
  need_matrix(node, in[0]);
  need_systems(node, in[0], in[1]);
  return {{in[0].dtype, matrices(in[0].shape, columns(in[0]), columns(in[1]))}};
}

Types solve(const Node& node, const Types& in) {
  need_square(node, in[0]);
  need_systems(node, in[0], in[1]);
  return {in[1]};
}

}  // namespace freight::infer
