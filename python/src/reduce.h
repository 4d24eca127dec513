// Reductions over axes, and functions along one axis: running sums, positions of extremes, sorting, searching, sets.
#pragma once
#include <string_view>
#include <vector>

#include "freight/backend/cpu/kernels/sort.h"
#include "view.h"

namespace freight::python {

enum class Reduction { sum, prod, max, min, any, all, mean };

// x reduced over `axes` (from 0, without repeats), in the element type `result`; reduced axes stay with size 1. Sums,
// products and means of floating types are accumulated in more digits than x has. ValueError for extremes of nothing.
View reduce(Reduction how, const View& x, const std::vector<int>& axes, DType result);
// f64: sums of squared differences from the means over the axes, of real floating types.
View squared_deviations(const View& x, const std::vector<int>& axes);
// Drops these axes of size 1.
View drop_axes(const View& x, const std::vector<int>& axes);

enum class Running { sum, prod };
View running(Running how, const View& x, int axis, DType result, bool include_initial);

// i64: the first largest or smallest element along the axis, a NaN if there is one; the axis stays with size 1.
enum class Extreme { largest, smallest };
View position_of(Extreme which, const View& x, int axis);

// See kernels/sort.h; argsort gives i64.
View sort(const View& x, int axis, cpu::SortOrder by);
View argsort(const View& x, int axis, cpu::SortOrder by);
// i64: where values belong among `sorted` (N); `order`, if it has memory, are indices that sort it.
View searchsorted(const View& sorted, const View& values, bool right, const View& order);

// One i64 vector per axis: the places of elements that are not 0, in row-major order.
std::vector<View> nonzero(const View& x);

// Distinct elements, ascending; each NaN is one.
struct Unique {
  View values, indices, inverse, counts;  // indices: of the first of each; inverse has the shape of x
};
Unique unique(const View& x);

}  // namespace freight::python
