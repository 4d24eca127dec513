// See factor_tile.h.
#include "freight/backend/cpu/kernels/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "freight/backend/cpu/kernels/factor_tile.cpp"
#include "hwy/foreach_target.h"
// The order of these two matters: foreach_target first.
#include "hwy/highway.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "freight/backend/cpu/kernels/factor_tile.h"
#include "freight/backend/cpu/kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {
namespace factor_loops {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void transpose(T* dst, ptrdiff_t dst_row, const T* src, ptrdiff_t src_row, int64_t rows, int64_t columns) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr int64_t kSide = transpose_squares::kSide<T>;
  for (; i + kSide <= rows; i += kSide) {
    const T* from = src + i * src_row;
    int64_t j = 0;
    for (; j + kSide <= columns; j += kSide)
      transpose_squares::transpose_square(dst + j * dst_row + i, from + j, src_row, dst_row);
    for (; j < columns; ++j) {
      for (int64_t r = 0; r < kSide; ++r) dst[j * dst_row + i + r] = from[r * src_row + j];
    }
  }
#endif
  for (; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) dst[j * dst_row + i] = src[i * src_row + j];
  }
}

// The largest |number| so far of each lane, and its row; the first of equal ones. NaN counts as infinite, so that no
// zero pivot hides it.
template <class T>
struct Largest {
  using D = hn::ScalableTag<T>;
  using DI = hn::RebindToSigned<D>;
  using TI = hn::TFromD<DI>;
  hn::Vec<D> value;
  hn::Vec<DI> row;

  HWY_INLINE Largest() : value(hn::Set(D(), T(-1))), row(hn::Zero(DI())) {}
  HWY_INLINE void take(hn::Vec<D> v, hn::Vec<DI> rows) {
    const auto magnitude = hn::IfThenElse(hn::IsNaN(v), hn::Inf(D()), hn::Abs(v));
    const auto larger = hn::Gt(magnitude, value);
    value = hn::IfThenElse(larger, magnitude, value);
    row = hn::IfThenElse(hn::RebindMask(DI(), larger), rows, row);
  }
  // The pivot among the rows [first, rows).
  HWY_INLINE int64_t pivot(int64_t first, int64_t rows) const {
    const D d;
    const DI di;
    const auto most = hn::MaxOfLanes(d, value);
    const auto found = hn::RebindMask(di, hn::Eq(value, most));
    const auto none = hn::Set(di, std::numeric_limits<TI>::max());
    const auto at = static_cast<int64_t>(hn::GetLane(hn::MinOfLanes(di, hn::IfThenElse(found, row, none))));
    return at < first || at >= rows ? first : at;  // there was none
  }
};

// One step of the elimination: scales column 0 behind row `first`, subtracts it from the kR columns behind, and returns
// the next pivot.
template <class T, int kR>
int64_t eliminate(T* columns, ptrdiff_t stride, int64_t first, int64_t rows, T scale) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  using TI = hn::TFromD<decltype(di)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale);
  hn::Vec<decltype(d)> u[kR > 0 ? kR : 1];
  for (int c = 0; c < kR; ++c) u[c] = hn::Set(d, columns[(c + 1) * stride + first]);
  Largest<T> largest;
  int64_t i = (first + 1) / lanes * lanes;
  auto at = hn::Iota(di, static_cast<TI>(i));
  const auto step = hn::Set(di, static_cast<TI>(lanes));
  if (i <= first) {  // rows up to `first` stay
    const auto below = hn::Gt(at, hn::Set(di, static_cast<TI>(first)));
    const auto keep = hn::RebindMask(d, below);
    const auto old = hn::LoadU(d, columns + i);
    const auto l = hn::Mul(old, factor);
    hn::StoreU(hn::IfThenElse(keep, l, old), d, columns + i);
    for (int c = 0; c < kR; ++c) {
      T* column = columns + (c + 1) * stride + i;
      const auto y = hn::LoadU(d, column);
      const auto v = hn::NegMulAdd(l, u[c], y);
      hn::StoreU(hn::IfThenElse(keep, v, y), d, column);
      if (c == 0)
        largest.take(hn::IfThenElse(keep, v, hn::Set(d, T(-0.0))),
                     hn::IfThenElse(below, at, hn::Set(di, static_cast<TI>(first + 1))));
    }
    i += lanes;
    at = hn::Add(at, step);
  }
  for (; i < rows; i += lanes, at = hn::Add(at, step)) {
    const auto l = hn::Mul(hn::LoadU(d, columns + i), factor);
    hn::StoreU(l, d, columns + i);
#pragma GCC unroll 8
    for (int c = 0; c < kR; ++c) {
      T* column = columns + (c + 1) * stride + i;
      const auto v = hn::NegMulAdd(l, u[c], hn::LoadU(d, column));
      hn::StoreU(v, d, column);
      if (c == 0) largest.take(v, at);
    }
  }
  return kR > 0 ? largest.pivot(first + 1, rows) : first;
}

template <class T>
int64_t first_pivot(const T* column, int64_t rows) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  using TI = hn::TFromD<decltype(di)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  Largest<T> largest;
  auto at = hn::Iota(di, TI{0});
  const auto step = hn::Set(di, static_cast<TI>(lanes));
  for (int64_t i = 0; i < rows; i += lanes, at = hn::Add(at, step)) largest.take(hn::LoadU(d, column + i), at);
  return largest.pivot(0, rows);
}

template <class T, int... kR>
auto eliminate_function(int behind, std::integer_sequence<int, kR...>) {
  using Function = int64_t (*)(T*, ptrdiff_t, int64_t, int64_t, T);
  static constexpr Function kFunctions[] = {eliminate<T, kR>...};
  return kFunctions[behind];
}

template <class T>
void lu_columns(T* columns, ptrdiff_t stride, int64_t rows, int width, int32_t* pivots) {
  int64_t pivot = first_pivot(columns, rows);
  const int steps = static_cast<int>(std::min<int64_t>(width, rows));
  for (int j = 0; j < steps; ++j) {
    pivots[j] = static_cast<int32_t>(pivot);
    if (pivot != j) {
      for (int c = 0; c < width; ++c) std::swap(columns[c * stride + j], columns[c * stride + pivot]);
    }
    T* column = columns + j * stride;
    const T top = column[j];
    T scale = T(1) / top;
    if (top == T(0)) {
      scale = T(0);  // all are zero: there is nothing to eliminate
    } else if (!std::isfinite(scale)) {
      for (int64_t i = j + 1; i < rows; ++i) column[i] /= top;
      scale = T(1);
    }
    pivot = eliminate_function<T>(width - 1 - j, std::make_integer_sequence<int, FactorTable<T>::kColumns>())(
        column, stride, j, rows, scale);
  }
}

// Columns [first, first + count) in registers: what the columns before give is subtracted, then they are eliminated.
// The vectors before kFrom lie above the diagonal. Each column waits for the quotient of the one before only: its root
// is taken beside that.
template <class T, int kGroup, int kFrom>
HWY_INLINE int64_t cholesky_columns(T* c, int64_t first, int64_t count, T* reciprocals) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)), stride = 2 * lanes;
  // The quotients of a pivot between these neither overflow nor vanish.
  constexpr int kSafe = std::numeric_limits<T>::max_exponent - 4;
  const T least = std::ldexp(T(1), -kSafe), most = std::ldexp(T(1), kSafe);
  V column[kGroup][2];
#pragma GCC unroll 4
  for (int q = 0; q < kGroup; ++q) {
#pragma GCC unroll 2
    for (int v = kFrom; v < 2; ++v)
      column[q][v] = q < count ? hn::LoadU(d, c + (first + q) * stride + v * lanes) : hn::Zero(d);
  }
  for (int64_t k = 0; k < first; ++k) {
    const T* const before = c + k * stride;
    V l[2];
#pragma GCC unroll 2
    for (int v = kFrom; v < 2; ++v) l[v] = hn::LoadU(d, before + v * lanes);
#pragma GCC unroll 4
    for (int q = 0; q < kGroup; ++q) {
      const V factor = hn::Set(d, before[first + q]);
#pragma GCC unroll 2
      for (int v = kFrom; v < 2; ++v) column[q][v] = hn::NegMulAdd(factor, l[v], column[q][v]);
    }
  }
  const auto number = [&](V of, int64_t row) HWY_ATTR {
    return hn::TableLookupLanes(of, hn::IndicesFromVec(d, hn::Set(di, static_cast<hn::TFromD<decltype(di)>>(row))));
  };
  const int64_t row = first - kFrom * lanes;  // in the vectors that hold the diagonal
#pragma GCC unroll 4
  for (int q = 0; q < kGroup; ++q) {
    if (q == count) break;
    const T pivot = hn::GetLane(number(column[q][kFrom], row + q));
    if (!(pivot > T(0))) return first + q + 1;
    const T root = std::sqrt(pivot);
    const bool safe = pivot > least && pivot < most;
    const T reciprocal = T(1) / root;
    const V scale = hn::Set(d, reciprocal), inverse = hn::Set(d, safe ? T(1) / pivot : reciprocal);
    V l[2], factors = column[q][kFrom];
#pragma GCC unroll 2
    for (int v = kFrom; v < 2; ++v) {
      l[v] = hn::Mul(column[q][v], scale);
      if (!safe) column[q][v] = l[v];
    }
#pragma GCC unroll 4
    for (int other = q + 1; other < kGroup; ++other) {
      const V factor = hn::Mul(number(factors, row + other), inverse);
#pragma GCC unroll 2
      for (int v = kFrom; v < 2; ++v) column[other][v] = hn::NegMulAdd(factor, column[q][v], column[other][v]);
    }
    T* const to = c + (first + q) * stride;
#pragma GCC unroll 2
    for (int v = kFrom; v < 2; ++v) hn::StoreU(l[v], d, to + v * lanes);
    to[first + q] = root;
    reciprocals[first + q] = reciprocal;
  }
  return 0;
}

template <class T>
int64_t cholesky_panel(T* c, int64_t n, T* reciprocals) {
  constexpr int kGroup = std::min<int>(4, hn::MaxLanes(hn::ScalableTag<T>()));
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  for (int64_t first = 0; first < n; first += kGroup) {
    const int64_t count = std::min<int64_t>(kGroup, n - first);
    const int64_t minor = first < lanes ? cholesky_columns<T, kGroup, 0>(c, first, count, reciprocals)
                                        : cholesky_columns<T, kGroup, 1>(c, first, count, reciprocals);
    if (minor > 0) return minor;
  }
  return 0;
}

// Rows [first, first + kR) of kVectors vectors of columns: what the rows before give is subtracted, then the triangle
// is solved in registers.
template <class T, int kR, int kVectors, bool kWhole>
HWY_INLINE void substitute_rows(const Substitution<T>& s, int64_t first, T* b, int64_t columns) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<ptrdiff_t>(hn::Lanes(d));
  const auto mask = hn::FirstN(d, static_cast<size_t>(columns - (kVectors - 1) * lanes));
  const auto load = [&](const T* p, int v) HWY_ATTR {
    return kWhole || v + 1 < kVectors ? hn::LoadU(d, p + v * lanes) : hn::MaskedLoad(mask, d, p + v * lanes);
  };
  const T* row[kR];
  V acc[kR][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) {
    row[r] = s.a + (first + r) * s.a_row;
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) acc[r][v] = load(b + (first + r) * s.b_row, v);
  }
  const T* x = b;
  for (int64_t k = 0; k < first; ++k, x += s.b_row) {
    V xs[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) xs[v] = load(x, v);
    const ptrdiff_t at = k * s.a_col;
#pragma GCC unroll 8
    for (int r = 0; r < kR; ++r) {
      const V factor = hn::Set(d, row[r][at]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::NegMulAdd(factor, xs[v], acc[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) {
    const ptrdiff_t at = (first + r) * s.a_col;
    if (s.diagonal) {
      const V factor = hn::Set(d, s.diagonal[(first + r) * s.diagonal_step]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) acc[r][v] = s.divide ? hn::Div(acc[r][v], factor) : hn::Mul(acc[r][v], factor);
    }
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      T* to = b + (first + r) * s.b_row + v * lanes;
      if (kWhole || v + 1 < kVectors) {
        hn::StoreU(acc[r][v], d, to);
      } else {
        hn::BlendedStore(acc[r][v], mask, d, to);
      }
    }
#pragma GCC unroll 8
    for (int q = r + 1; q < kR; ++q) {
      const V factor = hn::Set(d, row[q][at]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) acc[q][v] = hn::NegMulAdd(factor, acc[r][v], acc[q][v]);
    }
  }
}

// 32 registers hold 8 x 2 sums, 16 of them 4 x 2.
#if HWY_TARGET <= HWY_AVX3
constexpr int kSubstituted = 8;
#else
constexpr int kSubstituted = 4;
#endif

template <class T, int kVectors, bool kWhole>
void substitute_strip(const Substitution<T>& s, T* b, int64_t columns) {
  int64_t i = 0;
  for (; i + kSubstituted <= s.n; i += kSubstituted)
    substitute_rows<T, kSubstituted, kVectors, kWhole>(s, i, b, columns);
  if (kSubstituted == 8 && i + 4 <= s.n) {
    substitute_rows<T, 4, kVectors, kWhole>(s, i, b, columns);
    i += 4;
  }
  if (i + 2 <= s.n) {
    substitute_rows<T, 2, kVectors, kWhole>(s, i, b, columns);
    i += 2;
  }
  if (i < s.n) substitute_rows<T, 1, kVectors, kWhole>(s, i, b, columns);
}

// One column whose numbers lie together, as those of the rows of a do: vectors run along the rows. Read from the end,
// both sides begin at the lowest address.
template <class T>
void substitute_one_column(const Substitution<T>& s) {
  constexpr int64_t kRows = 8;
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t first = 0; first < s.n; first += kRows) {
    const int64_t count = std::min(kRows, s.n - first);
    const ptrdiff_t lowest = s.a_col < 0 ? 1 - first : 0;
    const T* const x = s.b + lowest;
    const T* row[kRows];
    hn::Vec<decltype(d)> sums[kRows];
    for (int64_t r = 0; r < kRows; ++r) {
      row[r] = s.a + (first + std::min(r, count - 1)) * s.a_row + lowest;
      sums[r] = hn::Zero(d);
    }
    int64_t k = 0;
    for (; k + lanes <= first; k += lanes) {
      const auto xs = hn::LoadU(d, x + k);
#pragma GCC unroll 8
      for (int64_t r = 0; r < kRows; ++r) sums[r] = hn::MulAdd(hn::LoadU(d, row[r] + k), xs, sums[r]);
    }
    if (k < first) {
      const auto rest = hn::FirstN(d, static_cast<size_t>(first - k));
      const auto xs = hn::MaskedLoad(rest, d, x + k);
#pragma GCC unroll 8
      for (int64_t r = 0; r < kRows; ++r) sums[r] = hn::MulAdd(hn::MaskedLoad(rest, d, row[r] + k), xs, sums[r]);
    }
    T left[kRows];
    for (int64_t r = 0; r < count; ++r) left[r] = s.b[(first + r) * s.b_row];
    for (int64_t r = 0; r < count && first > 0; ++r) left[r] -= hn::GetLane(hn::SumOfLanes(d, sums[r]));
    for (int64_t r = 0; r < count; ++r) {
      T v = left[r];
      if (s.diagonal) {
        const T factor = s.diagonal[(first + r) * s.diagonal_step];
        v = s.divide ? v / factor : v * factor;
      }
      s.b[(first + r) * s.b_row] = v;
      for (int64_t q = r + 1; q < count; ++q) left[q] -= s.a[(first + q) * s.a_row + (first + r) * s.a_col] * v;
    }
  }
}

template <class T>
void substitute(const Substitution<T>& s) {
  if (s.columns == 1 && s.a_col == s.b_row && (s.a_col == 1 || s.a_col == -1)) return substitute_one_column(s);
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t column = 0;
  for (; column + 2 * lanes <= s.columns; column += 2 * lanes) substitute_strip<T, 2, true>(s, s.b + column, 2 * lanes);
  const int64_t left = s.columns - column;
  if (left > lanes) return substitute_strip<T, 2, false>(s, s.b + column, left);
  if (left > 0) substitute_strip<T, 1, false>(s, s.b + column, left);
}

template <class T>
void exchange(T* a, ptrdiff_t row, int64_t columns, const int32_t* pivots, int64_t count) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < count; ++j) {
    if (pivots[j] == j) continue;
    T *x = a + j * row, *y = a + pivots[j] * row;
    int64_t c = 0;
    for (; c + lanes <= columns; c += lanes) {
      const auto v = hn::LoadU(d, x + c);
      hn::StoreU(hn::LoadU(d, y + c), d, x + c);
      hn::StoreU(v, d, y + c);
    }
    for (; c < columns; ++c) std::swap(x[c], y[c]);
  }
}

template <class T>
T squares(const T* x, int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum0 = hn::Zero(d), sum1 = sum0;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + i + lanes);
    sum0 = hn::MulAdd(a, a, sum0);
    sum1 = hn::MulAdd(b, b, sum1);
  }
  for (; i < n; i += lanes) {
    const auto a = hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(std::min(lanes, n - i))), d, x + i);
    sum0 = hn::MulAdd(a, a, sum0);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
}

template <class T, int kY>
void reflect_some(T* y, ptrdiff_t stride, const T* v, T factor, int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sum[kY];
  for (int c = 0; c < kY; ++c) sum[c] = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto a = hn::LoadU(d, v + i);
#pragma GCC unroll 4
    for (int c = 0; c < kY; ++c) sum[c] = hn::MulAdd(a, hn::LoadU(d, y + c * stride + i), sum[c]);
  }
  const auto rest = hn::FirstN(d, static_cast<size_t>(n - i));
  const auto tail = hn::MaskedLoad(rest, d, v + i);
#pragma GCC unroll 4
  for (int c = 0; c < kY; ++c) {
    if (i < n) sum[c] = hn::MulAdd(tail, hn::MaskedLoad(rest, d, y + c * stride + i), sum[c]);
    sum[c] = hn::Set(d, -factor * hn::GetLane(hn::SumOfLanes(d, sum[c])));
  }
  for (i = 0; i + lanes <= n; i += lanes) {
    const auto a = hn::LoadU(d, v + i);
#pragma GCC unroll 4
    for (int c = 0; c < kY; ++c) {
      T* to = y + c * stride + i;
      hn::StoreU(hn::MulAdd(a, sum[c], hn::LoadU(d, to)), d, to);
    }
  }
  for (int c = 0; c < kY && i < n; ++c) {
    T* to = y + c * stride + i;
    hn::BlendedStore(hn::MulAdd(tail, sum[c], hn::MaskedLoad(rest, d, to)), rest, d, to);
  }
}

template <class T>
void reflect(T* y, ptrdiff_t stride, int64_t count, const T* v, T factor, int64_t n) {
  int64_t c = 0;
  for (; c + 4 <= count; c += 4) reflect_some<T, 4>(y + c * stride, stride, v, factor, n);
  for (; c < count; ++c) reflect_some<T, 1>(y + c * stride, stride, v, factor, n);
}

template <class T>
FactorTable<T> make() {
  FactorTable<T> t{};
  t.lanes = static_cast<int>(hn::Lanes(hn::ScalableTag<T>()));
  t.transpose = transpose<T>;
  t.lu_columns = lu_columns<T>;
  t.cholesky_panel = cholesky_panel<T>;
  t.substitute = substitute<T>;
  t.exchange = exchange<T>;
  t.squares = squares<T>;
  t.reflect = reflect<T>;
  return t;
}

}  // namespace factor_loops

FactorTable<float> make_factor_table_f32() { return factor_loops::make<float>(); }
FactorTable<double> make_factor_table_f64() { return factor_loops::make<double>(); }

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace freight::cpu {
FREIGHT_SIMD_TABLE(FactorTable<float>, factor_table_f32, make_factor_table_f32)
FREIGHT_SIMD_TABLE(FactorTable<double>, factor_table_f64, make_factor_table_f64)
}  // namespace freight::cpu
#endif
