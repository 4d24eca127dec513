// x[...] on views; see index.h.
#include "index.h"

#include <algorithm>
#include <cstring>

#include "loops.h"
#include "reduce.h"

namespace freight::python {

View sliced(const View& x, int axis, const SliceIndex& s) {
  const int64_t size = x.shape[axis], low = s.step < 0 ? -1 : 0, high = s.step < 0 ? size - 1 : size;
  const int64_t start = std::clamp(s.start < 0 ? s.start + size : s.start, low, high);
  const int64_t stop = std::clamp(s.stop < 0 ? s.stop + size : s.stop, low, high);
  const int64_t distance = s.step < 0 ? start - stop : stop - start;
  return sliced(x, axis, start, s.step, distance <= 0 ? 0 : (distance - 1) / std::abs(s.step) + 1);
}

namespace {

int axes_of(const IndexItem& item) {
  if (std::holds_alternative<NewAxisIndex>(item) || std::holds_alternative<EllipsisIndex>(item)) return 0;
  if (const auto* v = std::get_if<View>(&item)) return v->dtype == DType::boolean ? v->rank() : 1;
  return 1;
}

// The integers that a mask stands for, one vector per axis; one without elements selects nothing.
std::vector<View> places(const View& mask, const View& x, int axis) {
  for (int a = 0; a < mask.rank(); ++a) {
    if (axis + a >= x.rank() || (mask.shape[a] != x.shape[axis + a] && mask.shape[a] != 0)) {
      raise<IndexError>("boolean index did not match indexed array: the mask has shape ", to_string(mask.shape),
                        ", the array ", to_string(x.shape));
    }
  }
  return nonzero(mask);
}

}  // namespace

Selection select(const View& x, const std::vector<IndexItem>& items) {
  int named = 0, ellipses = 0;
  bool arrays = false;
  for (const IndexItem& item : items) {
    named += axes_of(item);
    ellipses += std::holds_alternative<EllipsisIndex>(item);
    arrays = arrays || std::holds_alternative<View>(item);
  }
  if (ellipses > 1) raise<IndexError>("an index can only have a single ellipsis ('...')");
  if (named > x.rank()) {
    raise<IndexError>("too many indices for array: array is ", x.rank(), "-dimensional, but ", named, " were indexed");
  }
  Selection s;
  s.base = x;
  int axis = 0;    // of s.base
  int groups = 0;  // of index arrays that stand together
  bool last_was_array = false;
  const auto add_array = [&](View index) {
    s.axes.push_back(axis++);
    s.indices.push_back(std::move(index));
  };
  for (const IndexItem& item : items) {
    const bool is_array = std::holds_alternative<View>(item) || (arrays && std::holds_alternative<int64_t>(item));
    if (is_array && !last_was_array) {
      if (++groups == 1) s.result_axis = axis;
    }
    last_was_array = is_array;
    if (const auto* n = std::get_if<int64_t>(&item)) {
      if (arrays) {
        View index(DType::i64, Shape{});
        *reinterpret_cast<int64_t*>(index.data) = *n;
        add_array(std::move(index));
      } else {
        s.base = selected(s.base, axis, *n);
      }
    } else if (const auto* slice = std::get_if<SliceIndex>(&item)) {
      s.base = sliced(s.base, axis++, *slice);
    } else if (std::holds_alternative<EllipsisIndex>(item)) {
      axis += x.rank() - named;
    } else if (std::holds_alternative<NewAxisIndex>(item)) {
      s.base = with_axis(s.base, axis++);
    } else {
      const View& v = std::get<View>(item);
      if (v.dtype == DType::boolean && v.rank() == 0) {
        s.base = with_axis(s.base, axis);
        View index(DType::i64, Shape{*reinterpret_cast<const bool*>(v.data) ? 1 : 0});
        std::memset(index.data, 0, static_cast<size_t>(index.numel()) * sizeof(int64_t));
        add_array(std::move(index));
      } else if (v.dtype == DType::boolean) {
        for (View& index : places(v, s.base, axis)) add_array(std::move(index));
      } else if (is_integer(v.dtype)) {
        add_array(v.dtype == DType::i64 ? v : cast(v, DType::i64));
      } else {
        raise<IndexError>("arrays used as indices must be of integer (or boolean) type: got ", python_name(v.dtype));
      }
    }
  }
  if (groups > 1) s.result_axis = 0;
  return s;
}

namespace {

// The selection as rows: base with the indexed axes in front, the byte offset of each row, and the shape of the rest.
struct Rows {
  View rest;  // one row at offset 0
  Shape index_shape;
  std::vector<int64_t> offsets;
};

Rows rows_of(const Selection& s) {
  Rows rows;
  for (const View& index : s.indices) rows.index_shape = broadcast_of(rows.index_shape, index.shape);
  rows.offsets.assign(static_cast<size_t>(rows.index_shape.numel()), 0);
  rows.rest = s.base;
  for (size_t k = s.axes.size(); k-- > 0;) {
    const int axis = s.axes[k];
    const int64_t size = s.base.shape[axis], step = s.base.strides[axis] * static_cast<int64_t>(s.base.item_size());
    const View index = contiguous(broadcast(s.indices[k], rows.index_shape));
    const auto* at = reinterpret_cast<const int64_t*>(index.data);
    for (size_t i = 0; i < rows.offsets.size(); ++i) {
      const int64_t n = at[i] < 0 ? at[i] + size : at[i];
      if (n < 0 || n >= size)
        raise<IndexError>("index ", at[i], " is out of bounds for axis ", axis, " with size ", size);
      rows.offsets[i] += n * step;
    }
    rows.rest.shape.erase(axis);
    rows.rest.strides.erase(axis);
  }
  return rows;
}

// The axes of the index arrays, which are the first ones of `rows`, at their place in the result.
std::vector<int> result_order(const Rows& rows, int result_axis) {
  std::vector<int> order;
  const int first = rows.index_shape.rank();
  for (int a = 0; a < rows.rest.rank(); ++a) {
    if (a == result_axis) {
      for (int b = 0; b < first; ++b) order.push_back(b);
    }
    order.push_back(first + a);
  }
  if (result_axis >= rows.rest.rank()) {
    for (int b = 0; b < first; ++b) order.push_back(b);
  }
  return order;
}

Shape row_shape(const Rows& rows) {
  Shape shape = rows.index_shape;
  for (const int64_t n : rows.rest.shape) shape.push_back(n);
  return shape;
}

// Rows of dense memory and rows of the selection, from one to the other.
void move_rows(const Rows& rows, char* dense, bool to_selection) {
  View packed = rows.rest;
  packed.strides = contiguous_strides(packed.shape);
  packed.data = dense;
  const int64_t bytes = packed.numel() * static_cast<int64_t>(packed.item_size());
  if (bytes == 0) return;
  // Single elements.
  const auto move = [&]<class Word>(Word) {
    for (const int64_t offset : rows.offsets) {
      std::memcpy(to_selection ? rows.rest.data + offset : dense, to_selection ? dense : rows.rest.data + offset,
                  sizeof(Word));
      dense += sizeof(Word);
    }
  };
  if (packed.numel() == 1 && bytes == 4) return move(uint32_t{});
  if (packed.numel() == 1 && bytes == 8) return move(uint64_t{});
  Loop<2> loop(packed.shape, to_selection ? std::array{&rows.rest, static_cast<const View*>(&packed)}
                                          : std::array{static_cast<const View*>(&packed), &rows.rest});
  const int selection = to_selection ? 0 : 1;
  const ElementMove mover = mover_of(packed.dtype);
  for (const int64_t offset : rows.offsets) {
    loop.data[selection] = rows.rest.data + offset;
    loop.data[1 - selection] = dense;
    loop.run(mover);
    dense += bytes;
  }
}

std::vector<int> inverse_of(const std::vector<int>& order) {
  std::vector<int> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[static_cast<size_t>(order[i])] = static_cast<int>(i);
  return inverse;
}

}  // namespace

View gather(const Selection& s) {
  if (!s.has_arrays()) return s.base;
  const Rows rows = rows_of(s);
  const View y(s.base.dtype, row_shape(rows));
  move_rows(rows, y.data, false);
  return permuted(y, result_order(rows, s.result_axis));
}

void scatter(const Selection& s, const View& value) {
  if (!s.has_arrays()) return assign(s.base, value);
  if (!s.base.block->writable) raise<ValueError>("assignment destination is read-only");
  const Rows rows = rows_of(s);
  const std::vector<int> order = result_order(rows, s.result_axis);
  View shaped(DType::boolean, Shape{});
  shaped.shape = row_shape(rows);
  shaped.strides = Strides::filled(shaped.rank(), 0);
  const Shape result = permuted(shaped, order).shape;
  if (is_complex(value.dtype) && !is_complex(s.base.dtype)) {
    raise<TypeError>("cannot assign ", python_name(value.dtype), " to ", python_name(s.base.dtype), ": take real(x)");
  }
  const View wide = permuted(broadcast(value, result), inverse_of(order));
  const View dense = wide.dtype == s.base.dtype ? copy(wide) : cast(wide, s.base.dtype);
  move_rows(rows, dense.data, true);
}

}  // namespace freight::python
