// Generators, views and data movement of the reference backend. Views are executed here as copies.
#include "freight/backend/ref/kernels.h"
#include "freight/base/philox.h"

namespace freight::ref {

namespace {

void constant(const Call& call) {
  const auto& a = call.get<ConstantAttrs>();
  const int64_t n = call.out[0].numel();
  by_element(call.out[0], [&]<class C>(C) {
    C* y = call.out[0].as<C>();
    if (!a.data.defined()) {
      for (int64_t i = 0; i < n; ++i) y[i] = element_cast<C>(a.value);
      return;
    }
    dispatch(a.data.dtype(), [&]<class T>(T) {
      const T* x = a.data.template data<T>();
      for (int64_t i = 0; i < n; ++i) y[i] = element_cast<C>(x[i]);
    });
  });
}

void iota(const Call& call) {
  const int axis = static_cast<int>(call.get<IotaAttrs>().axis);
  by_kind(call.out[0], [&]<class C>(C) {
    for (Counter c(call.out[0].shape()); c.more(); c.next()) call.out[0].as<C>()[c.index] = static_cast<C>(c.at[axis]);
  });
}

template <float (*kDraw)(uint64_t, uint64_t, uint32_t, uint64_t)>
void random(const Call& call) {
  const int64_t* key = call.in[0].as<int64_t>();  // [2]: seed, step
  const auto stream = static_cast<uint32_t>(call.get<RandomAttrs>().stream);
  double* y = call.out[0].as<double>();
  for (int64_t i = 0; i < call.out[0].numel(); ++i) {
    y[i] = kDraw(static_cast<uint64_t>(key[0]), static_cast<uint64_t>(key[1]), stream, static_cast<uint64_t>(i));
  }
}

// y[position] = x[origin + sum of position[i] * strides[i]].
void gather_strided(const Call& call, int64_t origin, const Strides& strides) {
  by_element(call.out[0], [&]<class C>(C) {
    const C* x = call.in[0].as<C>();
    C* y = call.out[0].as<C>();
    for (Counter c(call.out[0].shape()); c.more(); c.next()) y[c.index] = x[origin + offset(c.at, strides)];
  });
}

void copy(const Call& call) {  // also reshape: the row-major order of the elements stays
  gather_strided(call, 0, contiguous_strides(call.out[0].shape()));
}

void transpose(const Call& call) {
  const Shape& perm = call.get<PermAttrs>().perm;
  const Strides from = contiguous_strides(call.in[0].shape());
  Strides strides = from;
  for (int i = 0; i < perm.rank(); ++i) strides[i] = from[static_cast<int>(perm[i])];
  gather_strided(call, 0, strides);
}

void broadcast(const Call& call) {
  const Shape& shape = call.in[0].shape();
  Strides strides = contiguous_strides(shape);
  for (int i = 0; i < shape.rank(); ++i) strides[i] = shape[i] == 1 ? 0 : strides[i];
  gather_strided(call, 0, strides);
}

void slice(const Call& call) {
  const auto& a = call.get<SliceAttrs>();
  Strides strides = contiguous_strides(call.in[0].shape());
  const int64_t origin = offset(a.start, strides);
  for (int i = 0; i < strides.rank(); ++i) strides[i] *= a.step[i];
  gather_strided(call, origin, strides);
}

void pad(const Call& call) {
  const auto& a = call.get<PadAttrs>();
  by_element(call.out[0], [&]<class C>(C) {
    const C* x = call.in[0].as<C>();
    C* y = call.out[0].as<C>();
    for (int64_t i = 0; i < call.out[0].numel(); ++i) y[i] = element_cast<C>(a.value);
    Strides strides = contiguous_strides(call.out[0].shape());
    const int64_t origin = offset(a.low, strides);
    for (int i = 0; i < strides.rank(); ++i) strides[i] *= a.interior[i] + 1;
    for (Counter c(call.in[0].shape()); c.more(); c.next()) y[origin + offset(c.at, strides)] = x[c.index];
  });
}

void concat(const Call& call) {
  const int axis = static_cast<int>(call.get<AxisAttrs>().axis);
  const Strides strides = contiguous_strides(call.out[0].shape());
  by_element(call.out[0], [&]<class C>(C) {
    C* y = call.out[0].as<C>();
    int64_t origin = 0;
    for (const Tensor& x : call.in) {
      for (Counter c(x.shape()); c.more(); c.next()) y[origin + offset(c.at, strides)] = x.as<C>()[c.index];
      origin += x.shape()[axis] * strides[axis];
    }
  });
}

}  // namespace

KernelTable shape_kernels() {
  return {
      {Op::constant, constant},
      {Op::iota, iota},
      {Op::random_uniform, random<freight::random_uniform>},
      {Op::random_normal, random<freight::random_normal>},
      {Op::reshape, copy},
      {Op::transpose, transpose},
      {Op::broadcast, broadcast},
      {Op::slice, slice},
      {Op::copy, copy},
      {Op::offload, copy},
      {Op::fetch, copy},
      {Op::all_reduce, copy},
      {Op::pad, pad},
      {Op::concat, concat},
  };
}

}  // namespace freight::ref
