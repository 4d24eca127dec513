// x[...] on views: integers, slices, ellipsis and new axes give views; integer arrays and masks give copies, placed as
// NumPy places them.
#pragma once
#include <variant>
#include <vector>

#include "view.h"

namespace freight::python {

// A slice as Python unpacks it: ends that are not given lie beyond the axis; step is not 0.
struct SliceIndex {
  int64_t start, stop, step;
};
View sliced(const View& x, int axis, const SliceIndex& slice);
struct EllipsisIndex {};
struct NewAxisIndex {};
// An integer, a slice, ..., None, or an array of integers or bool.
using IndexItem = std::variant<int64_t, SliceIndex, EllipsisIndex, NewAxisIndex, View>;

// The elements meant: those of `base` where there are no index arrays.
struct Selection {
  View base;
  std::vector<int> axes;      // of base that index arrays replace
  std::vector<View> indices;  // i64, one per entry of axes
  int result_axis = 0;        // the position of the broadcast index arrays' axes in the result
  bool has_arrays() const { return !axes.empty(); }
};
// IndexError for too many indices, indices out of range, and masks of another shape.
Selection select(const View& x, const std::vector<IndexItem>& items);
View gather(const Selection& s);
// The elements meant become `value`, broadcast and converted; of repeated indices the last one counts.
void scatter(const Selection& s, const View& value);

}  // namespace freight::python
