// See factor.h; Cholesky is in factor_cholesky.cpp, QR in factor_qr.cpp.
#include "freight/backend/cpu/kernels/factor.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <optional>

#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/factor_tasks.h"
#include "freight/backend/cpu/kernels/lane_factor.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

// A panel of so many columns is copied aside where its rows fall on few sets of a cache, or on more pages than the
// processor keeps in mind: there they lie together. Elsewhere the copies cost 3 to 6 % of the time.
constexpr int64_t kPanel = 64, kPanelRow = kPanel + 8;
constexpr int64_t kSharedSets = 1024, kFewestShared = 128, kManyPages = 1536;  // bytes, columns, rows
// Blocks of so many columns are factorized panel by panel, others by halves. Nobody has anything to do beside the first
// panel, so that it is narrow.
constexpr int64_t kFewestOfPanels = 400, kMostOfPanels = 1536, kFirstPanel = 32;
// From so many multiply-adds on threads share a panel's product: a region takes some 5 us, or 50 where they sleep.
constexpr double kSharedWork = 2e6;
// A matrix of fewer multiply-adds (f64: 448 columns) is factorized by one thread: with two, whose caches may lie far
// apart, one of 320 to 400 columns took up to 1.4 times as long.
template <class T>
constexpr double kSharedLu = 6e7 * (sizeof(double) / sizeof(T));

// The columns of a panel: of narrow ones the products are not deep enough, wide ones keep the other threads waiting.
int64_t panel_width(int64_t n) { return std::clamp<int64_t>((n / 12 + 16) / 32 * 32, 64, 256); }

// The rows of a column-major buffer, filled up to whole vectors.
template <class T>
int64_t column_stride(int64_t rows) {
  const int64_t lanes = factor_table<T>().lanes;
  return ceil_div(rows, lanes) * lanes + (rows % 512 == 0 ? lanes : 0);
}

// Up to FactorTable::kColumns columns of x (m, n) with m >= n, made column-major in the thread's scratch memory.
template <class T>
void eliminate_columns(T* x, ptrdiff_t row, int64_t m, int64_t n, int32_t* pivots) {
  const FactorTable<T>& table = factor_table<T>();
  const int64_t stride = column_stride<T>(m);
  T* const columns = static_cast<T*>(thread_scratch(static_cast<size_t>(stride * n) * sizeof(T)));
  table.transpose(columns, stride, x, row, m, n);
  for (int64_t j = 0; j < n; ++j) std::fill(columns + j * stride + m, columns + (j + 1) * stride, T(0));
  table.lu_columns(columns, stride, m, static_cast<int>(n), pivots);
  table.transpose(x, row, columns, stride, n, m);
}

template <class T>
void copy_rows(T* to, ptrdiff_t to_row, const T* from, ptrdiff_t from_row, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) std::copy_n(from + i * from_row, columns, to + i * to_row);
}

// Columns that threads take bit by bit: large parts first, so that few calls are made, and small ones in the end, so
// that all are done at the same time. Where the borders lie changes no number.
struct Strip {
  int64_t first = 0, count = 0;
};
class Strips {
 public:
  Strips(int64_t first, int64_t end, int64_t threads) : next_(first), end_(end), threads_(threads) {}
  Strip take() {
    int64_t first = next_.load();
    while (first < end_) {
      const int64_t left = end_ - first, part = threads_ == 1 ? left : left / (2 * threads_) / kLeast * kLeast;
      const int64_t count = std::min(std::max(part, kLeast), left);
      if (next_.compare_exchange_weak(first, first + count)) return {first, count};
    }
    return {};
  }

 private:
  static constexpr int64_t kLeast = 32;
  std::atomic<int64_t> next_;
  int64_t end_, threads_;
};

}  // namespace

template <class T>
LuFactor<T>::LuFactor(int64_t m, int64_t n, int64_t batch, const MatrixStrides& x)
    : m_(m), n_(n), batch_(batch), x_(x) {
  const double least = static_cast<double>(std::min(m, n)), most = static_cast<double>(std::max(m, n));
  const double work = least * least * (most - least / 3);
  if (m == n && lane_table<T>().takes(n, batch)) {
    lanes_ = lane_table<T>().lanes;
    tasks_ = lane_tasks<T>(n, batch, work);
    return;
  }
  tasks_ = batch_tasks(batch, work, kSharedLu<T>);
  const bool shares_sets = n > kFewestShared && n * static_cast<int64_t>(sizeof(T)) % kSharedSets == 0;
  const bool aside = m > kPanel && n > kPanel && (shares_sets || m > kManyPages);
  panel_bytes_ = aside ? whole_lines(static_cast<size_t>(m * kPanelRow) * sizeof(T)) : 0;
  reserve_thread_scratch(static_cast<size_t>(column_stride<T>(m) * FactorTable<T>::kColumns) * sizeof(T));
  typename Blocks<T>::Measure measure;
  Blocks<T> blocks(measure);
  T nothing{};
  one(&nothing, nullptr, nullptr, blocks, nullptr);
  tasks_.bytes_of_task = panel_bytes_ + whole_lines(measure.product_bytes);
}

template <class T>
bool LuFactor<T>::run(const T* x, T* lu, int32_t* pivots, int32_t* permutation, void* scratch) const {
  const int64_t k = std::min(m_, n_), size = m_ * n_;
  std::atomic<bool> singular{!interleaved()};
  if (interleaved()) {
    for_matrices(tasks_, scratch, [&](int64_t group, char* own, bool) {
      const int64_t i = group * lanes_, count = std::min(lanes_, batch_ - i);
      const T* from = x + i * size;
      if (x_ != MatrixStrides::row_major(n_, n_)) {
        for (int64_t q = i; q < i + count; ++q) read_matrix(lu + q * size, x + q * x_.batch, x_, n_, n_, false);
        from = lu + i * size;
      }
      if (lane_table<T>().lu(from, lu + i * size, pivots + i * n_, permutation + i * n_, n_, count,
                             reinterpret_cast<T*>(own)))
        singular = true;
    });
    return singular;
  }
  for_matrices(tasks_, scratch, [&](int64_t i, char* own, bool parallel) {
    Blocks<T> blocks(own + panel_bytes_, parallel);
    read_matrix(lu + i * size, x + i * x_.batch, x_, m_, n_, parallel);
    one(lu + i * size, pivots + i * k, permutation + i * m_, blocks, reinterpret_cast<T*>(own));
  });
  return singular;
}

template <class T>
void LuFactor<T>::one(T* x, int32_t* pivots, int32_t* permutation, Blocks<T>& blocks, T* panel) const {
  const int64_t k = std::min(m_, n_);
  if (k > 0) columns(x, n_, m_, k, pivots, blocks, panel);
  if (n_ > k && k > 0) {
    blocks.exchange(x + k, n_, n_ - k, pivots, k);
    blocks.solve_left({x, n_}, k, x + k, n_, n_ - k);
  }
  if (!blocks.computes()) return;
  std::iota(permutation, permutation + m_, 0);
  for (int64_t i = 0; i < k; ++i) std::swap(permutation[i], permutation[pivots[i]]);
}

template <class T>
void LuFactor<T>::columns(T* x, ptrdiff_t row, int64_t m, int64_t n, int32_t* pivots, Blocks<T>& blocks,
                          T* panel) const {
  if (n <= FactorTable<T>::kColumns) {
    if (blocks.computes()) eliminate_columns(x, row, m, n, pivots);
  } else if (n <= kPanel && panel_bytes_ > 0 && row > kPanelRow) {
    if (blocks.computes()) copy_rows(panel, kPanelRow, x, row, m, n);
    halves(blocks.computes() ? panel : x, kPanelRow, m, n, pivots, blocks, panel);
    if (blocks.computes()) copy_rows(x, row, panel, kPanelRow, m, n);
  } else if (n >= kFewestOfPanels && n <= kMostOfPanels) {
    panels(x, row, m, n, pivots, blocks, panel);
  } else {
    halves(x, row, m, n, pivots, blocks, panel);
  }
}

template <class T>
void LuFactor<T>::halves(T* x, ptrdiff_t row, int64_t m, int64_t n, int32_t* pivots, Blocks<T>& blocks,
                         T* panel) const {
  const int64_t h = half_of(n);
  T *const right = x + h, *const below = x + h * row;
  int32_t* const later = pivots ? pivots + h : nullptr;
  columns(x, row, m, h, pivots, blocks, panel);
  blocks.exchange(right, row, n - h, pivots, h);
  blocks.solve_left({x, row}, h, right, row, n - h);
  blocks.subtract({m - h, n - h, h, below, row, 1, right, row, 1, below + h, row});
  columns(below + h, row, m - h, n - h, later, blocks, panel);
  blocks.exchange(below, row, h, later, n - h);
  for (int64_t i = 0; i < n - h && later; ++i) later[i] += static_cast<int32_t>(h);
}

// Panels from left to right, and behind each its product with the columns to the right of it. While the other threads
// take these columns, the first one brings those of the next panel up to date and factorizes them, so that nobody waits
// for a panel ("look-ahead", Strazdins 1998).
template <class T>
void LuFactor<T>::panels(T* x, ptrdiff_t row, int64_t m, int64_t n, int32_t* pivots, Blocks<T>& blocks,
                         T* panel) const {
  int64_t width = kFirstPanel, next_width = 0;
  columns(x, row, m, width, pivots, blocks, panel);
  for (int64_t at = 0; at < n; at += width, width = next_width) {
    const int64_t next = at + width;
    next_width = std::min({n - next, 2 * width, panel_width(n)});
    T *const rows = x + at * row, *const left = rows + at, *const corner = x + next * (row + 1);
    int32_t* const exchanged = pivots ? pivots + at : nullptr;
    const auto update = [&](Blocks<T>& by, int64_t first, int64_t count) {
      T* const top = rows + first;
      by.exchange(top, row, count, exchanged, width);
      by.solve_left({left, row}, width, top, row, count);
      by.subtract({m - next, count, width, left + width * row, row, 1, top, row, 1, top + width * row, row});
    };
    const double work = static_cast<double>((m - next) * (n - next)) * static_cast<double>(width);
    // Whoever measures goes through the same strips.
    const int64_t shares = (blocks.parallel() || !blocks.computes()) && work > kSharedWork ? thread_count() : 1;
    Strips behind(next + next_width, n, shares), before(0, at, shares);
    parallel_for(blocks.computes() ? shares : 1, [&](int64_t worker) {
      std::optional<ThreadLimit> one;
      if (shares > 1) one.emplace(1);
      Blocks<T> by = blocks.serial();
      if (worker == 0 && next_width > 0) {
        update(by, next, next_width);
        columns(corner, row, m - next, next_width, exchanged ? exchanged + width : nullptr, by, panel);
      }
      for (Strip s = behind.take(); s.count > 0; s = behind.take()) update(by, s.first, s.count);
      for (Strip s = before.take(); s.count > 0; s = before.take())
        by.exchange(rows + s.first, row, s.count, exchanged, width);
    });
    for (int64_t i = 0; i < width && exchanged; ++i) exchanged[i] += static_cast<int32_t>(at);
  }
}

template <class T>
LaneSystems<T>::LaneSystems(int64_t n, int64_t k, int64_t batch, const MatrixStrides& a, const MatrixStrides& b)
    : n_(n), k_(k), batch_(batch), a_(a), b_(b) {
  const double rows = static_cast<double>(n);
  tasks_ = lane_tasks<T>(n, batch, rows * rows * (rows / 3 + static_cast<double>(k)));
  lane_bytes_ = tasks_.bytes_of_task;
  if (a_ != MatrixStrides::row_major(n, n))
    tasks_.bytes_of_task += whole_lines(static_cast<size_t>(lane_table<T>().lanes * n * n) * sizeof(T));
}

template <class T>
bool LaneSystems<T>::takes(int64_t n, int64_t k, int64_t batch) {
  return k <= LaneTable<T>::kMostColumns && lane_table<T>().takes(n, batch);
}

template <class T>
ZeroPivot LaneSystems<T>::run(const T* a, const T* b, T* x, void* scratch) const {
  const LaneTable<T>& lanes = lane_table<T>();
  const int64_t size = n_ * n_, right_size = n_ * k_;
  LeastFault fault(batch_ * n_);
  for_matrices(tasks_, scratch, [&](int64_t group, char* own, bool) {
    const int64_t i = group * lanes.lanes, count = std::min<int64_t>(lanes.lanes, batch_ - i);
    T* const solutions = x + i * right_size;
    const T *matrices = a + i * size, *right_sides = b + i * right_size;
    if (a_ != MatrixStrides::row_major(n_, n_)) {
      T* const to = reinterpret_cast<T*>(own + lane_bytes_);
      for (int64_t q = 0; q < count; ++q) read_matrix(to + q * size, a + (i + q) * a_.batch, a_, n_, n_, false);
      matrices = to;
    }
    if (b_ != MatrixStrides::row_major(n_, k_)) {
      for (int64_t q = 0; q < count; ++q)
        read_matrix(solutions + q * right_size, b + (i + q) * b_.batch, b_, n_, k_, false);
      right_sides = solutions;
    }
    const int64_t found = lanes.system(matrices, right_sides, solutions, n_, k_, count, reinterpret_cast<T*>(own));
    if (found >= 0) fault.put(i * n_ + found);
  });
  if (!fault.any()) return {};
  return {fault.get() / n_, fault.get() % n_};
}

template <class T>
bool TriangularSolve<T>::interleaves(const TriangularProblem& p) {
  return p.other <= LaneTable<T>::kMostColumns && lane_table<T>().takes(p.n, p.batch);
}

template <class T>
TriangularSolve<T>::TriangularSolve(const TriangularProblem& problem) : p_(problem) {
  const double extent = static_cast<double>(p_.n), work = extent * extent * static_cast<double>(p_.other);
  if (interleaves(p_)) {
    lanes_ = lane_table<T>().lanes;
    tasks_ = lane_tasks<T>(p_.n, p_.batch, work);
    return;
  }
  tasks_ = batch_tasks(p_.batch, work);
  reserve_thread_scratch(static_cast<size_t>(Blocks<T>::strip_size()) * sizeof(T));
  typename Blocks<T>::Measure measure;
  Blocks<T> blocks(measure);
  T nothing{};
  one(&nothing, &nothing, blocks, nullptr);
  tasks_.bytes_of_task = whole_lines(static_cast<size_t>(p_.n) * sizeof(T)) + whole_lines(measure.product_bytes);
}

template <class T>
void TriangularSolve<T>::run(const T* a, T* b, void* scratch) const {
  if (interleaved()) {
    return for_matrices(tasks_, scratch, [&](int64_t group, char* own, bool) {
      const int64_t i = group * lanes_;
      lane_table<T>().solve(p_, a + i * p_.a_batch, b + i * p_.n * p_.other, std::min(lanes_, p_.batch - i),
                            reinterpret_cast<T*>(own));
    });
  }
  for_matrices(tasks_, scratch, [&](int64_t i, char* own, bool parallel) {
    Blocks<T> blocks(own + whole_lines(static_cast<size_t>(p_.n) * sizeof(T)), parallel);
    one(a + i * p_.a_batch, b + i * p_.n * p_.other, blocks, reinterpret_cast<T*>(own));
  });
}

template <class T>
void TriangularSolve<T>::one(const T* a, T* b, Blocks<T>& blocks, T* diagonal) const {
  Triangle<T> t{a, p_.a_row, p_.a_col, p_.upper};
  if (!p_.unit_diagonal && blocks.computes()) {
    t.divide = invert_diagonal(a, p_.a_row + p_.a_col, p_.n, diagonal);
    t.diagonal = diagonal;
  }
  if (p_.right) {
    blocks.solve_right(t, p_.n, b, p_.n, p_.other);
  } else {
    blocks.solve_left(t, p_.n, b, p_.other, p_.other);
  }
}

template class LuFactor<float>;
template class LuFactor<double>;
template class LaneSystems<float>;
template class LaneSystems<double>;
template class TriangularSolve<float>;
template class TriangularSolve<double>;

}  // namespace freight::cpu
