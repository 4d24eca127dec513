// Reductions over axes, and functions along one axis: running sums, positions of extremes, sorting, searching, sets.
#pragma once
#include <string_view>
#include <vector>

#include "view.h"

namespace freight::python {

enum class Reduction { sum, prod, max, min, any, all, mean };

// x reduced over `axes` (from 0, without repeats), in the element type `result`; reduced axes stay with size 1. Sums,
// products and means of floating types are accumulated in more digits than x has. ValueError for extremes of nothing.
View reduce(Reduction how, const View& x, const std::vector<int>& axes, DType result);
// Drops these axes of size 1.
View drop_axes(const View& x, const std::vector<int>& axes);

enum class Running { sum, prod };
View running(Running how, const View& x, int axis, DType result, bool include_initial);

// i64: the first largest or smallest element along the axis, a NaN if there is one; the axis stays with size 1.
enum class Extreme { largest, smallest };
View position_of(Extreme which, const View& x, int axis);

// Ascending, NaN at the end; complex numbers by their real parts, then the imaginary ones. Equal elements keep their
// order where it is stable, in descending order too.
struct SortOptions {
  bool descending = false;
  bool stable = true;
};
View sort(const View& x, int axis, const SortOptions& options);
View argsort(const View& x, int axis, const SortOptions& options);  // i64
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
