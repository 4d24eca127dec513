// Pooling of the reference backend over one or two spatial axes. Padding never wins a maximum; max_pool also gives the
// flat index of the winner in the input's spatial plane (first on ties, NaN wins; -1 for a window of padding only).
#include <limits>

#include "freight/backend/ref/kernels.h"

namespace freight::ref {

namespace {

// The geometry of pooling, seen as two spatial axes (a single axis becomes the second).
struct PoolShape {
  int64_t planes;  // N * C
  int64_t in[2], out[2], kernel[2], stride[2], pad[2];

  PoolShape(const PoolAttrs& a, const Shape& x, const Shape& y) : planes(x[0] * x[1]) {
    const int spatial = x.rank() - 2;
    for (int d = 0; d < 2; ++d) {
      const int s = d - (2 - spatial);
      in[d] = s < 0 ? 1 : x[2 + s];
      out[d] = s < 0 ? 1 : y[2 + s];
      kernel[d] = s < 0 ? 1 : a.kernel[s];
      stride[d] = s < 0 ? 1 : a.stride[s];
      pad[d] = s < 0 ? 0 : a.pad_low[s];
    }
  }
  int64_t in_plane() const { return in[0] * in[1]; }
  int64_t out_plane() const { return out[0] * out[1]; }

  // f(flat index in the input's plane) for every element of the image that window `o` of a plane covers.
  template <class F>
  void each(int64_t o, F f) const {
    const int64_t h0 = o / out[1] * stride[0] - pad[0], w0 = o % out[1] * stride[1] - pad[1];
    for (int64_t h = h0; h < h0 + kernel[0]; ++h) {
      for (int64_t w = w0; w < w0 + kernel[1]; ++w) {
        if (h >= 0 && h < in[0] && w >= 0 && w < in[1]) f(h * in[1] + w);
      }
    }
  }
  // The divisor of an average.
  double count(int64_t o, const PoolAttrs& a) const {
    if (a.count_include_pad) return static_cast<double>(kernel[0] * kernel[1]);
    double n = 0;
    each(o, [&](int64_t) { ++n; });
    return n;
  }
};

void max_pool(const Call& call) {  // x (N, C, spatial) -> y, index (N, C, spatial)
  const PoolShape shape(call.get<PoolAttrs>(), call.in[0].shape(), call.out[0].shape());
  by_kind(call.in[0], [&]<class C>(C) {
    using Limits = std::numeric_limits<C>;
    const C nothing = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    for (int64_t p = 0; p < shape.planes; ++p) {
      const C* x = call.in[0].as<C>() + p * shape.in_plane();
      for (int64_t o = 0; o < shape.out_plane(); ++o) {
        int64_t best = -1;
        shape.each(o, [&](int64_t i) {
          if (best < 0 || (x[best] == x[best] && (x[i] != x[i] || x[i] > x[best]))) best = i;
        });
        call.out[0].as<C>()[p * shape.out_plane() + o] = best < 0 ? nothing : x[best];
        call.out[1].as<int64_t>()[p * shape.out_plane() + o] = best;
      }
    }
  });
}

void max_pool_grad(const Call& call) {  // g, index (N, C, out spatial) -> dx (N, C, in spatial)
  const PoolShape shape(call.get<PoolAttrs>(), call.out[0].shape(), call.in[0].shape());
  const int64_t* index = call.in[1].as<int64_t>();
  by_kind(call.out[0], [&]<class C>(C) {
    const C* g = call.in[0].as<C>();
    C* dx = call.out[0].as<C>();
    for (int64_t i = 0; i < call.out[0].numel(); ++i) dx[i] = C{0};
    for (int64_t i = 0; i < call.in[0].numel(); ++i) {
      if (index[i] >= 0) accumulate(dx[i / shape.out_plane() * shape.in_plane() + index[i]], g[i]);
    }
  });
}

void avg_pool(const Call& call) {  // x (N, C, spatial) -> y (N, C, spatial)
  const auto& attrs = call.get<PoolAttrs>();
  const PoolShape shape(attrs, call.in[0].shape(), call.out[0].shape());
  for (int64_t p = 0; p < shape.planes; ++p) {
    const double* x = call.in[0].as<double>() + p * shape.in_plane();
    for (int64_t o = 0; o < shape.out_plane(); ++o) {
      double sum = 0;
      shape.each(o, [&](int64_t i) { sum += x[i]; });
      call.out[0].as<double>()[p * shape.out_plane() + o] = sum / shape.count(o, attrs);
    }
  }
}

void avg_pool_grad(const Call& call) {  // g (N, C, out spatial) -> dx (N, C, in spatial)
  const auto& attrs = call.get<PoolAttrs>();
  const PoolShape shape(attrs, call.out[0].shape(), call.in[0].shape());
  double* all = call.out[0].as<double>();
  for (int64_t i = 0; i < call.out[0].numel(); ++i) all[i] = 0;
  for (int64_t p = 0; p < shape.planes; ++p) {
    double* dx = all + p * shape.in_plane();
    for (int64_t o = 0; o < shape.out_plane(); ++o) {
      const double share = call.in[0].as<double>()[p * shape.out_plane() + o] / shape.count(o, attrs);
      shape.each(o, [&](int64_t i) { dx[i] += share; });
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
