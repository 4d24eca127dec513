// Cholesky column block by column block ("left-looking"): a block takes at once what all columns before it give, so
// that each number of the factor is written once. The rows of L lie packed in panels as the register tile reads them,
// as either side of a product; threads take one parallel region for a whole matrix. Larger matrices are halved first.
// See factor.h.
#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/factor.h"
#include "freight/backend/cpu/kernels/factor_tasks.h"
#include "freight/backend/cpu/kernels/gemm_tile.h"
#include "freight/backend/cpu/kernels/lane_factor.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/base/threads.h"
#include "hwy/cache_control.h"

namespace freight::cpu {

namespace {

// A larger matrix is halved: the packed rows of L take half of its memory once more.
constexpr int64_t kMostPacked = 1536;
// From so many multiply-adds on a second thread brings more than its wake-up costs, which is some 50 us.
constexpr double kSharedCholesky = 1e7;

template <class T>
int64_t panel_rows() {
  return 2 * factor_table<T>().lanes;
}

// Panel p holds w rows of L up to their diagonal: w (p + 1) steps of w numbers.
template <class T>
int64_t packed_size(int64_t n) {
  const int64_t w = panel_rows<T>(), panels = ceil_div(n, w);
  return w * w * panels * (panels + 1) / 2;
}

// Rows and columns of a block of the lower triangle.
struct TriangleBlock {
  int64_t row, column, rows, columns;
};

// Makes the block's transposed one zero, which lies in the other triangle.
template <class T>
void clear_mirrored(const TriangleBlock& b, T* x, ptrdiff_t row, ptrdiff_t col) {
  T* const to = x + b.row * col + b.column * row;
  if (col == 1) {
    for (int64_t k = 0; k < b.columns; ++k) std::fill_n(to + k * row, b.rows, T(0));
  } else {
    for (int64_t i = 0; i < b.rows; ++i) std::fill_n(to + i * col, b.columns, T(0));
  }
}

// One factorization: the lower triangle of x (n, n), whose element (i, k) is x[i * x_row + k * x_col], becomes L in
// `factor`, where element (i, k) is at i * row + k * col and the other triangle becomes 0. Of the strides of each, one
// is 1. x may be `factor`.
template <class T>
class PackedCholesky {
 public:
  struct CholeskyBlock {
    const T* x;
    ptrdiff_t x_row, x_col;
    T* factor;
    ptrdiff_t row, col;
    int64_t n;
  };
  // There is memory for n reciprocals and for packed_size(n) numbers.
  PackedCholesky(const CholeskyBlock& place, T* reciprocals, T* packed)
      : at_(place), reciprocals_(reciprocals), packed_(packed), w_(panel_rows<T>()) {
    const int64_t wanted = at_.n >= kFewestNarrow && at_.n <= kMostNarrow ? kNarrow : kWide;
    block_ = std::max(wanted / w_ * w_, w_);
    blocks_ = ceil_div(at_.n, block_);
  }

  // The first leading minor that is not positive, from 1, or 0.
  int64_t run(int64_t threads) {
    if (!diagonal(0)) return minor_;
    const int64_t workers = std::min(threads, blocks_);
    parallel_for(workers, [&](int64_t worker) {
      work(workers);
      // The caller is the last at the region's end: who waits there may sleep, and is woken later than a block takes.
      if (worker == 0) wait([&] { return diagonals_.load(std::memory_order_acquire) == blocks_; });
    });
    return minor_;
  }

 private:
  // Rows and columns of a block. Wide ones read the rows of L less often. Narrow ones let a second thread begin early,
  // which counts where it has but some ten of the wide ones.
  static constexpr int64_t kWide = 64, kNarrow = 32, kFewestNarrow = 256, kMostNarrow = 640;
  // Steps of a sum that one pass takes: eight rows of them stay in the first-level cache.
  static constexpr int64_t kSteps = sizeof(T) == sizeof(float) ? 384 : 320;
  static constexpr int64_t kMostBlocks = ceil_div(kMostPacked, kNarrow / 2) + 1;

  T* panel(int64_t p) const { return packed_ + w_ * w_ * p * (p + 1) / 2; }
  int64_t end_of(int64_t block) const { return std::min((block + 1) * block_, at_.n); }
  int64_t rows_of(int64_t p) const { return std::min(w_, at_.n - p * w_); }

  // Waits for other threads; false: a minor is not positive.
  template <class Ready>
  bool wait(const Ready& ready) const {
    constexpr int kSpins = 4000;  // some 50 us: then the thread that is waited for may have no processor
    for (int spins = 0; !ready(); ++spins) {
      if (minor_.load(std::memory_order_relaxed) > 0) return false;
      if (spins < kSpins) {
        hwy::Pause();
      } else {
        std::this_thread::yield();
      }
    }
    return true;
  }

  // Blocks are taken in an order in which each needs those before it only, so that some thread can always go on. The
  // next diagonal block comes as soon as its rows are done, while the other threads have rows of this column left.
  void work(int64_t workers) {
    int64_t column = 0, first = 0;  // of the column's tasks
    while (minor_.load(std::memory_order_relaxed) == 0) {
      const int64_t task = next_.fetch_add(1);
      while (column + 1 < blocks_ && task >= first + blocks_ - column) first += blocks_ - column++;
      if (column + 1 >= blocks_) return;
      const int64_t i = task - first, ahead = std::min(workers, blocks_ - 1 - column);
      if (i == ahead ? !diagonal(column + 1) : !below(column, column + i + (i < ahead ? 1 : 0))) return;
    }
  }

  bool diagonal(int64_t block) {
    const int64_t first = block * block_, end = end_of(block);
    if (!wait([&] { return done_[slot(block)].load(std::memory_order_acquire) >= block; })) return false;
    for (int64_t p = first / w_; p * w_ < end; ++p) {
      const int64_t corner = p * w_, corner_end = corner + rows_of(p);
      load(p, first, corner_end);
      subtract(0, first, first, corner_end, p, p + 1);
      if (corner > first) {
        substitute(p, first, corner);
        subtract(first, corner, corner, corner_end, p, p + 1);
      }
      const int64_t minor =
          factor_table<T>().cholesky_panel(panel(p) + corner * w_, corner_end - corner, reciprocals_ + corner);
      if (minor > 0) {
        minor_ = corner + minor;
        return false;
      }
      store(p, first, corner);
      store_corner(p);
    }
    diagonals_.store(block + 1, std::memory_order_release);
    return true;
  }

  // The rows of block `rows` in the columns of block `column`.
  bool below(int64_t column, int64_t rows) {
    const int64_t first = column * block_, end = end_of(column);
    const int64_t p0 = rows * block_ / w_, p1 = ceil_div(end_of(rows), w_);
    for (int64_t p = p0; p < p1; ++p) load(p, first, end);
    const auto has = [&](int64_t block) { return done_[slot(block)].load(std::memory_order_acquire) >= column; };
    if (!wait([&] { return has(rows) && has(column); })) return false;
    subtract(0, first, first, end, p0, p1);
    if (!wait([&] { return diagonals_.load(std::memory_order_acquire) > column; })) return false;
    for (int64_t p = p0; p < p1; ++p) {
      substitute(p, first, end);
      store(p, first, end);
    }
    done_[slot(rows)].store(column + 1, std::memory_order_release);
    return true;
  }

  static size_t slot(int64_t block) { return static_cast<size_t>(block); }

  // Columns [first, end) of the panel's rows of x.
  void load(int64_t p, int64_t first, int64_t end) const {
    const T* const from = at_.x + p * w_ * at_.x_row + first * at_.x_col;
    gemm_table<T>().pack(panel(p) + first * w_, 0, from, at_.x_col, at_.x_row, end - first, rows_of(p),
                         static_cast<int>(w_));
  }

  // Subtracts the products of columns [k0, k1) from columns [row0, row1) of panels [p0, p1).
  void subtract(int64_t k0, int64_t k1, int64_t row0, int64_t row1, int64_t p0, int64_t p1) const {
    const GemmTable<T>& table = gemm_table<T>();
    GemmTile<T> t;
    t.a_row = 1;
    t.a_step = t.b_step = t.c_row = w_;
    t.b_vector = t.c_vector = t.last_columns = table.lanes;
    t.subtract = true;
    for (; k0 < k1; k0 += t.length) {
      t.length = std::min(k1 - k0, kSteps);
      for (int64_t q = row0 / w_; q * w_ < row1; ++q) {
        const int64_t rows = std::min(w_, row1 - q * w_), tiles = ceil_div(rows, table.rows);
        for (int64_t i = 0; i < tiles; ++i) {
          const int64_t row = rows * i / tiles, count = rows * (i + 1) / tiles - row;
          t.a = panel(q) + k0 * w_ + row;
          for (int64_t p = p0; p < p1; ++p) {
            t.b = panel(p) + k0 * w_;
            t.c = panel(p) + (q * w_ + row) * w_;
            table.tile[1][count - 1][1](t);
          }
        }
      }
    }
  }

  // Columns [first, end) of the panel's rows of L, from the diagonal block of these columns.
  void substitute(int64_t p, int64_t first, int64_t end) const {
    Substitution<T> s;
    s.a = at_.factor + first * (at_.row + at_.col);
    s.a_row = at_.row;
    s.a_col = at_.col;
    s.diagonal = reciprocals_ + first;
    s.b = panel(p) + first * w_;
    s.b_row = w_;
    s.n = end - first;
    s.columns = w_;
    factor_table<T>().substitute(s);
  }

  // Columns [first, end) of the panel's rows go to the factor, and zeros to the other triangle.
  void store(int64_t p, int64_t first, int64_t end) const {
    if (first == end) return;
    const int64_t rows = rows_of(p), below = p * w_;
    const T* const from = panel(p) + first * w_;
    if (at_.col == 1) {
      factor_table<T>().transpose(at_.factor + below * at_.row + first, at_.row, from, w_, end - first, rows);
    } else {
      for (int64_t k = first; k < end; ++k)
        std::copy_n(from + (k - first) * w_, rows, at_.factor + k * at_.col + below);
    }
    clear_mirrored({below, first, rows, end - first}, at_.factor, at_.row, at_.col);
  }

  void store_corner(int64_t p) const {
    const int64_t n = rows_of(p), first = p * w_;
    const T* const from = panel(p) + first * w_;
    T* const to = at_.factor + first * (at_.row + at_.col);
    if (at_.col == 1) factor_table<T>().transpose(to, at_.row, from, w_, n, n);
    for (int64_t i = 0; i < n; ++i) {
      if (at_.col == 1) {
        std::fill_n(to + i * at_.row + i + 1, n - i - 1, T(0));
      } else {
        std::fill_n(to + i * at_.col, i, T(0));
        std::copy_n(from + i * w_ + i, n - i, to + i * at_.col + i);
      }
    }
  }

  CholeskyBlock at_;
  T *reciprocals_, *packed_;
  int64_t w_, block_ = 0, blocks_ = 0;
  std::atomic<int64_t> next_{0};       // task
  std::atomic<int64_t> diagonals_{0};  // blocks that are done
  std::atomic<int64_t> minor_{0};
  std::array<std::atomic<int64_t>, kMostBlocks> done_{};  // columns, of the rows of each block
};

}  // namespace

// One task's scratch memory; that of products lies behind.
template <class T>
struct CholeskyFactor<T>::Memory {
  T *reciprocals = nullptr, *packed = nullptr;
  size_t bytes = 0;

  Memory() = default;
  Memory(const CholeskyFactor& f, char* from) {
    const size_t front = whole_lines(static_cast<size_t>(f.n_) * sizeof(T));
    reciprocals = reinterpret_cast<T*>(from);
    packed = from ? reinterpret_cast<T*>(from + front) : nullptr;
    bytes = front + whole_lines(static_cast<size_t>(packed_size<T>(std::min(f.n_, kMostPacked))) * sizeof(T));
  }
  Memory from(int64_t at) const {
    Memory m = *this;
    if (m.reciprocals) m.reciprocals += at;
    return m;
  }
};

template <class T>
CholeskyFactor<T>::CholeskyFactor(int64_t n, int64_t batch, bool upper, const MatrixStrides& x)
    : n_(n), batch_(batch), upper_(upper), x_(x) {
  const double extent = static_cast<double>(n), work = extent * extent * extent / 3;
  if (lane_table<T>().takes(n, batch)) {
    lanes_ = lane_table<T>().lanes;
    tasks_ = lane_tasks<T>(n, batch, work);
    return;
  }
  tasks_ = batch < thread_count() ? batch_tasks(batch, work, kSharedCholesky) : batch_tasks(batch, work);
  reserve_thread_scratch(static_cast<size_t>(Blocks<T>::strip_size()) * sizeof(T));
  typename Blocks<T>::Measure measure;
  Blocks<T> blocks(measure);
  T nothing{};
  halves(&nothing, n, blocks, Memory{});
  tasks_.bytes_of_task = Memory(*this, nullptr).bytes + whole_lines(measure.product_bytes);
}

template <class T>
NotPositive CholeskyFactor<T>::run(const T* x, T* factor, void* scratch) const {
  // A matrix and its minor as one number, of which the least is kept. Behind the first such matrix none need be tried.
  const int64_t minors = n_ + 1, size = n_ * n_;
  LeastFault first(batch_ * minors);
  if (interleaved()) {
    for_matrices(tasks_, scratch, [&](int64_t group, char* own, bool) {
      const int64_t i = group * lanes_, count = std::min(lanes_, batch_ - i);
      if (i * minors > first.get()) return;
      const T* from = x + i * size;
      if (x_ != MatrixStrides::row_major(n_, n_)) {
        for (int64_t k = i; k < i + count; ++k) read_matrix(factor + k * size, x + k * x_.batch, x_, n_, n_, false);
        from = factor + i * size;
      }
      const int64_t fault =
          lane_table<T>().cholesky(from, factor + i * size, upper_, n_, count, reinterpret_cast<T*>(own));
      if (fault >= 0) first.put(i * minors + fault);
    });
  } else {
    for_matrices(tasks_, scratch, [&](int64_t i, char* own, bool parallel) {
      if (i * minors > first.get()) return;
      const Memory memory(*this, own);
      Blocks<T> blocks(own + memory.bytes, parallel);
      const int64_t minor = one(x + i * x_.batch, factor + i * size, blocks, memory);
      if (minor > 0) first.put(i * minors + minor);
    });
  }
  if (!first.any()) return {};
  return {first.get() / minors, first.get() % minors};
}

template <class T>
int64_t CholeskyFactor<T>::one(const T* x, T* factor, const Blocks<T>& blocks, const Memory& memory) const {
  if (n_ <= kMostPacked) return packed(x, x_, factor, n_, blocks, memory);
  read_matrix(factor, x, x_, n_, n_, blocks.parallel());
  Blocks<T> own = blocks;
  return halves(factor, n_, own, memory);
}

template <class T>
int64_t CholeskyFactor<T>::packed(const T* x, const MatrixStrides& strides, T* factor, int64_t n,
                                  const Blocks<T>& blocks, const Memory& memory) const {
  if (n == 0 || !blocks.computes()) return 0;
  const ptrdiff_t row = upper_ ? 1 : n_, col = upper_ ? n_ : 1;  // of the lower triangle
  const ptrdiff_t x_row = upper_ ? strides.col : strides.row, x_col = upper_ ? strides.row : strides.col;
  return PackedCholesky<T>({x, x_row, x_col, factor, row, col, n}, memory.reciprocals, memory.packed)
      .run(blocks.parallel() ? thread_count() : 1);
}

template <class T>
int64_t CholeskyFactor<T>::halves(T* x, int64_t n, Blocks<T>& blocks, const Memory& memory) const {
  if (n <= kMostPacked) return packed(x, MatrixStrides::row_major(n_, n_), x, n, blocks, memory);
  const ptrdiff_t row = upper_ ? 1 : n_, col = upper_ ? n_ : 1;
  const int64_t h = half_of(n);
  const int64_t minor = halves(x, h, blocks, memory);
  if (minor > 0) return minor;
  T *const off = x + h * row, *const second = x + h * (row + col);
  const Triangle<T> lower{x, row, col, false, memory.reciprocals};
  if (upper_) {
    blocks.solve_left(lower, h, off, n_, n - h);
  } else {
    blocks.solve_right(lower.transposed(), h, off, n_, n - h);
  }
  blocks.subtract_symmetric({n - h, n - h, h, off, row, col, off, col, row, second, n_}, upper_);
  if (blocks.computes()) clear_mirrored({h, 0, n - h, h}, x, row, col);
  const int64_t later = halves(second, n - h, blocks, memory.from(h));
  return later > 0 ? h + later : 0;
}

template class CholeskyFactor<float>;
template class CholeskyFactor<double>;

}  // namespace freight::cpu
