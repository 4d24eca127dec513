// See gemm_tile.h.
#include "freight/backend/cpu/kernels/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "freight/backend/cpu/kernels/gemm_tile.cpp"
#include "hwy/foreach_target.h"
// The order of these two matters: foreach_target first.
#include "hwy/cache_control.h"
#include "hwy/highway.h"

#include <algorithm>
#include <utility>

#include "freight/backend/cpu/kernels/clip-inl.h"
#include "freight/backend/cpu/kernels/gemm_tile.h"
#include "freight/backend/cpu/kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
template <class T>
using D = hn::ScalableTag<T>;
template <class T>
using V = hn::Vec<D<T>>;

// 16 registers hold 6 x 2 results, two columns and a broadcast; 32 hold 12 x 2.
#if HWY_TARGET <= HWY_AVX3
constexpr int kRows = 12;
#else
constexpr int kRows = 6;
#endif
constexpr int kRowsOfOne = std::max(kRows, 8);  // eight sums hide the latency of the multiply-add
constexpr int kStepsAhead = 16;                 // steps before which a tile of many rows asks for columns

// Applies what follows the sums of a tile, and stores it. kFull says that the last vector is full. All vectors take one
// kind of step before the next: a copy of the whole sequence for each was most of this file's code.
template <bool kFull, class T, int kR, int kVectors>
HWY_INLINE void finish(const GemmTile<T>& t, V<T> (&acc)[kR][kVectors]) {
  const D<T> d;
  const auto mask = hn::FirstN(d, static_cast<size_t>(t.last_columns));
  const auto load = [&](const T* p, int v)
                        HWY_ATTR { return kFull || v + 1 < kVectors ? hn::LoadU(d, p) : hn::MaskedLoad(mask, d, p); };
  const auto each = [&](const auto& f) HWY_ATTR {
#pragma GCC unroll 12
    for (int i = 0; i < kR; ++i) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) f(acc[i][v], i * t.c_row + v * t.c_vector, i, v);
    }
  };
  if (t.accumulate) each([&](V<T>& r, ptrdiff_t at, int, int v) HWY_ATTR { r = hn::Add(r, load(t.c + at, v)); });
  if (t.subtract) each([&](V<T>& r, ptrdiff_t at, int, int v) HWY_ATTR { r = hn::Sub(load(t.c + at, v), r); });
  if (t.column_bias)
    each([&](V<T>& r, ptrdiff_t, int, int v)
             HWY_ATTR { r = hn::Add(r, hn::LoadU(d, t.column_bias + v * t.c_vector)); });
  if (t.row_bias) each([&](V<T>& r, ptrdiff_t, int i, int) HWY_ATTR { r = hn::Add(r, hn::Set(d, t.row_bias[i])); });
  if (t.residual) each([&](V<T>& r, ptrdiff_t at, int, int v) HWY_ATTR { r = hn::Add(r, load(t.residual + at, v)); });
  if (t.relu) each([&](V<T>& r, ptrdiff_t, int, int) HWY_ATTR { r = at_least(hn::Zero(d), r); });
  if (t.most < std::numeric_limits<T>::infinity()) {
    const V<T> most = hn::Set(d, t.most);
    each([&](V<T>& r, ptrdiff_t, int, int) HWY_ATTR { r = at_most(most, r); });
  }
  if (t.stream) {
    each([&](V<T>& r, ptrdiff_t at, int i, int v) HWY_ATTR {
      if (kFull || v + 1 < kVectors || i < t.whole_rows) {
        hn::Stream(r, d, t.c + at);
      } else {
        hn::BlendedStore(r, mask, d, t.c + at);
      }
    });
  } else {
    each([&](V<T>& r, ptrdiff_t at, int i, int v) HWY_ATTR {
      if (kFull || v + 1 < kVectors || i < t.whole_rows) {
        hn::StoreU(r, d, t.c + at);
      } else {
        hn::BlendedStore(r, mask, d, t.c + at);
      }
    });
  }
}

// kContiguousRows: a_row is 1, otherwise a_step is 1.
template <class T, bool kContiguousRows, int kR, int kVectors>
void tile(const GemmTile<T>& t) {
  const D<T> d;
  V<T> acc[kR][kVectors];
#pragma GCC unroll 12
  for (int i = 0; i < kR; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) acc[i][v] = hn::Zero(d);
  }
  // The result's lines come meanwhile, and those of the residual, which may lie beyond the caches.
  if (kR >= 8 && !t.stream) {
#pragma GCC unroll 12
    for (int i = 0; i < kR; ++i) {
      hwy::Prefetch(t.c + i * t.c_row);
      if (kVectors > 1) hwy::Prefetch(t.c + i * t.c_row + t.c_vector);
    }
  }
  for (int i = 0; t.residual && i < kR; ++i) {
    hwy::Prefetch(t.residual + i * t.c_row);
    if (kVectors > 1) hwy::Prefetch(t.residual + i * t.c_row + t.c_vector);
  }
  for (int64_t s = 0; s < t.segments; ++s) {
    const T* a = t.a + s * t.a_segment;
    const T* b = t.b + s * t.b_segment;
    const T* row[kR];
    for (int i = 0; i < kR; ++i) row[i] = a + i * t.a_row;
    const ptrdiff_t step = t.a_step, b_step = t.b_step, b_vector = t.b_vector;
    const int64_t ahead_count = t.ahead ? t.ahead_count : 0;
    const T* ahead = t.ahead ? t.ahead : b;
    for (int64_t j = 0; j < t.length; ++j) {
      const V<T> b0 = hn::LoadU(d, b);
      const V<T> b1 = kVectors > 1 ? hn::LoadU(d, b + b_vector) : b0;
      if (kR >= 8) {  // a panel of columns comes from the second-level cache
        hwy::Prefetch(b + kStepsAhead * b_step);
        if (kVectors > 1) hwy::Prefetch(b + kStepsAhead * b_step + b_vector);
        hwy::Prefetch(ahead);
        ahead += j < ahead_count ? t.ahead_step : 0;
      }
      b += b_step;
#pragma GCC unroll 12
      for (int i = 0; i < kR; ++i) {
        const V<T> x = hn::Set(d, kContiguousRows ? a[i] : row[i][j]);
        acc[i][0] = hn::MulAdd(x, b0, acc[i][0]);
        if (kVectors > 1) acc[i][kVectors - 1] = hn::MulAdd(x, b1, acc[i][kVectors - 1]);
      }
      if (kContiguousRows) a += step;
    }
  }
  if (t.last_columns == static_cast<int>(hn::Lanes(d))) {
    finish<true>(t, acc);
  } else {
    finish<false>(t, acc);
  }
}

// Rows of memory become rows of all groups at once; the rows that follow are asked for in time.
template <class T>
void pack_copying(T* dst, ptrdiff_t group, const T* src, ptrdiff_t k_stride, int64_t steps, int64_t columns,
                  int width) {
  constexpr int64_t kAhead = 6, kLine = 64 / sizeof(T);
  const D<T> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (int64_t k = 0; k < steps; ++k, dst += width, src += k_stride) {
    const T* ahead = src + kAhead * k_stride;
    if (k + kAhead < steps) {
      for (int64_t j = 0; j < columns; j += kLine) hwy::Prefetch(ahead + j);
    }
    T* to = dst;
    int64_t column = 0;
    for (; column + width <= columns; column += width, to += group) {
      int j = 0;
      for (; j + lanes <= width; j += lanes) hn::StoreU(hn::LoadU(d, src + column + j), d, to + j);
      if (j < width) {
        const auto rest = hn::FirstN(d, static_cast<size_t>(width - j));
        hn::BlendedStore(hn::MaskedLoad(rest, d, src + column + j), rest, d, to + j);
      }
    }
    if (column < columns) {
      for (int j = 0; j < width; j += lanes) {
        const int64_t left = columns - column - j;
        const auto some = hn::FirstN(d, static_cast<size_t>(left > 0 ? left : 0));
        hn::BlendedStore(hn::MaskedLoad(some, d, src + column + j), hn::FirstN(d, static_cast<size_t>(width - j)), d,
                         to + j);
      }
    }
  }
}

// One group; squares are transposed in registers where the steps are contiguous.
template <class T>
void pack_transposing(T* dst, const T* src, ptrdiff_t k_stride, ptrdiff_t j_stride, int64_t steps, int columns,
                      int width) {
  int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
  // Whole lines of dst at a time: a square's steps of all columns.
  constexpr int kAtOnce = transpose_squares::kSide<T>;
  for (; k_stride == 1 && k + kAtOnce <= steps; k += kAtOnce) {
    int q = 0;
    for (; q + kAtOnce <= columns; q += kAtOnce)
      transpose_squares::transpose_square(dst + k * width + q, src + q * j_stride + k, j_stride, width);
    for (; q < width; ++q) {
      for (int i = 0; i < kAtOnce; ++i) dst[(k + i) * width + q] = q < columns ? src[q * j_stride + k + i] : T{0};
    }
  }
#endif
  for (; k < steps; ++k) {
    for (int q = 0; q < width; ++q) dst[k * width + q] = q < columns ? src[q * j_stride + k * k_stride] : T{0};
  }
}

template <class T>
void pack(T* dst, ptrdiff_t group, const T* src, ptrdiff_t k_stride, ptrdiff_t j_stride, int64_t steps, int64_t columns,
          int width) {
  if (j_stride == 1) return pack_copying(dst, group, src, k_stride, steps, columns, width);
  for (int64_t column = 0; column < columns; column += width, dst += group) {
    const int count = static_cast<int>(columns - column < width ? columns - column : width);
    pack_transposing(dst, src + column * j_stride, k_stride, j_stride, steps, count, width);
  }
}

template <class T, int kVectors, int... kR>
void fill(GemmTable<T>& t, std::integer_sequence<int, kR...>) {
  ((t.tile[0][kR][kVectors - 1] = tile<T, false, kR + 1, kVectors>,
    t.tile[1][kR][kVectors - 1] = tile<T, true, kR + 1, kVectors>),
   ...);
}

template <class T>
GemmTable<T> make_gemm_table() {
  GemmTable<T> t{};
  t.rows = kRows;
  t.lanes = static_cast<int>(hn::Lanes(D<T>()));
  t.rows_of_one = kRowsOfOne;
  fill<T, 1>(t, std::make_integer_sequence<int, kRowsOfOne>());
  fill<T, 2>(t, std::make_integer_sequence<int, kRows>());
  t.pack = pack<T>;
  return t;
}
GemmTable<float> make_gemm_table_f32() { return make_gemm_table<float>(); }
GemmTable<double> make_gemm_table_f64() { return make_gemm_table<double>(); }

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace freight::cpu {
FREIGHT_SIMD_TABLE(GemmTable<float>, gemm_table_f32, make_gemm_table_f32)
FREIGHT_SIMD_TABLE(GemmTable<double>, gemm_table_f64, make_gemm_table_f64)
}  // namespace freight::cpu
#endif
