// gather, scatter and arg-reductions on row-major tensors. Scatters add in the order of the indices: each chunk owns a
// range of the result and reads all indices, so bits do not depend on threads.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "freight/base/dtype.h"

namespace freight::cpu {

// A tensor (outer, rows, inner) whose rows are picked by indices: of shape (picks) where whole rows are, else
// (outer, picks, inner).
struct IndexProblem {
  const char* op = "";  // for messages
  std::string where;    // module path and source line, for messages
  int64_t outer = 1, rows = 1, inner = 1;
  bool whole_rows = false;
  DType index_type = DType::i64, dtype = DType::f32;
  int64_t indices = 0, picks = 0;
  size_t result_bytes = 0;
};

// Throws Error(data) where an index is not one of a row.
void check_indices(const IndexProblem& p, const void* indices);
// The picked elements (outer, picks, inner).
void gather(const IndexProblem& p, const void* tensor, const void* indices, void* result);
// result (outer, rows, inner) = zeros, if `fresh`, plus factor times the updates at their rows; f32, f64, i32, i64.
void scatter(const IndexProblem& p, const void* indices, const void* updates, void* result, bool fresh,
             float factor = 1);
// i32 (outer, inner): the first of the largest (or smallest) of f32 (outer, rows, inner); NaN wins.
void arg_extremum(const IndexProblem& p, const float* x, int32_t* y, bool largest);

}  // namespace freight::cpu
