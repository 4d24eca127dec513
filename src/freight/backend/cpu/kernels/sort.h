// Stable sorting: ascending with NaN last, or descending with NaN first; equal elements, as 0 and -0 and all NaN are,
// stay in their order; complex numbers by their real parts, then the imaginary ones. By keys, whole numbers in the
// order of the elements that they stand for, which are sorted digit by digit (LSD radix sort; Knuth, The Art of
// Computer Programming 3, 5.2.5). For arrays of the host and Op::argsort.
#pragma once
#include <cstdint>

#include "freight/backend/cpu/kernels/indexing.h"
#include "freight/base/dtype.h"

namespace freight::cpu {

enum class SortOrder : uint8_t { ascending, descending };

// n elements, `step` bytes apart.
struct SortLane {
  DType dtype;
  const char* x;
  int64_t step, n;
  SortOrder by = SortOrder::ascending;
};
// order[i]: the number of the element that is the i'th of the sorted ones.
void sorted_order(const SortLane& lane, int64_t* order);
// The elements themselves, `step` bytes apart; y is not x.
void sorted_elements(const SortLane& lane, char* y, int64_t step);

// Where values belong among n sorted numbers: before equal ones, or behind them (`right`). `numbers`, if there are any,
// are those of the elements in order, else they lie in order themselves.
struct SortedNumbers {
  DType dtype;
  const char* x;
  int64_t n;
  const int64_t* numbers = nullptr;
  bool right = false;
};
// places[i] (i64, steps[0] bytes apart) for values[i] (steps[1]).
void places_among(const SortedNumbers& sorted, int64_t count, char* places, const char* values, const int64_t* steps);

// Op::argsort on row-major x and y (outer, rows, inner): along the rows, in the element type and by the sizes of `p`.
void argsort(const IndexProblem& p, const void* x, int32_t* y, SortOrder by);

}  // namespace freight::cpu
