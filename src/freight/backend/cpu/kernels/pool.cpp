// See pool.h. Channels that do not fill a vector are read and written with whole vectors that reach into the next
// pixel, which is written later; only the last pixel of a row uses masks.
#include "freight/backend/cpu/kernels/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "freight/backend/cpu/kernels/pool.cpp"
#include "hwy/foreach_target.h"
// The order of these two matters: foreach_target first.
#include "hwy/highway.h"
// Per target, no include guard of its own is in the way.
#include "freight/backend/cpu/kernels/functions-inl.h"

#include <algorithm>
#include <limits>

#include "freight/backend/cpu/kernels/pool.h"

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using VI = hn::Vec<DI>;

// Up to one vector of channels of one pixel.
struct ChannelVector {
  bool whole;  // a whole vector may be touched
  size_t count;
  hn::Mask<D> mask;
  HWY_INLINE V load(const float* p) const { return whole ? hn::LoadU(D(), p) : hn::MaskedLoad(mask, D(), p); }
  HWY_INLINE V load(const uint16_t* p) const {
    if (whole) return from_bf16(hn::LoadU(D16(), p));
    HWY_ALIGN uint16_t some[hn::MaxLanes(D16())] = {};  // AVX2 masks no 16 bits: it would read whole, aligned vectors
    std::copy_n(p, count, some);
    return from_bf16(hn::Load(D16(), some));
  }
  HWY_INLINE VI load(const int32_t* p) const {
    return whole ? hn::LoadU(DI(), p) : hn::MaskedLoad(hn::RebindMask(DI(), mask), DI(), p);
  }
  HWY_INLINE void store(V v, float* p) const {
    if (whole) {
      hn::StoreU(v, D(), p);
    } else {
      hn::BlendedStore(v, mask, D(), p);
    }
  }
  HWY_INLINE void store(V v, uint16_t* p) const {
    if (whole) return hn::StoreU(to_bf16(v), D16(), p);
    hn::BlendedStore(to_bf16(v), hn::FirstN(D16(), count), D16(), p);
  }
  HWY_INLINE void store(VI v, int32_t* p) const {
    if (whole) {
      hn::StoreU(v, DI(), p);
    } else {
      hn::BlendedStore(v, hn::RebindMask(DI(), mask), DI(), p);
    }
  }
};

// Calls f(pixel, first channel, part) for all pixels of a row. A vector may reach into the next pixel of the row where
// one follows.
template <class F>
HWY_INLINE void each_part(int64_t pixels, int64_t channels, F f) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t rest = channels % lanes == 0 ? lanes : channels % lanes;
  const auto count = static_cast<size_t>(rest);
  const auto mask = hn::FirstN(d, count);
  for (int64_t w = 0; w < pixels; ++w) {
    for (int64_t c = 0; c < channels; c += lanes) {
      f(w, c, ChannelVector{c + lanes <= channels || (pixels - w - 1) * channels >= lanes, count, mask});
    }
  }
}

// The part for reading at `left` elements before the end of a plane: whole where that is inside.
HWY_INLINE ChannelVector reader(const ChannelVector& part, int64_t left) {
  return {left >= static_cast<int64_t>(hn::Lanes(D())), part.count, part.mask};
}

// Greater, or the first NaN.
HWY_INLINE hn::Mask<D> wins(V v, V best) { return hn::And(hn::Not(hn::Le(v, best)), hn::Eq(best, best)); }

template <class T>
void max(const PoolGeometry& g, const void* x_, void* y_, int32_t* index, int64_t row) {
  const T* x = static_cast<const T*>(x_);
  T* y = static_cast<T*>(y_);
  const D d;
  const DI di;
  const int64_t image = row / g.out[0], plane = g.in[0] * g.in[1], channels = g.channels;
  const PoolRange rows = g.window(0, row % g.out[0]);
  x += image * plane * channels;
  y += row * g.out[1] * channels;
  index += row * g.out[1] * channels;
  each_part(g.out[1], channels, [&](int64_t ow, int64_t c, ChannelVector part) HWY_ATTR {
    const PoolRange cols = g.window(1, ow);
    const bool any = rows.from < rows.to && cols.from < cols.to;
    V best = hn::Set(d, -std::numeric_limits<float>::infinity());
    VI at = hn::Set(di, any ? static_cast<int32_t>(rows.from * g.in[1] + cols.from) : -1);
    for (int64_t h = rows.from; h < rows.to; ++h) {
      for (int64_t w = cols.from; w < cols.to; ++w) {
        const int64_t i = h * g.in[1] + w;
        const V v = reader(part, (plane - i) * channels - c).load(x + i * channels + c);
        const VI here = hn::Set(di, static_cast<int32_t>(i));
        const auto takes = wins(v, best);
        best = hn::IfThenElse(takes, v, best);
        at = hn::IfThenElse(hn::RebindMask(di, takes), here, at);
      }
    }
    part.store(best, y + ow * channels + c);
    part.store(at, index + ow * channels + c);
  });
}

// The rows of a window first, in one stream, then its columns.
template <class T>
void max_values(const PoolGeometry& g, const void* x_, void* y_, float* line, int64_t row) {
  const D d;
  const int64_t image = row / g.out[0], channels = g.channels, width = g.in[1] * channels;
  const T* x = static_cast<const T*>(x_) + image * g.in[0] * width;
  T* y = static_cast<T*>(y_) + row * g.out[1] * channels;
  const V least = hn::Set(d, -std::numeric_limits<float>::infinity());
  const PoolRange rows = g.window(0, row % g.out[0]);
  each_part(1, width, [&](int64_t, int64_t i, ChannelVector part) HWY_ATTR {
    V best = rows.from < rows.to ? part.load(x + rows.from * width + i) : least;
    for (int64_t h = rows.from + 1; h < rows.to; ++h) {
      const V v = part.load(x + h * width + i);
      best = hn::IfThenElse(wins(v, best), v, best);
    }
    hn::StoreU(best, d, line + i);
  });
  each_part(g.out[1], channels, [&](int64_t ow, int64_t c, ChannelVector part) HWY_ATTR {
    const PoolRange cols = g.window(1, ow);
    V best = cols.from < cols.to ? hn::LoadU(d, line + cols.from * channels + c) : least;
    for (int64_t w = cols.from + 1; w < cols.to; ++w) {
      const V v = hn::LoadU(d, line + w * channels + c);
      best = hn::IfThenElse(wins(v, best), v, best);
    }
    part.store(best, y + ow * channels + c);
  });
}

// dx of a row: the sum of f(part, position of dy, row and column of dy, pixel of dx) over the windows that cover a
// pixel.
template <class T, class F>
HWY_INLINE void sum_covering(const PoolGeometry& g, void* dx_, int64_t row, F f) {
  const D d;
  const int64_t h = row % g.in[0], channels = g.channels, out_plane = g.out[0] * g.out[1];
  const int64_t image = row / g.in[0] * out_plane * channels;
  T* dx = static_cast<T*>(dx_) + row * g.in[1] * channels;
  const PoolRange rows = g.covering(0, h);
  each_part(g.in[1], channels, [&](int64_t w, int64_t c, ChannelVector part) HWY_ATTR {
    const PoolRange cols = g.covering(1, w);
    V sum = hn::Zero(d);
    for (int64_t oh = rows.from; oh < rows.to; ++oh) {
      for (int64_t ow = cols.from; ow < cols.to; ++ow) {
        const int64_t o = oh * g.out[1] + ow;
        const ChannelVector source = reader(part, (out_plane - o) * channels - c);
        sum = hn::Add(sum, f(source, image + o * channels + c, oh, ow, h * g.in[1] + w));
      }
    }
    part.store(sum, dx + w * channels + c);
  });
}

template <class T>
void max_grad(const PoolGeometry& g, const void* dy, const int32_t* index, void* dx, int64_t row) {
  const auto chosen = [&](const ChannelVector& part, int64_t at, int64_t, int64_t, int64_t pixel) HWY_ATTR {
    const auto here = hn::Eq(part.load(index + at), hn::Set(DI(), static_cast<int32_t>(pixel)));
    return hn::IfThenElseZero(hn::RebindMask(D(), here), part.load(static_cast<const T*>(dy) + at));
  };
  sum_covering<T>(g, dx, row, chosen);
}

HWY_INLINE float share(const PoolGeometry& g, PoolRange rows, PoolRange cols) {
  const int64_t inside = std::max<int64_t>(rows.to - rows.from, 0) * std::max<int64_t>(cols.to - cols.from, 0);
  return 1.0f / static_cast<float>(g.count_include_pad ? g.kernel[0] * g.kernel[1] : inside);
}

// Large windows are summed up by parts of so many numbers: a sum of some millions in f32 loses what is added to it.
constexpr int64_t kPart = 1024;

template <class T>
void average(const PoolGeometry& g, const void* x_, void* y_, int64_t row) {
  const T* x = static_cast<const T*>(x_);
  T* y = static_cast<T*>(y_);
  const D d;
  const int64_t image = row / g.out[0], plane = g.in[0] * g.in[1], channels = g.channels;
  const PoolRange rows = g.window(0, row % g.out[0]);
  x += image * plane * channels;
  y += row * g.out[1] * channels;
  each_part(g.out[1], channels, [&](int64_t ow, int64_t c, ChannelVector part) HWY_ATTR {
    const PoolRange cols = g.window(1, ow);
    V sum = hn::Zero(d), some = sum;
    int64_t summed = 0;  // in `some`
    for (int64_t h = rows.from; h < rows.to; ++h) {
      for (int64_t w = cols.from; w < cols.to;) {
        const int64_t end = std::min(cols.to, w + kPart - summed);
        summed += end - w;
        for (; w < end; ++w) {
          const int64_t i = h * g.in[1] + w;
          some = hn::Add(some, reader(part, (plane - i) * channels - c).load(x + i * channels + c));
        }
        if (summed < kPart) continue;
        sum = hn::Add(sum, some);
        some = hn::Zero(d);
        summed = 0;
      }
    }
    sum = hn::Add(sum, some);
    part.store(hn::Mul(sum, hn::Set(d, share(g, rows, cols))), y + ow * channels + c);
  });
}

template <class T>
void average_grad(const PoolGeometry& g, const void* dy, void* dx, int64_t row) {
  const auto part_of = [&](const ChannelVector& part, int64_t at, int64_t oh, int64_t ow, int64_t) HWY_ATTR {
    const float factor = share(g, g.window(0, oh), g.window(1, ow));
    return hn::Mul(part.load(static_cast<const T*>(dy) + at), hn::Set(D(), factor));
  };
  sum_covering<T>(g, dx, row, part_of);
}

template <class T>
constexpr PoolTable kTable = {max<T>, max_values<T>, max_grad<T>, average<T>, average_grad<T>};
PoolTables make_pool_tables() { return {kTable<float>, kTable<uint16_t>}; }

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace freight::cpu {
FREIGHT_SIMD_TABLE(PoolTables, pool_tables, make_pool_tables)
}  // namespace freight::cpu
#endif
