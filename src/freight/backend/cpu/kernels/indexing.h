// gather, scatter and arg-reductions on row-major tensors; elements are gathered from tensors of other strides, too, by
// indices of other strides (rows of a transposed matrix, one index for all columns). Scatters add in the order of the
// indices: each chunk owns a range of the result and reads all indices, so bits do not depend on threads.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "freight/base/dtype.h"

namespace freight::cpu {

// Elements from one place of an axis to the next.
struct IndexSteps {
  int64_t outer = 0, row = 0, inner = 0;
};

// A tensor (outer, rows, inner) whose rows are picked by indices: of shape (picks) where whole rows are, else
// (outer, picks, inner).
struct IndexProblem {
  const char* op = "";  // for messages
  std::string where;    // module path and source line, for messages
  int64_t outer = 1, rows = 1, inner = 1;
  bool whole_rows = false;
  DType index_type = DType::i64, dtype = DType::f32;
  int64_t indices = 0, picks = 0;
  IndexSteps from = {}, index = {};  // of gather_elements: the tensor's and the indices'
  size_t result_bytes = 0;
};

// Throws Error(data) where one of row-major indices is not that of a row.
void check_indices(const IndexProblem& p, const void* indices);
// The picked rows (outer, picks, inner).
void gather_rows(const IndexProblem& p, const void* tensor, const void* indices, void* result);
// The picked elements (outer, picks, inner), once all indices are known to be right.
void gather_elements(const IndexProblem& p, const void* tensor, const void* indices, void* result);
// result (outer, rows, inner) = zeros, if `fresh`, plus factor times the updates at their rows; f32, f64 and integers
// of 32 and 64 bits.
void scatter(const IndexProblem& p, const void* indices, const void* updates, void* result, bool fresh,
             float factor = 1);
// The updates at their rows of the result in place of its elements; of two for one place the last.
void set_elements(const IndexProblem& p, const void* indices, const void* updates, void* result);
// i32 (outer, inner): the first of the largest (or smallest) of f32 (outer, rows, inner); NaN wins.
void arg_extremum(const IndexProblem& p, const float* x, int32_t* y, bool largest);

}  // namespace freight::cpu
