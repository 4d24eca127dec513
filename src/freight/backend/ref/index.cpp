// Indexing of the reference backend: gather and scatter of whole rows along an axis, and of single elements.
// Each scatter is the transpose of its gather: zeros plus updates. An index out of range is an error of the data.
#include <algorithm>

#include "freight/backend/ref/kernels.h"
#include "freight/base/error.h"

namespace freight::ref {

namespace {

int64_t checked(const Call& call, int64_t index, int64_t size) {
  if (index < 0 || index >= size) {
    fail(ErrorKind::data, name(call.op), "index out of range: expected 0 to ", size - 1, ", got ", index);
  }
  return index;
}

// f(place in the picks, place in the tensor whose axis is indexed) for every element picked: idx (I) picks whole rows
// of (A, R, B), and the picks are (A, I, B); or it has the shape of the picks and each entry picks one element.
template <class F>
void each_pick(const Call& call, const Tensor& idx, const Shape& picks, const Shape& indexed, int axis, F f) {
  const bool rows = call.op == Op::gather || call.op == Op::scatter_add || call.op == Op::scatter;
  const int64_t* index = idx.as<int64_t>();
  const Strides strides = contiguous_strides(indexed);
  int64_t inner = 1;
  for (int i = axis + 1; i < indexed.rank(); ++i) inner *= indexed[i];
  for (Counter c(picks); c.more(); c.next()) {
    if (rows) {
      const int64_t pick = c.index / inner, row = checked(call, index[pick % idx.numel()], indexed[axis]);
      f(c.index, (pick / idx.numel() * indexed[axis] + row) * inner + c.index % inner);
    } else {
      const int64_t row = checked(call, index[c.index], indexed[axis]);
      f(c.index, offset(c.at, strides) + (row - c.at[axis]) * strides[axis]);
    }
  }
}

void gather(const Call& call) {  // x, idx -> y
  const int axis = static_cast<int>(call.get<AxisAttrs>().axis);
  by_element(call.out[0], [&]<class C>(C) {
    const C* x = call.in[0].as<C>();
    C* y = call.out[0].as<C>();
    each_pick(call, call.in[1], call.out[0].shape(), call.in[0].shape(), axis,
              [&](int64_t i, int64_t at) { y[i] = x[at]; });
  });
}

void scatter_add(const Call& call) {  // idx, u -> y with `size` rows along the axis
  const int axis = static_cast<int>(call.get<ScatterAttrs>().axis);
  by_kind(call.out[0], [&]<class C>(C) {
    const C* u = call.in[1].as<C>();
    C* y = call.out[0].as<C>();
    std::fill_n(y, call.out[0].numel(), C{0});
    each_pick(call, call.in[0], call.in[1].shape(), call.out[0].shape(), axis,
              [&](int64_t i, int64_t at) { accumulate(y[at], u[i]); });
  });
}

void scatter(const Call& call) {  // x, idx, u -> y
  const int axis = static_cast<int>(call.get<AxisAttrs>().axis);
  by_element(call.out[0], [&]<class C>(C) {
    const C *x = call.in[0].as<C>(), *u = call.in[2].as<C>();
    C* y = call.out[0].as<C>();
    std::copy_n(x, call.out[0].numel(), y);
    each_pick(call, call.in[1], call.in[2].shape(), call.out[0].shape(), axis,
              [&](int64_t i, int64_t at) { y[at] = u[i]; });
  });
}

void check_index(const Call& call) {  // idx -> idx
  const int64_t rows = call.get<RowsAttrs>().rows;
  const int64_t* index = call.in[0].as<int64_t>();
  for (int64_t i = 0; i < call.in[0].numel(); ++i) call.out[0].as<int64_t>()[i] = checked(call, index[i], rows);
}

}  // namespace

KernelTable index_kernels() {
  return {
      {Op::gather, gather},           {Op::scatter_add, scatter_add},
      {Op::gather_elements, gather},  {Op::scatter_elements_add, scatter_add},
      {Op::scatter, scatter},         {Op::scatter_elements, scatter},
      {Op::check_index, check_index},
  };
}

}  // namespace freight::ref
