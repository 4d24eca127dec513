// See lane_factor.h.
#include "freight/backend/cpu/kernels/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "freight/backend/cpu/kernels/lane_factor.cpp"
#include "hwy/foreach_target.h"
// The order of these two matters: foreach_target first.
#include "hwy/highway.h"

#include <algorithm>
#include <limits>

#include "freight/backend/cpu/kernels/factor.h"
#include "freight/backend/cpu/kernels/lane_blocks-inl.h"
#include "freight/backend/cpu/kernels/lane_factor.h"

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {
namespace lane_loops {

#if HWY_TARGET != HWY_SCALAR
namespace hn = hwy::HWY_NAMESPACE;
using lane_blocks::kLanes;
using lane_blocks::kSquare;
using lane_blocks::LanePointers;
using lane_blocks::V;

#if HWY_TARGET <= HWY_AVX3
constexpr bool kManyRegisters = true;  // 32 instead of 16
#else
constexpr bool kManyRegisters = false;
#endif

// The matrices of all lanes while they are eliminated, some columns at a time: first these alone, then all of their
// steps on the columns behind, so that each of those is loaded and stored once. Rows stay where they are: exchanging
// them would move each lane's own rows. `place` says instead which row of the result a row has become (less than the
// step: it is finished).
template <class T>
class Lanes {
  using D = hn::ScalableTag<T>;
  using DI = hn::RebindToSigned<D>;
  using TI = hn::TFromD<DI>;
  using VI = hn::Vec<DI>;
  static constexpr int64_t kMost = LaneTable<T>::kMostRows;

 public:
  static constexpr int64_t kPanel = 4;

  // x (n, n + beside vectors, rows `row` vectors apart), factors (n, kPanel vectors). The columns beside the matrix are
  // eliminated with it.
  // `next` will be read and `result` written, where there is one: they are asked for while there is work to do.
  Lanes(T* x, int64_t n, int64_t beside, int64_t row, T* factors, const T* next, T* result)
      : x_(x), factors_(factors), next_(next), result_(result), n_(n), columns_(n + beside), row_(row * kLanes<T>) {
    for (int64_t i = 0; i < n; ++i) store_place(hn::Set(DI(), static_cast<TI>(i)), i);
  }

  // `pivots` (n, lanes): the place with which each place was exchanged. True where a pivot is 0.
  bool eliminate(TI* pivots) {
    for (int64_t first = 0; first < n_; first += kPanel) {
      const int64_t width = std::min(kPanel, n_ - first);
      unfinished(first);
      Pivot pivot = search(first);
      for (int64_t j = first; j < first + width; ++j) {
        hn::StoreU(pivot.at, DI(), pivots + j * kLanes<T>);
        switch (first + width - 1 - j) {
          case 3: pivot = step<3>(j, j - first, pivot); break;
          case 2: pivot = step<2>(j, j - first, pivot); break;
          case 1: pivot = step<1>(j, j - first, pivot); break;
          default: step<0>(j, j - first, pivot);
        }
      }
      if (first + width < columns_) update(first, width);
    }
    return singular_;
  }

  // Solves by what eliminate() left: the columns beside the matrix, times the inverse of the upper triangle, go to x
  // (n, k vectors). A row whose own step is done is changed further, and never read again.
  template <int kColumns>
  void substitute(T* x) {
    const D d;
    for (int64_t j = n_ - 1; j >= 0; --j) {
      const V<T> pivot = pivot_row(j, j);
      V<T> top[kColumns];
      for (int c = 0; c < kColumns; ++c) {
        top[c] = hn::Div(pivot_row(j, n_ + c), pivot);
        hn::StoreU(top[c], d, x + (j * kColumns + c) * kLanes<T>);
      }
      for (int64_t i = 0; i < n_; ++i) {
        const V<T> u = load(i, j);
        for (int c = 0; c < kColumns; ++c) store(hn::NegMulAdd(u, top[c], load(i, n_ + c)), i, n_ + c);
      }
    }
  }

  // The row of the result that row i of each lane has become.
  void place(int64_t i, TI* to) const { hn::StoreU(load_place(i), DI(), to); }
  // The first pivot of each lane that is 0, or -1.
  void zero_pivots(TI* to) const { hn::StoreU(zero_, DI(), to); }

 private:
  // The largest magnitude of a column in each lane, its row, and the place of this row.
  struct Pivot {
    V<T> most;
    VI row, at;

    // The first of equal ones, as the rows would lie had they been exchanged. NaN counts as infinite.
    HWY_INLINE void take(V<T> v, hn::Mask<D> unfinished, int64_t i, VI place) {
      const D d;
      const DI di;
      const V<T> magnitude =
          hn::IfThenElse(unfinished, hn::IfThenElse(hn::IsNaN(v), hn::Inf(d), hn::Abs(v)), hn::Set(d, T(-2)));
      const auto earlier = hn::And(hn::Eq(magnitude, most), hn::RebindMask(d, hn::Gt(at, place)));
      const auto taken = hn::Or(hn::Gt(magnitude, most), earlier);
      most = hn::IfThenElse(taken, magnitude, most);
      row = hn::IfThenElse(hn::RebindMask(di, taken), hn::Set(di, static_cast<TI>(i)), row);
      at = hn::IfThenElse(hn::RebindMask(di, taken), place, at);
    }
  };
  static HWY_INLINE Pivot none(int64_t j) {
    return {hn::Set(D(), T(-1)), hn::Zero(DI()), hn::Set(DI(), static_cast<TI>(j))};
  }

  // Lists the rows that are not finished in all lanes.
  void unfinished(int64_t first) {
    const VI now = hn::Set(DI(), static_cast<TI>(first));
    count_ = 0;
    for (int64_t i = 0; i < n_; ++i) {
      rows_[count_] = i;
      count_ += hn::AllTrue(DI(), hn::Gt(now, load_place(i))) ? 0 : 1;
    }
  }

  Pivot search(int64_t j) const {
    const VI now = hn::Set(DI(), static_cast<TI>(j));
    Pivot pivot = none(j);
    for (int64_t r = 0; r < count_; ++r) {
      const int64_t i = rows_[r];
      const VI place = load_place(i);
      pivot.take(load(i, j), hn::RebindMask(D(), hn::Not(hn::Gt(now, place))), i, place);
    }
    return pivot;
  }

  // Column c of the row that is the pivot of step j, in each lane.
  HWY_INLINE V<T> pivot_row(int64_t j, int64_t c) const {
    const D d;
    const DI di;
    if (same_[j]) return hn::LoadU(d, same_[j] + c * kLanes<T>);
    return hn::GatherIndex(d, x_ + c * kLanes<T>, hn::LoadU(di, starts_ + j * kLanes<T>));
  }
  void remember_row(int64_t j, VI row) {
    const DI di;
    const TI first = hn::GetLane(row);
    same_[j] = hn::AllTrue(di, hn::Eq(row, hn::Set(di, first))) ? x_ + static_cast<int64_t>(first) * row_ : nullptr;
    hn::StoreU(hn::Add(hn::Mul(row, hn::Set(di, static_cast<TI>(row_))), hn::Iota(di, TI{0})), di,
               starts_ + j * kLanes<T>);
  }

  // Step j, number q of its panel, on the kR columns behind that belong to the panel. Gives the next pivot.
  template <int kR>
  Pivot step(int64_t j, int64_t q, const Pivot& pivot) {
    const D d;
    const DI di;
    const VI now = hn::Set(di, static_cast<TI>(j));
    remember_row(j, pivot.row);
    const V<T> top = pivot_row(j, j);
    // A column of zeros stays; nothing is to be eliminated.
    const auto zero = hn::Eq(top, hn::Zero(d));
    if (!hn::AllFalse(d, zero)) {
      const auto first = hn::And(hn::RebindMask(di, zero), hn::Lt(zero_, hn::Zero(di)));
      zero_ = hn::IfThenElse(first, now, zero_);
      singular_ = true;
    }
    const V<T> divisor = hn::IfThenElse(zero, hn::Set(d, T(1)), top);
    const V<T> reciprocal = hn::Div(hn::Set(d, T(1)), divisor);
    const auto finite = hn::IsFinite(reciprocal);
    const bool divides = !hn::AllTrue(d, finite);  // overflows, or NaN
    V<T> u[kR > 0 ? kR : 1];
    for (int c = 0; c < kR; ++c) u[c] = pivot_row(j, j + 1 + c);
    Pivot next = none(j + 1);
    for (int64_t r = 0; r < count_; ++r) {
      const int64_t i = rows_[r];
      const VI place = load_place(i);
      const auto chosen = hn::Eq(pivot.row, hn::Set(di, static_cast<TI>(i)));
      const VI moved = hn::IfThenElse(chosen, now, hn::IfThenElse(hn::Eq(place, now), pivot.at, place));
      store_place(moved, i);
      const auto below = hn::RebindMask(d, hn::Gt(moved, now));
      const V<T> old = load(i, j);
      V<T> l = hn::Mul(old, reciprocal);
      if (divides) l = hn::IfThenElse(finite, l, hn::Div(old, divisor));
      store(hn::IfThenElse(below, l, old), i, j);
      __builtin_prefetch(next_ + (j * n_ + r) * kLanes<T>);
      if (result_) __builtin_prefetch(result_ + (j * n_ + r) * kLanes<T>, 1);
      // Nothing is subtracted in lanes whose row is finished.
      const V<T> factor = hn::IfThenElseZero(below, l);
      hn::StoreU(factor, d, factors_ + (i * kPanel + q) * kLanes<T>);
#pragma GCC unroll 3
      for (int c = 0; c < kR; ++c) {
        const V<T> v = hn::NegMulAdd(factor, u[c], load(i, j + 1 + c));
        store(v, i, j + 1 + c);
        if (c == 0) next.take(v, below, i, moved);
      }
    }
    return next;
  }

  // The panel's steps on the columns behind it.
  void update(int64_t first, int64_t width) {
    constexpr int kColumns = kManyRegisters ? 4 : 2;
    int64_t c = first + width;
    switch (width) {  // fewer than kPanel are the last ones
      case 1: return update_each<1>(first);
      case 2: return update_each<2>(first);
      case 3: return update_each<3>(first);
      default: break;
    }
    for (; c + kColumns <= columns_; c += kColumns) update_columns<kColumns, kPanel>(first, c);
    if (kColumns > 2 && c + 2 <= columns_) {
      update_columns<2, kPanel>(first, c);
      c += 2;
    }
    if (c < columns_) update_columns<1, kPanel>(first, c);
  }
  template <int64_t kWidth>
  void update_each(int64_t first) const {
    for (int64_t c = first + kWidth; c < columns_; ++c) update_columns<1, kWidth>(first, c);
  }

  template <int kColumns, int64_t kWidth>
  void update_columns(int64_t first, int64_t column) const {
    V<T> u[kWidth][kColumns];
#pragma GCC unroll 4
    for (int64_t k = 0; k < kWidth; ++k) {
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) u[k][c] = pivot_row(first + k, column + c);
#pragma GCC unroll 4
      for (int64_t q = 0; q < k; ++q) {
        const V<T> l = pivot_row(first + k, first + q);
#pragma GCC unroll 4
        for (int c = 0; c < kColumns; ++c) u[k][c] = hn::NegMulAdd(l, u[q][c], u[k][c]);
      }
    }
    for (int64_t r = 0; r < count_; ++r) {
      const int64_t i = rows_[r];
      const T* const factor = factors_ + i * kPanel * kLanes<T>;
      T* const x = x_ + i * row_ + column * kLanes<T>;
      V<T> sum[kColumns];
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) sum[c] = hn::LoadU(D(), x + c * kLanes<T>);
#pragma GCC unroll 4
      for (int64_t k = 0; k < kWidth; ++k) {
        const V<T> l = hn::LoadU(D(), factor + k * kLanes<T>);
#pragma GCC unroll 4
        for (int c = 0; c < kColumns; ++c) sum[c] = hn::NegMulAdd(l, u[k][c], sum[c]);
      }
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) hn::StoreU(sum[c], D(), x + c * kLanes<T>);
    }
  }

  HWY_INLINE V<T> load(int64_t i, int64_t c) const { return hn::LoadU(D(), x_ + i * row_ + c * kLanes<T>); }
  HWY_INLINE void store(V<T> v, int64_t i, int64_t c) const { hn::StoreU(v, D(), x_ + i * row_ + c * kLanes<T>); }
  HWY_INLINE VI load_place(int64_t i) const { return hn::LoadU(DI(), place_ + i * kLanes<T>); }
  HWY_INLINE void store_place(VI v, int64_t i) { hn::StoreU(v, DI(), place_ + i * kLanes<T>); }

  T *x_, *factors_;
  const T* next_;
  T* result_;
  int64_t n_, columns_, row_, count_ = 0;
  bool singular_ = false;
  VI zero_ = hn::Set(DI(), TI{-1});
  int64_t rows_[kMost + 1];
  const T* same_[kMost];  // by step: the pivot's row where it is the same one in all lanes
  alignas(64) TI starts_[kMost * kLanes<T>];
  alignas(64) TI place_[kMost * kLanes<T>];
};

template <class T>
bool lu(const T* x, T* lu, int32_t* pivots, int32_t* permutation, int64_t n, int64_t count, T* scratch) {
  using TI = hn::TFromD<hn::RebindToSigned<hn::ScalableTag<T>>>;
  constexpr int64_t kMost = LaneTable<T>::kMostRows, lanes = kLanes<T>;
  const int64_t row = LaneTable<T>::row_of(n);
  T *const together = scratch, *const factors = together + n * row * lanes,
           *const spare = factors + n * Lanes<T>::kPanel * lanes;
  const LanePointers<T> at(x, lu, n * n, count, spare);
  for (int64_t i = 0; i < n; ++i) lane_blocks::interleave(at.from, i * n, n, together + i * row * lanes, lanes);
  alignas(64) TI exchanged[kMost * lanes], place[lanes];
  Lanes<T> matrices(together, n, 0, row, factors, x + n * n * count, lu);
  const bool singular = matrices.eliminate(exchanged);
  for (int64_t lane = 0; lane < count; ++lane) {
    for (int64_t j = 0; j < n; ++j) pivots[lane * n + j] = static_cast<int32_t>(exchanged[j * lanes + lane]);
  }
  for (int64_t i = 0; i < n; ++i) {
    matrices.place(i, place);
    T* to[lanes];
    for (int64_t lane = 0; lane < lanes; ++lane) to[lane] = at.to[lane] + static_cast<int64_t>(place[lane]) * n;
    for (int64_t lane = 0; lane < count; ++lane)
      permutation[lane * n + static_cast<int64_t>(place[lane])] = static_cast<int32_t>(i);
    lane_blocks::separate(together + i * row * lanes, lanes, n, to, 0);
  }
  return singular;
}

template <class T>
int64_t system(const T* a, const T* b, T* x, int64_t n, int64_t k, int64_t count, T* scratch) {
  using D = hn::ScalableTag<T>;
  using TI = hn::TFromD<hn::RebindToSigned<D>>;
  constexpr int64_t kMost = LaneTable<T>::kMostRows, lanes = kLanes<T>;
  const int64_t row = LaneTable<T>::row_of(n + k);
  T *const together = scratch, *const factors = together + n * row * lanes,
           *const right_sides = factors + n * Lanes<T>::kPanel * lanes, *const spare = right_sides + n * k * lanes;
  const LanePointers<T> at(a, spare, n * n, count, spare), of(b, x, n * k, count, spare);
  for (int64_t i = 0; i < n; ++i) lane_blocks::interleave(at.from, i * n, n, together + i * row * lanes, lanes);
  lane_blocks::interleave(of.from, 0, n * k, right_sides, lanes);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t c = 0; c < k; ++c)
      hn::StoreU(hn::LoadU(D(), right_sides + (i * k + c) * lanes), D(), together + (i * row + n + c) * lanes);
  }
  alignas(64) TI exchanged[kMost * lanes], zeros[lanes];
  Lanes<T> systems(together, n, k, row, factors, a + n * n * count, nullptr);
  systems.eliminate(exchanged);
  switch (k) {
    case 1: systems.template substitute<1>(right_sides); break;
    case 2: systems.template substitute<2>(right_sides); break;
    case 3: systems.template substitute<3>(right_sides); break;
    default: systems.template substitute<4>(right_sides);
  }
  lane_blocks::separate(right_sides, lanes, n * k, of.to, 0);
  systems.zero_pivots(zeros);
  for (int64_t lane = 0; lane < count; ++lane) {
    if (zeros[lane] >= 0) return lane * n + static_cast<int64_t>(zeros[lane]);
  }
  return -1;
}

// Cholesky by tiles of 4 columns, from left to right: each tile is loaded and stored once. `x` (n, n vectors, rows
// `row` vectors apart), n a multiple of the tile.
template <class T>
class LaneCholesky {
  using D = hn::ScalableTag<T>;
  using DI = hn::RebindToSigned<D>;
  using TI = hn::TFromD<DI>;
  using VI = hn::Vec<DI>;

 public:
  static constexpr int kTile = 4;

  LaneCholesky(T* x, int64_t n, int64_t row) : x_(x), n_(n), row_(row * kLanes<T>) {}

  // The first minor of each lane that is not positive, from 1, or 0.
  VI factorize() {
    constexpr int kRows = kManyRegisters ? 4 : 2;
    for (int64_t j = 0; j < n_; j += kTile) {
      diagonal(j);
      for (int64_t i = j + kTile; i < n_; i += kRows) below<kRows>(i, j);
    }
    return minor_;
  }

 private:
  void diagonal(int64_t j) {
    const D d;
    const DI di;
    V<T> a[kTile][kTile];
#pragma GCC unroll 4
    for (int r = 0; r < kTile; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c <= r; ++c) a[r][c] = load(j + r, j + c);
    }
    for (int64_t k = 0; k < j; ++k) {
      V<T> l[kTile];
#pragma GCC unroll 4
      for (int r = 0; r < kTile; ++r) {
        l[r] = load(j + r, k);
#pragma GCC unroll 4
        for (int c = 0; c <= r; ++c) a[r][c] = hn::NegMulAdd(l[r], l[c], a[r][c]);
      }
    }
#pragma GCC unroll 4
    for (int c = 0; c < kTile; ++c) {
      const auto fails = hn::RebindMask(di, hn::Not(hn::Gt(a[c][c], hn::Zero(d))));  // NaN too
      const auto first = hn::And(fails, hn::Eq(minor_, hn::Zero(di)));
      minor_ = hn::IfThenElse(first, hn::Set(di, static_cast<TI>(j + c + 1)), minor_);
      a[c][c] = hn::Sqrt(a[c][c]);
      reciprocals_[c] = hn::Div(hn::Set(d, T(1)), a[c][c]);
      store(a[c][c], j + c, j + c);
#pragma GCC unroll 4
      for (int r = c + 1; r < kTile; ++r) {
        a[r][c] = hn::Mul(a[r][c], reciprocals_[c]);
        store(a[r][c], j + r, j + c);
#pragma GCC unroll 4
        for (int q = c + 1; q <= r; ++q) a[r][q] = hn::NegMulAdd(a[r][c], a[q][c], a[r][q]);
      }
    }
  }

  template <int kRows>
  void below(int64_t i, int64_t j) const {
    V<T> a[kRows][kTile];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < kTile; ++c) a[r][c] = load(i + r, j + c);
    }
    for (int64_t k = 0; k < j; ++k) {
      V<T> l[kTile];
#pragma GCC unroll 4
      for (int c = 0; c < kTile; ++c) l[c] = load(j + c, k);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const V<T> left = load(i + r, k);
#pragma GCC unroll 4
        for (int c = 0; c < kTile; ++c) a[r][c] = hn::NegMulAdd(left, l[c], a[r][c]);
      }
    }
#pragma GCC unroll 4
    for (int c = 0; c < kTile; ++c) {
#pragma GCC unroll 4
      for (int q = 0; q < c; ++q) {
        const V<T> l = load(j + c, j + q);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) a[r][c] = hn::NegMulAdd(a[r][q], l, a[r][c]);
      }
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        a[r][c] = hn::Mul(a[r][c], reciprocals_[c]);
        store(a[r][c], i + r, j + c);
      }
    }
  }

  HWY_INLINE V<T> load(int64_t i, int64_t c) const { return hn::LoadU(D(), x_ + i * row_ + c * kLanes<T>); }
  HWY_INLINE void store(V<T> v, int64_t i, int64_t c) const { hn::StoreU(v, D(), x_ + i * row_ + c * kLanes<T>); }

  T* x_;
  int64_t n_, row_;
  VI minor_ = hn::Zero(DI());
  V<T> reciprocals_[kTile];
};

template <class T>
int64_t cholesky(const T* x, T* factor, bool upper, int64_t n, int64_t count, T* scratch) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  constexpr int64_t lanes = kLanes<T>, kTile = LaneCholesky<T>::kTile;
  const int64_t row = LaneTable<T>::row_of(n), filled = (n + kTile - 1) / kTile * kTile;
  T *const together = scratch, *const spare = scratch + filled * row * lanes;
  const LanePointers<T> at(x, factor, n * n, count, spare);
  // The lower triangle: of an upper one its mirror image. Rows beyond are those of the identity.
  const auto place = [&](int64_t i, int64_t c) { return together + (i * row + c) * lanes; };
  const ptrdiff_t i_step = upper ? lanes : row * lanes, c_step = upper ? row * lanes : lanes;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t first = upper ? std::min(i, std::max<int64_t>(n - kTile, 0)) : 0;
    const int64_t end = upper ? n : std::min(n, (i + kTile) / kTile * kTile);
    lane_blocks::interleave(at.from, i * n + first, end - first, together + i * i_step + first * c_step, c_step);
  }
  for (int64_t i = n; i < filled; ++i) {
    for (int64_t c = 0; c <= i; ++c) hn::StoreU(hn::Set(d, c == i ? T(1) : T(0)), d, place(i, c));
  }
  LaneCholesky<T> matrices(together, filled, row);
  hn::TFromD<decltype(di)> minors[lanes];
  hn::StoreU(matrices.factorize(), di, minors);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t c = i + 1; c < n; ++c) hn::StoreU(hn::Zero(d), d, place(i, c));
  }
  for (int64_t i = 0; i < n; ++i) lane_blocks::separate(together + i * i_step, c_step, n, at.to, i * n);
  for (int64_t lane = 0; lane < count; ++lane) {
    if (minors[lane] > 0) return lane * (n + 1) + static_cast<int64_t>(minors[lane]);
  }
  return -1;
}

// Interleaved matrices: element (i, c) lies at x + i * row + c * column.
template <class T>
struct LaneMatrix {
  T* x;
  ptrdiff_t row, column;
  T* at(int64_t i, int64_t c) const { return x + i * row + c * column; }
  V<T> load(int64_t i, int64_t c) const { return hn::LoadU(hn::ScalableTag<T>(), at(i, c)); }
};

// t x = b for triangles t (n, n), in b (n, kColumns).
template <class T, int kColumns>
void substitute(const LaneMatrix<T>& t, bool upper, bool unit, int64_t n, const LaneMatrix<T>& b) {
  for (int64_t j = 0; j < n; ++j) {
    const int64_t i = upper ? n - 1 - j : j;
    V<T> sum[kColumns];
    for (int c = 0; c < kColumns; ++c) sum[c] = b.load(i, c);
    for (int64_t k = upper ? i + 1 : 0; k < (upper ? n : i); ++k) {
      const V<T> factor = t.load(i, k);
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) sum[c] = hn::NegMulAdd(factor, b.load(k, c), sum[c]);
    }
    for (int c = 0; c < kColumns; ++c)
      hn::StoreU(unit ? sum[c] : hn::Div(sum[c], t.load(i, i)), hn::ScalableTag<T>(), b.at(i, c));
  }
}

template <class T>
void solve(const TriangularProblem& p, const T* a, T* b, int64_t count, T* scratch) {
  constexpr ptrdiff_t lanes = kLanes<T>;
  const int64_t n = p.n, size = n * p.other;
  T *const right_sides = scratch, *const triangles = right_sides + size * lanes,
           *const spare = triangles + n * n * lanes;
  const LanePointers<T> from(a, spare, n * n, count, spare), at(b, b, size, count, spare);
  lane_blocks::interleave(at.from, 0, size, right_sides, lanes);
  // A row in memory gives what belongs to the triangle.
  const bool transposed = p.a_row == 1;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t least = std::min(n, kSquare<T>), first = p.upper != transposed ? std::min(i, n - least) : 0;
    const int64_t end = p.upper != transposed ? n : std::max(i + 1, least);
    lane_blocks::interleave(from.from, i * n + first, end - first, triangles + (i * n + first) * lanes, lanes);
  }
  // x t = b is solved as t' x' = b'.
  LaneMatrix<T> t{triangles, p.a_row * lanes, p.a_col * lanes}, x{right_sides, p.other * lanes, lanes};
  if (p.right) {
    std::swap(t.row, t.column);
    x = {right_sides, lanes, n * lanes};
  }
  using Function = void (*)(const LaneMatrix<T>&, bool, bool, int64_t, const LaneMatrix<T>&);
  constexpr Function kBy[] = {substitute<T, 1>, substitute<T, 2>, substitute<T, 3>, substitute<T, 4>};
  kBy[p.other - 1](t, p.upper != p.right, p.unit_diagonal, n, x);
  lane_blocks::separate(right_sides, lanes, size, at.to, 0);
}

#endif  // not HWY_SCALAR

template <class T>
LaneTable<T> make() {
  LaneTable<T> t{};
#if HWY_TARGET != HWY_SCALAR
  t.lanes = static_cast<int>(kLanes<T>);
  t.lu = lu<T>;
  t.cholesky = cholesky<T>;
  t.system = system<T>;
  t.solve = solve<T>;
#endif
  return t;
}

}  // namespace lane_loops

LaneTable<float> make_lane_table_f32() { return lane_loops::make<float>(); }
LaneTable<double> make_lane_table_f64() { return lane_loops::make<double>(); }

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace freight::cpu {
FREIGHT_SIMD_TABLE(LaneTable<float>, lane_table_f32, make_lane_table_f32)
FREIGHT_SIMD_TABLE(LaneTable<double>, lane_table_f64, make_lane_table_f64)
}  // namespace freight::cpu
#endif
