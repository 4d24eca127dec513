// See pool.h. Channels that do not fill a vector are read and written with whole vectors that reach into the next
// pixel, which is written later; only the last pixels of a row use narrower vectors.
//
// Maxima are found among the bits of numbers, as unsigned integers: those of numbers that are neither negative nor NaN
// are ordered as the numbers are, and the largest one shows whether a window has a number of another kind.
#include "freight/backend/cpu/kernels/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "freight/backend/cpu/kernels/pool.cpp"
#include "hwy/foreach_target.h"
// The order of these two matters: foreach_target first.
#include "hwy/highway.h"

#include <algorithm>
#include <limits>

#include "freight/backend/cpu/kernels/pool.h"

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
// Windows that cover a pixel, or the pixels of a window: rows x columns of pixels, and where they are in their windows.
struct Grid {
  int64_t first, row;  // numbers: the first pixel's, from row to row
  int64_t rows, columns;
  int64_t place, row_place, column_place;  // the first pixel's, from row to row, from column to column
};

// Calls f.operator()<rows, columns>() with extents that the compiler knows; 0: those of the grid.
template <class F>
HWY_INLINE void with_extents(const Grid& g, F f) {
  if (std::min(g.rows, g.columns) < 1 || std::max(g.rows, g.columns) > 3) return f.template operator()<0, 0>();
  switch (g.rows * 4 + g.columns) {
    case 5: return f.template operator()<1, 1>();
    case 6: return f.template operator()<1, 2>();
    case 9: return f.template operator()<2, 1>();
    case 10: return f.template operator()<2, 2>();
    case 11: return f.template operator()<2, 3>();
    case 14: return f.template operator()<3, 2>();
    case 15: return f.template operator()<3, 3>();
    default: return f.template operator()<0, 0>();
  }
}

// f(first number of the pixel, its place) for the pixels of a grid, without its first `skipped` ones, of the first row.
template <int kGridRows, int kGridColumns, class F>
HWY_INLINE void each_pixel(const Grid& g, int64_t channels, int64_t skipped, F f) {
  const int64_t rows = kGridRows > 0 ? kGridRows : g.rows, columns = kGridColumns > 0 ? kGridColumns : g.columns;
#pragma GCC unroll 3
  for (int64_t i = 0; i < rows; ++i) {
#pragma GCC unroll 3
    for (int64_t j = i == 0 ? skipped : 0; j < columns; ++j) {
      f(g.first + i * g.row + j * channels, g.place + i * g.row_place + j * g.column_place);
    }
  }
}

// Calls f(lanes' tag, first channel) for vectors that cover the channels of a pixel. A pixel with fewer channels than
// lanes has a single vector, which reaches into the next pixels, if there is `room` for so many numbers.
template <class L, class F>
HWY_INLINE void each_vector(L l, int64_t channels, int64_t room, F f) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(l));
  if (lanes <= std::max(channels, room)) {
    for (int64_t c = 0; c < channels; c += lanes) f(l, std::min(c, std::max<int64_t>(channels - lanes, 0)));
  } else if constexpr (hn::MaxLanes(L()) > 4) {
    each_vector(hn::CappedTag<uint32_t, 4>(), channels, room, f);
  } else if constexpr (hn::MaxLanes(L()) > 1) {
    each_vector(hn::CappedTag<uint32_t, 1>(), channels, room, f);
  }
}

// The bits of numbers T, which are u32 of f32 and u16 of bf16, and places P, u8 or u32, are processed in lanes of one
// width. Narrower numbers are at the upper end of a lane: bf16 in 32 bits is f32. Without SIMD, Highway has no pairs.
template <class T, class P>
using Lane = std::conditional_t<sizeof(P) == 1 && hn::MaxLanes(hn::ScalableTag<uint32_t>()) != 1, T, uint32_t>;

template <class L, class E>
HWY_INLINE hn::Vec<L> load(L l, const E* p) {
  if constexpr (sizeof(E) == sizeof(hn::TFromD<L>)) {
    return hn::LoadU(l, p);
  } else {
    const auto v = hn::PromoteTo(l, hn::LoadU(hn::Rebind<E, L>(), p));
    if constexpr (sizeof(E) == 1) return v;
    if constexpr (sizeof(E) == 2) return hn::ShiftLeft<16>(v);
  }
}
template <class L, class E>
HWY_INLINE void store(L l, hn::Vec<L> v, E* p) {
  if constexpr (sizeof(E) == sizeof(hn::TFromD<L>)) {
    hn::StoreU(v, l, p);
  } else {
    const hn::Rebind<E, L> narrow;
    if constexpr (sizeof(E) == 2) v = hn::ShiftRight<16>(v);
    hn::StoreU(hn::TruncateTo(narrow, v), narrow, p);
  }
}

// The same as f32. To bf16 they are rounded to nearest even; the lower half of NaN is zero, because all come from bf16,
// and rounding leaves it as it is.
template <class L>
using Float = hn::RebindToFloat<L>;
template <class L, class E>
HWY_INLINE hn::Vec<Float<L>> load_f32(L l, const E* p) {
  return hn::BitCast(Float<L>(), load(l, p));
}
template <class L>
HWY_INLINE hn::Vec<L> rounded(L l, hn::Vec<Float<L>> v) {
  const auto bits = hn::BitCast(l, v), odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(l, 1u));
  return hn::Add(bits, hn::Add(odd, hn::Set(l, 0x7fffu)));
}
template <class L, class E>
HWY_INLINE void store_f32(L l, hn::Vec<Float<L>> v, E* p) {
  if constexpr (sizeof(E) == 2) return store(l, rounded(l, v), p);
  store(l, hn::BitCast(l, v), p);
}

// The bits of infinity and of -infinity.
template <class U>
constexpr U kInfinity = static_cast<U>(sizeof(U) == 2 ? 0x7f80u : 0x7f800000u);
template <class U>
constexpr U kLeast = static_cast<U>(sizeof(U) == 2 ? 0xff80u : 0xff800000u);

// Signed integers in the order of all numbers: both zeros are equal, and all NaN are equal and above the others.
template <class L>
HWY_INLINE hn::Vec<hn::RebindToSigned<L>> ordered(L l, hn::Vec<L> v) {
  using U = hn::TFromD<L>;
  const hn::RebindToSigned<L> signs;
  constexpr auto kMost = std::numeric_limits<hn::TFromD<hn::RebindToSigned<L>>>::max();
  const auto size = hn::BitCast(signs, hn::And(v, hn::Set(l, static_cast<U>(kMost))));
  const auto negative = hn::BroadcastSignBit(hn::BitCast(signs, v));
  const auto nan = hn::Gt(size, hn::BitCast(signs, hn::Set(l, kInfinity<U>)));
  return hn::IfThenElse(nan, hn::Set(signs, kMost), hn::Sub(hn::Xor(size, negative), negative));
}

template <class L>
struct Winners {
  hn::Vec<L> values, places;
};

// The first of the largest numbers of a window; where there is NaN, the first of those.
enum class Numbers : uint8_t { positive, any };
template <Numbers kNumbers, int kGridRows, int kGridColumns, class L, class T>
HWY_INLINE Winners<L> largest(L l, const Grid& g, int64_t channels, const T* x) {
  using U = hn::TFromD<L>;
  auto best = load(l, x + g.first), at = hn::Set(l, static_cast<U>(g.place));
  auto key = ordered(l, best);
  each_pixel<kGridRows, kGridColumns>(g, channels, 1, [&](int64_t i, int64_t place) HWY_ATTR {
    const auto v = load(l, x + i), here = hn::Set(l, static_cast<U>(place));
    if constexpr (kNumbers == Numbers::positive) {
      const auto top = hn::Max(best, v);
      at = hn::IfThenElse(hn::Eq(top, best), at, here);
      best = top;
    } else {
      const auto k = ordered(l, v);
      const auto wins = hn::RebindMask(l, hn::Gt(k, key));
      key = hn::Max(key, k);
      best = hn::IfThenElse(wins, v, best);
      at = hn::IfThenElse(wins, here, at);
    }
  });
  return {best, at};
}

template <class T, class P>
HWY_INLINE void max_with(const PoolGeometry g, const void* x_, void* y_, void* places_, int64_t row) {
  const hn::ScalableTag<Lane<T, P>> lanes;
  const int64_t channels = g.channels, image = row / g.out[0], oh = row % g.out[0], plane = g.in[0] * g.in[1];
  const T* x = static_cast<const T*>(x_) + image * plane * channels;
  T* y = static_cast<T*>(y_) + row * g.out[1] * channels;
  P* at = static_cast<P*>(places_) + row * g.out[1] * channels;
  const PoolRange rows = g.window(0, oh);
  bool positive = true;  // all numbers of this row until now
  for (int64_t ow = 0; ow < g.out[1];) {
    const PoolRange columns = g.window(1, ow);
    if (rows.from >= rows.to || columns.from >= columns.to) {
      std::fill_n(y, channels, kLeast<T>);
      std::fill_n(at, channels, static_cast<P>(-1));
      ++ow, y += channels, at += channels;
      continue;
    }
    // This window and, of those that have all their columns, the next ones.
    const bool whole = columns.to - columns.from == g.kernel[1];
    const int64_t end = whole ? std::min((g.in[1] + g.pad[1] - g.kernel[1]) / g.stride[1] + 1, g.out[1]) : ow + 1;
    const int64_t pixel = rows.from * g.in[1] + columns.from;
    Grid grid{0, g.in[1] * channels, rows.to - rows.from, columns.to - columns.from, 0, g.in[1], 1};
    if (sizeof(P) == 1) {
      grid.place = g.place_in_window(oh, ow, rows.from, columns.from);
      grid.row_place = g.kernel[1];
    }
    // Vectors are written up to the end of the row, and read up to that of the last image.
    const T* from = x + pixel * channels;
    int64_t readable = (g.n - image) * plane - (rows.to - 1) * g.in[1] - columns.to + 1, first = pixel;
    with_extents(grid, [&]<int kGridRows, int kGridColumns>() HWY_ATTR {
      for (; ow < end; ++ow) {
        each_vector(lanes, channels, std::min(g.out[1] - ow, readable) * channels, [&](auto l, int64_t c) HWY_ATTR {
          using L = decltype(l);
          Winners<L> w;
          if (positive) {
            w = largest<Numbers::positive, kGridRows, kGridColumns>(l, grid, channels, from + c);
            positive = hn::AllFalse(l, hn::Gt(w.values, hn::Set(l, kInfinity<hn::TFromD<L>>)));
          }
          if (!positive) w = largest<Numbers::any, kGridRows, kGridColumns>(l, grid, channels, from + c);
          store(l, w.values, y + c);
          if constexpr (sizeof(P) > 1) w.places = hn::Add(w.places, hn::Set(l, static_cast<uint32_t>(first)));
          store(l, w.places, at + c);
        });
        from += g.stride[1] * channels, y += channels, at += channels;
        readable -= g.stride[1], first += g.stride[1];
      }
    });
  }
}

template <class T>
HWY_FLATTEN void max(const PoolGeometry& g, const void* x, void* y, void* places, int64_t row) {
  if (g.places == MaxPlaces::bytes) return max_with<T, uint8_t>(g, x, y, places, row);
  return max_with<T, uint32_t>(g, x, y, places, row);
}

// The sums of lanes that are f32, or of pairs of bf16.
template <class L, bool = sizeof(hn::TFromD<L>) == 4>
struct Sums {
  hn::Vec<Float<L>> sum;
  HWY_INLINE Sums() : sum(hn::Zero(Float<L>())) {}
  HWY_INLINE void add(hn::Vec<L> v) { sum = hn::Add(sum, hn::BitCast(Float<L>(), v)); }
  template <class T>
  HWY_INLINE void store(T* p) const {
    store_f32(L(), sum, p);
  }
};
template <class L>
struct Sums<L, false> {
  using Pairs = hn::RepartitionToWide<L>;
  using F = Float<Pairs>;
  hn::Vec<F> even, odd;
  HWY_INLINE Sums() : even(hn::Zero(F())), odd(even) {}
  HWY_INLINE void add(hn::Vec<L> v) {
    const auto pairs = hn::BitCast(Pairs(), v);
    even = hn::Add(even, hn::BitCast(F(), hn::ShiftLeft<16>(pairs)));
    odd = hn::Add(odd, hn::BitCast(F(), hn::And(pairs, hn::Set(Pairs(), 0xffff0000u))));
  }
  HWY_INLINE void store(uint16_t* p) const {
    const auto lower = hn::BitCast(L(), hn::ShiftRight<16>(rounded(Pairs(), even)));
    hn::StoreU(hn::OddEven(hn::BitCast(L(), rounded(Pairs(), odd)), lower), L(), p);
  }
};

// dx of a pixel: the sum of dy over the windows that chose it.
template <int kGridRows, int kGridColumns, class L, class T, class P>
HWY_INLINE void sum_chosen(L l, const Grid& grid, int64_t channels, const T* dy, const P* at, T* dx) {
  const auto chosen = [&](int64_t i, int64_t place) HWY_ATTR {
    const auto here = hn::Eq(load(l, at + i), hn::Set(l, static_cast<hn::TFromD<L>>(place)));
    return hn::IfThenElseZero(here, load(l, dy + i));
  };
  if constexpr (sizeof(T) == 2 && kGridRows * kGridColumns == 1) {
    store(l, chosen(grid.first, grid.place), dx);  // one number of bf16 needs no rounding
  } else {
    Sums<L> sums;
    each_pixel<kGridRows, kGridColumns>(grid, channels, 0,
                                        [&](int64_t i, int64_t place) HWY_ATTR { sums.add(chosen(i, place)); });
    sums.store(dx);
  }
}

// Calls f.operator()<rows, kernel, stride>() where the windows are of the most frequent kinds: `rows` of them cover a
// pixel, kernel and stride are those of the columns.
template <class F>
HWY_INLINE void with_windows(int64_t rows, int64_t kernel, int64_t stride, F f) {
  if (std::max({rows, kernel, stride}) > 3) return;
  switch (rows * 16 + kernel * 4 + stride) {
    case 16 + 8 + 2: return f.template operator()<1, 2, 2>();
    case 16 + 12 + 2: return f.template operator()<1, 3, 2>();
    case 32 + 12 + 2: return f.template operator()<2, 3, 2>();
    case 32 + 12 + 1: return f.template operator()<2, 3, 1>();
    case 48 + 12 + 1: return f.template operator()<3, 3, 1>();
    default: return;
  }
}

template <class T, class P>
HWY_INLINE void max_grad_with(const PoolGeometry g, const void* dy_, const void* places_, void* dx_, int64_t row) {
  const hn::ScalableTag<Lane<T, P>> lanes;
  const int64_t channels = g.channels, image = row / g.in[0], h = row % g.in[0], plane = g.out[0] * g.out[1];
  const int64_t kernel = g.kernel[1], stride = g.stride[1];
  const PoolRange rows = g.covering(0, h);
  // All that follows is relative to the first row of windows.
  const int64_t skipped = (image * plane + rows.from * g.out[1]) * channels;
  const T* dy = static_cast<const T*>(dy_) + skipped;
  const P* at = static_cast<const P*>(places_) + skipped;
  T* dx = static_cast<T*>(dx_) + row * g.in[1] * channels;
  Grid grid{0, g.out[1] * channels, rows.to - rows.from, 0, 0, 0, 0};
  if (sizeof(P) == 1) {
    grid.row_place = -g.stride[0] * kernel;
    grid.column_place = -stride;
  }
  const int64_t readable = (g.n - image) * plane - (rows.to - 1) * g.out[1];
  // `pixels` from w on, whose last window is in column `last`: vectors are written up to the end of the row, and read
  // up to that of the last image.
  const auto room = [&](int64_t w, int64_t pixels, int64_t last) {
    return std::min(g.in[1] - w - pixels + 1, readable - last) * channels;
  };
  const auto place = [&](int64_t w, int64_t ow) {
    return sizeof(P) == 1 ? g.place_in_window(rows.from, ow, h, w) : h * g.in[1] + w;
  };
  // Window `ow` of a row begins at pixel ow * stride - pad. The pixels from there to the next window's beginning are in
  // it, if they are in any, and in some windows before it.
  const int64_t before = (kernel - 1) / stride, pad = g.pad[1];
  const int64_t first = std::max(before, (pad + stride - 1) / stride),
                end = std::min(g.out[1], (g.in[1] + pad) / stride);
  for (int64_t w = 0; w < g.in[1];) {
    if (first < end && w == first * stride - pad) {
      with_windows(grid.rows, kernel, stride, [&]<int kRows, int kKernel, int kStride>() HWY_ATTR {
        for (int64_t ow = first; ow < end; ++ow, w += kStride) {
          each_vector(lanes, channels, room(w, kStride, ow), [&](auto l, int64_t c) HWY_ATTR {
            const auto pixel = [&]<int kPixel>() HWY_ATTR {
              constexpr int kColumns = (kKernel - kPixel + kStride - 1) / kStride;
              const int64_t o = ow - kColumns + 1, at_c = o * channels + c;
              const Grid covering{
                  0, grid.row, kRows, kColumns, place(w + kPixel, o), grid.row_place, grid.column_place};
              sum_chosen<kRows, kColumns>(l, covering, channels, dy + at_c, at + at_c,
                                          dx + (w + kPixel) * channels + c);
            };
            pixel.template operator()<0>();
            if constexpr (kStride > 1) pixel.template operator()<1>();
          });
        }
      });
      if (w == g.in[1]) break;
    }
    const PoolRange columns = g.covering(1, w);
    grid.columns = columns.to - columns.from;
    grid.place = place(w, columns.from);
    with_extents(grid, [&]<int kGridRows, int kGridColumns>() HWY_ATTR {
      each_vector(lanes, channels, room(w, 1, columns.to - 1), [&](auto l, int64_t c) HWY_ATTR {
        const int64_t at_c = columns.from * channels + c;
        sum_chosen<kGridRows, kGridColumns>(l, grid, channels, dy + at_c, at + at_c, dx + w * channels + c);
      });
    });
    ++w;
  }
}

template <class T>
HWY_FLATTEN void max_grad(const PoolGeometry& g, const void* dy, const void* places, void* dx, int64_t row) {
  if (g.places == MaxPlaces::bytes) return max_grad_with<T, uint8_t>(g, dy, places, dx, row);
  return max_grad_with<T, uint32_t>(g, dy, places, dx, row);
}

// Greater, or the first NaN.
template <class V>
HWY_INLINE auto wins(V v, V best) {
  return hn::And(hn::Not(hn::Le(v, best)), hn::Eq(best, best));
}

constexpr hn::ScalableTag<uint32_t> kF32Lanes;

// The rows of a window first, in one stream, then its columns.
template <class T>
void max_values(const PoolGeometry& g, const void* x_, void* y_, float* line, int64_t row) {
  const int64_t image = row / g.out[0], channels = g.channels, width = g.in[1] * channels;
  const T* x = static_cast<const T*>(x_) + image * g.in[0] * width;
  T* y = static_cast<T*>(y_) + row * g.out[1] * channels;
  const PoolRange rows = g.window(0, row % g.out[0]);
  each_vector(kF32Lanes, width, 0, [&](auto l, int64_t i) HWY_ATTR {
    const Float<decltype(l)> d;
    auto best = rows.from < rows.to ? load_f32(l, x + rows.from * width + i) : hn::Neg(hn::Inf(d));
    for (int64_t h = rows.from + 1; h < rows.to; ++h) {
      const auto v = load_f32(l, x + h * width + i);
      best = hn::IfThenElse(wins(v, best), v, best);
    }
    hn::StoreU(best, d, line + i);
  });
  for (int64_t ow = 0; ow < g.out[1]; ++ow) {
    const PoolRange columns = g.window(1, ow);
    each_vector(kF32Lanes, channels, (g.out[1] - ow) * channels, [&](auto l, int64_t c) HWY_ATTR {
      const Float<decltype(l)> d;
      auto best = columns.from < columns.to ? hn::LoadU(d, line + columns.from * channels + c) : hn::Neg(hn::Inf(d));
      for (int64_t w = columns.from + 1; w < columns.to; ++w) {
        const auto v = hn::LoadU(d, line + w * channels + c);
        best = hn::IfThenElse(wins(v, best), v, best);
      }
      store_f32(l, best, y + ow * channels + c);
    });
  }
}

HWY_INLINE float share(const PoolGeometry& g, PoolRange rows, PoolRange cols) {
  const int64_t inside = std::max<int64_t>(rows.to - rows.from, 0) * std::max<int64_t>(cols.to - cols.from, 0);
  return 1.0f / static_cast<float>(g.count_include_pad ? g.kernel[0] * g.kernel[1] : inside);
}

// Large windows are summed up by parts of so many numbers: a sum of some millions in f32 loses what is added to it.
constexpr int64_t kPart = 1024;

template <class T>
void average(const PoolGeometry& g, const void* x_, void* y_, int64_t row) {
  const int64_t image = row / g.out[0], plane = g.in[0] * g.in[1], channels = g.channels;
  const PoolRange rows = g.window(0, row % g.out[0]);
  const T* x = static_cast<const T*>(x_) + image * plane * channels;
  T* y = static_cast<T*>(y_) + row * g.out[1] * channels;
  for (int64_t ow = 0; ow < g.out[1]; ++ow) {
    const PoolRange cols = g.window(1, ow);
    const int64_t readable = (g.n - image) * plane - (rows.to - 1) * g.in[1] - cols.to + 1;
    each_vector(kF32Lanes, channels, std::min(g.out[1] - ow, readable) * channels, [&](auto l, int64_t c) HWY_ATTR {
      const Float<decltype(l)> d;
      auto sum = hn::Zero(d), some = sum;
      int64_t summed = 0;  // in `some`
      for (int64_t h = rows.from; h < rows.to; ++h) {
        for (int64_t w = cols.from; w < cols.to;) {
          const int64_t end = std::min(cols.to, w + kPart - summed);
          summed += end - w;
          for (; w < end; ++w) some = hn::Add(some, load_f32(l, x + (h * g.in[1] + w) * channels + c));
          if (summed < kPart) continue;
          sum = hn::Add(sum, some);
          some = hn::Zero(d);
          summed = 0;
        }
      }
      store_f32(l, hn::Mul(hn::Add(sum, some), hn::Set(d, share(g, rows, cols))), y + ow * channels + c);
    });
  }
}

template <class T>
void average_grad(const PoolGeometry& g, const void* dy_, void* dx_, int64_t row) {
  const int64_t image = row / g.in[0], plane = g.out[0] * g.out[1], channels = g.channels;
  const T* dy = static_cast<const T*>(dy_) + image * plane * channels;
  T* dx = static_cast<T*>(dx_) + row * g.in[1] * channels;
  const PoolRange rows = g.covering(0, row % g.in[0]);
  for (int64_t w = 0; w < g.in[1]; ++w) {
    const PoolRange cols = g.covering(1, w);
    const int64_t readable = (g.n - image) * plane - (rows.to - 1) * g.out[1] - cols.to + 1;
    each_vector(kF32Lanes, channels, std::min(g.in[1] - w, readable) * channels, [&](auto l, int64_t c) HWY_ATTR {
      const Float<decltype(l)> d;
      auto sum = hn::Zero(d);
      for (int64_t oh = rows.from; oh < rows.to; ++oh) {
        for (int64_t ow = cols.from; ow < cols.to; ++ow) {
          const auto factor = hn::Set(d, share(g, g.window(0, oh), g.window(1, ow)));
          sum = hn::MulAdd(load_f32(l, dy + (oh * g.out[1] + ow) * channels + c), factor, sum);
        }
      }
      store_f32(l, sum, dx + w * channels + c);
    });
  }
}

template <class T>
constexpr PoolTable kTable = {max<T>, max_values<T>, max_grad<T>, average<T>, average_grad<T>};
PoolTables make_pool_tables() { return {kTable<uint32_t>, kTable<uint16_t>}; }

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace freight::cpu {
FREIGHT_SIMD_TABLE(PoolTables, pool_tables, make_pool_tables)
}  // namespace freight::cpu
#endif
