// Pooling of the reference backend over one or two spatial axes. Padding never wins a maximum; max_pool also gives the
// flat index of the winner in the input's spatial plane (first on ties, NaN wins; -1 for a window of padding only).
#include <limits>

#include "freight/backend/ref/kernels.h"

namespace freight::ref {

namespace {

Window window(const PoolAttrs& a, const Shape& x, const Shape& y) {
  return {x, y, a.kernel, a.stride, a.pad_low, a.dilation};
}

int64_t planes(const Shape& x) { return x[0] * x[1]; }

// The divisor of an average.
double count(const Window& window, int64_t o, const PoolAttrs& a) {
  if (a.count_include_pad) return static_cast<double>(window.kernel[0] * window.kernel[1]);
  double n = 0;
  window.each(o, [&](int64_t, int64_t) { ++n; });
  return n;
}

void max_pool(const Call& call) {  // x (N, C, spatial) -> y, index (N, C, spatial)
  const Window w = window(call.get<PoolAttrs>(), call.in[0].shape(), call.out[0].shape());
  by_kind(call.in[0], [&]<class C>(C) {
    using Limits = std::numeric_limits<C>;
    const C nothing = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    for (int64_t p = 0; p < planes(call.in[0].shape()); ++p) {
      const C* x = call.in[0].as<C>() + p * w.in_plane();
      for (int64_t o = 0; o < w.out_plane(); ++o) {
        int64_t best = -1;
        w.each(o, [&](int64_t i, int64_t) {
          if (best < 0 || (x[best] == x[best] && (x[i] != x[i] || x[i] > x[best]))) best = i;
        });
        call.out[0].as<C>()[p * w.out_plane() + o] = best < 0 ? nothing : x[best];
        call.out[1].as<int64_t>()[p * w.out_plane() + o] = best;
      }
    }
  });
}

void max_pool_grad(const Call& call) {  // g, index (N, C, out spatial) -> dx (N, C, in spatial)
  const Window w = window(call.get<PoolAttrs>(), call.out[0].shape(), call.in[0].shape());
  const int64_t* index = call.in[1].as<int64_t>();
  by_kind(call.out[0], [&]<class C>(C) {
    const C* g = call.in[0].as<C>();
    C* dx = call.out[0].as<C>();
    for (int64_t i = 0; i < call.out[0].numel(); ++i) dx[i] = C{0};
    for (int64_t i = 0; i < call.in[0].numel(); ++i) {
      if (index[i] >= 0) accumulate(dx[i / w.out_plane() * w.in_plane() + index[i]], g[i]);
    }
  });
}

void avg_pool(const Call& call) {  // x (N, C, spatial) -> y (N, C, spatial)
  const auto& attrs = call.get<PoolAttrs>();
  const Window w = window(attrs, call.in[0].shape(), call.out[0].shape());
  for (int64_t p = 0; p < planes(call.in[0].shape()); ++p) {
    const double* x = call.in[0].as<double>() + p * w.in_plane();
    for (int64_t o = 0; o < w.out_plane(); ++o) {
      double sum = 0;
      w.each(o, [&](int64_t i, int64_t) { sum += x[i]; });
      call.out[0].as<double>()[p * w.out_plane() + o] = sum / count(w, o, attrs);
    }
  }
}

void avg_pool_grad(const Call& call) {  // g (N, C, out spatial) -> dx (N, C, in spatial)
  const auto& attrs = call.get<PoolAttrs>();
  const Window w = window(attrs, call.out[0].shape(), call.in[0].shape());
  double* all = call.out[0].as<double>();
  for (int64_t i = 0; i < call.out[0].numel(); ++i) all[i] = 0;
  for (int64_t p = 0; p < planes(call.in[0].shape()); ++p) {
    double* dx = all + p * w.in_plane();
    for (int64_t o = 0; o < w.out_plane(); ++o) {
      const double share = call.in[0].as<double>()[p * w.out_plane() + o] / count(w, o, attrs);
      w.each(o, [&](int64_t i, int64_t) { dx[i] += share; });
    }
  }
}

}  // namespace

KernelTable pool_kernels() {
  return {
      {Op::max_pool, max_pool},
      {Op::max_pool_grad, max_pool_grad},
      {Op::avg_pool, avg_pool},
      {Op::avg_pool_grad, avg_pool_grad},
  };
}

}  // namespace freight::ref
