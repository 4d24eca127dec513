// Linear algebra of the reference backend: the ops over batches, as calls of dense.h for each matrix. A fault of the
// data (a zero pivot, a matrix that is not positive definite) names the matrix of the batch. Operands are copies in
// scratch memory, so that a factorization may work in its input.
#include <algorithm>

#include "freight/backend/matrix_faults.h"
#include "freight/backend/ref/dense.h"
#include "freight/backend/ref/kernels.h"
#include "freight/base/error.h"

namespace freight::ref {

namespace {

// Counts the matrices of t (..., M, N).
int64_t matrices_of(const Tensor& t) {
  const Shape& s = t.shape();
  return Shape(s.begin(), s.end() - 2).numel();
}
// Matrix `index` of t (..., M, N).
dense::Matrix matrix_of(const Tensor& t, int64_t index) {
  const Shape& s = t.shape();
  const int64_t m = s[s.rank() - 2], n = s[s.rank() - 1];
  return {t.as<double>() + index * m * n, m, n};
}
// Vector `index` of t (..., N).
template <class C>
C* vector_of(const Tensor& t, int64_t index) {
  return t.as<C>() + index * t.shape()[t.shape().rank() - 1];
}

dense::Triangle triangle(bool upper) { return upper ? dense::Triangle::upper : dense::Triangle::lower; }

void lu_factor(const Call& call) {  // x -> lu, pivots, permutation
  const Tensor& x = call.in[0];
  std::copy_n(x.as<double>(), x.numel(), call.out[0].as<double>());
  for (int64_t i = 0; i < matrices_of(x); ++i) {
    const int64_t zero =
        dense::lu(matrix_of(call.out[0], i), vector_of<int64_t>(call.out[1], i), vector_of<int64_t>(call.out[2], i));
    if (zero >= 0 && call.get<LuAttrs>().refuse_singular) {
      fail(ErrorKind::data, name(call.op), zero_pivot_text(x.type, i, zero));
    }
  }
}

void cholesky(const Call& call) {  // x -> factor
  const Tensor& x = call.in[0];
  std::copy_n(x.as<double>(), x.numel(), call.out[0].as<double>());
  for (int64_t i = 0; i < matrices_of(x); ++i) {
    const int64_t order = dense::cholesky(matrix_of(call.out[0], i), triangle(call.get<CholeskyAttrs>().upper));
    if (order > 0) {
      fail(ErrorKind::data, name(call.op), not_positive_text(x.type, i, order));
    }
  }
}

void qr(const Call& call) {  // x -> q, r
  for (int64_t i = 0; i < matrices_of(call.in[0]); ++i) {
    dense::qr(matrix_of(call.in[0], i), matrix_of(call.out[0], i), matrix_of(call.out[1], i));
  }
}

void solve_triangular(const Call& call) {  // a, b -> x
  const auto& attrs = call.get<TriangularAttrs>();
  const Tensor &a = call.in[0], &b = call.in[1];
  std::copy_n(b.as<double>(), b.numel(), call.out[0].as<double>());
  for (int64_t i = 0; i < matrices_of(a); ++i) {
    const dense::Matrix of = matrix_of(a, i);
    for (int64_t k = 0; k < of.rows && attrs.refuse_singular && !attrs.unit_diagonal; ++k) {
      if (of[k][k] == 0) {
        fail(ErrorKind::data, name(call.op), zero_diagonal_text(a.type, i, k));
      }
    }
    dense::solve_triangular({triangle(attrs.upper), attrs.transposed, attrs.unit_diagonal, attrs.right}, of,
                            matrix_of(call.out[0], i));
  }
}

void eigh(const Call& call) {  // x -> values, vectors
  for (int64_t i = 0; i < matrices_of(call.in[0]); ++i) {
    dense::eigh(matrix_of(call.in[0], i), triangle(call.get<EighAttrs>().upper), vector_of<double>(call.out[0], i),
                matrix_of(call.out[1], i));
  }
}

void svd(const Call& call) {  // x -> u, s, vh
  for (int64_t i = 0; i < matrices_of(call.in[0]); ++i) {
    dense::svd(matrix_of(call.in[0], i), matrix_of(call.out[0], i), vector_of<double>(call.out[1], i),
               matrix_of(call.out[2], i));
  }
}

void eig(const Call& call) {  // x -> values_re, values_im, vectors_re, vectors_im
  for (int64_t i = 0; i < matrices_of(call.in[0]); ++i) {
    dense::eig(matrix_of(call.in[0], i), vector_of<double>(call.out[0], i), vector_of<double>(call.out[1], i),
               matrix_of(call.out[2], i), matrix_of(call.out[3], i));
  }
}

}  // namespace

KernelTable linalg_kernels() {
  return {
      {Op::lu_factor, lu_factor}, {Op::cholesky, cholesky}, {Op::qr, qr},   {Op::solve_triangular, solve_triangular},
      {Op::eigh, eigh},           {Op::svd, svd},           {Op::eig, eig},
  };
}

}  // namespace freight::ref
