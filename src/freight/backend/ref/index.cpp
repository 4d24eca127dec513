// Indexing of the reference backend: gather and scatter of whole rows along an axis, and of single elements.
// Each scatter is the transpose of its gather: zeros plus updates. An index out of range is an error of the data.
#include "freight/backend/ref/kernels.h"
#include "freight/base/error.h"

namespace freight::ref {

namespace {

int64_t checked(const Call& call, int64_t index, int64_t size) {
  if (index < 0 || index >= size) {
    fail(ErrorKind::data, name(call.op), "index out of range: got ", index, ", need 0 to ", size - 1);
  }
  return index;
}

// Extents before and after the axis.
struct Split {
  int64_t outer = 1, inner = 1;
  Split(const Shape& shape, int64_t axis) {
    for (int i = 0; i < shape.rank(); ++i) (i < axis ? outer : inner) *= i == axis ? 1 : shape[i];
  }
};

void gather(const Call& call) {  // x (A, R, B), idx (I) -> y (A, I, B); R rows along the axis
  const int64_t axis = call.get<AxisAttrs>().axis, rows = call.in[0].shape()[static_cast<int>(axis)];
  const Split split(call.in[0].shape(), axis);
  const int64_t* idx = call.in[1].as<int64_t>();
  const int64_t picks = call.in[1].numel();
  by_kind(call.out[0], [&]<class C>(C) {
    const C* x = call.in[0].as<C>();
    C* y = call.out[0].as<C>();
    for (int64_t a = 0; a < split.outer; ++a) {
      for (int64_t i = 0; i < picks; ++i) {
        const C* row = x + (a * rows + checked(call, idx[i], rows)) * split.inner;
        for (int64_t b = 0; b < split.inner; ++b) y[(a * picks + i) * split.inner + b] = row[b];
      }
    }
  });
}

void scatter_add(const Call& call) {  // idx (I), u (A, I, B) -> y (A, size, B)
  const auto& attrs = call.get<ScatterAttrs>();
  const Split split(call.out[0].shape(), attrs.axis);
  const int64_t* idx = call.in[0].as<int64_t>();
  const int64_t picks = call.in[0].numel();
  by_kind(call.out[0], [&]<class C>(C) {
    const C* u = call.in[1].as<C>();
    C* y = call.out[0].as<C>();
    for (int64_t i = 0; i < call.out[0].numel(); ++i) y[i] = C{0};
    for (int64_t a = 0; a < split.outer; ++a) {
      for (int64_t i = 0; i < picks; ++i) {
        C* row = y + (a * attrs.size + checked(call, idx[i], attrs.size)) * split.inner;
        for (int64_t b = 0; b < split.inner; ++b) accumulate(row[b], u[(a * picks + i) * split.inner + b]);
      }
    }
  });
}

// f(row-major position in idx, position in the tensor whose axis is indexed) for every element of idx.
template <class F>
void each_element(const Call& call, const Tensor& idx, const Shape& indexed, int axis, F f) {
  const Strides strides = contiguous_strides(indexed);
  for (Counter c(idx.shape()); c.more(); c.next()) {
    const int64_t row = checked(call, idx.as<int64_t>()[c.index], indexed[axis]);
    f(c.index, offset(c.at, strides) + (row - c.at[axis]) * strides[axis]);
  }
}

void gather_elements(const Call& call) {  // x, idx of equal rank -> y of idx's shape
  const int axis = static_cast<int>(call.get<AxisAttrs>().axis);
  by_kind(call.out[0], [&]<class C>(C) {
    const C* x = call.in[0].as<C>();
    C* y = call.out[0].as<C>();
    each_element(call, call.in[1], call.in[0].shape(), axis, [&](int64_t i, int64_t at) { y[i] = x[at]; });
  });
}

void scatter_elements_add(const Call& call) {  // idx, u of equal shape -> y with `size` rows along the axis
  const auto& attrs = call.get<ScatterAttrs>();
  by_kind(call.out[0], [&]<class C>(C) {
    const C* u = call.in[1].as<C>();
    C* y = call.out[0].as<C>();
    for (int64_t i = 0; i < call.out[0].numel(); ++i) y[i] = C{0};
    each_element(call, call.in[0], call.out[0].shape(), static_cast<int>(attrs.axis),
                 [&](int64_t i, int64_t at) { accumulate(y[at], u[i]); });
  });
}

}  // namespace

KernelTable index_kernels() {
  return {
      {Op::gather, gather},
      {Op::scatter_add, scatter_add},
      {Op::gather_elements, gather_elements},
      {Op::scatter_elements_add, scatter_elements_add},
  };
}

}  // namespace freight::ref
