// See matrix_faults.h.
#include "freight/backend/matrix_faults.h"

#include "freight/base/strings.h"

namespace freight {

namespace {

std::string matrix_text(const Type& type, int64_t matrix) {
  const int axes = type.shape.rank() - 2;
  if (axes == 0) return cat("the matrix ", type);
  std::string at;
  for (int i = axes - 1; i >= 0; --i) {
    at = cat(matrix % type.shape[i], at.empty() ? "" : ", ", at);
    matrix /= type.shape[i];
  }
  return cat("matrix (", at, ") of ", type);
}

// Plans run with numbers below the least normal one flushed to 0, so such a number is a 0 like any other.
std::string zero_text(const Type& type) {
  return cat("0, or below ", type.dtype == DType::f64 ? "2.2e-308" : "1.2e-38", " and counts as 0");
}

}  // namespace

std::string zero_pivot_text(const Type& type, int64_t matrix, int64_t pivot) {
  return cat(matrix_text(type, matrix), " is singular: pivot ", pivot, " is ", zero_text(type));
}

std::string zero_diagonal_text(const Type& type, int64_t matrix, int64_t number) {
  return cat(matrix_text(type, matrix), " is singular: number ", number, " of its diagonal is ", zero_text(type));
}

std::string not_positive_text(const Type& type, int64_t matrix, int64_t order) {
  return cat(matrix_text(type, matrix), " is not positive definite: its leading minor of order ", order,
             " is not positive, or NaN");
}

std::string not_converged_text(const Type& type, int64_t matrix, const std::string& routine) {
  return cat(matrix_text(type, matrix), ": ", routine,
             " did not converge: use another matrix, or another library; on the CPU ",
             "FREIGHT_LAPACK=none uses plain loops");
}

}  // namespace freight
