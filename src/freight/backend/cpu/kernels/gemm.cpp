// See gemm.h. Decides at plan time which side lies in vectors, what is packed, and how the result is cut into tasks.
// Each element of the result is summed in one order whatever the cut, so bits do not depend on threads.
#include "freight/backend/cpu/kernels/gemm.h"

#include <algorithm>

#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/base/cpu_info.h"
#include "freight/base/error.h"
#include "freight/base/threads.h"
#include "hwy/cache_control.h"

namespace freight::cpu {

namespace {

// Steps of the sum per pass: a tile's rows stay in the first-level cache.
template <class T>
constexpr int64_t kDepth = sizeof(T) == sizeof(float) ? 384 : 320;
template <class T>
constexpr int64_t kLine = Ahead<T>::kLine;
// Rows of a few tiles by a matrix beyond the caches, which is packed in blocks of so many steps and bytes of a row:
// long stretches do not fall on the same cache sets where the rows lie a multiple of 4 KiB apart. Products of more rows
// are bound by their sums and were not measured.
constexpr int64_t kStepsPacked = 64, kRowBytes = 4 << 10, kRowsWaiting = 64;
constexpr int64_t kFirstLevelBytes = 32 << 10;
constexpr int64_t kFlippedRows = 96;     // rows of a flipped product whose sums are kept aside
constexpr double kSerialFlops = 400000;  // below, a parallel region costs more than it saves
// Cycles per element of a block that is packed, by copying or transposing, where a tile takes one per row and step.
constexpr double kCopy = 0.15, kTranspose = 0.6;

int64_t l2_bytes() {
  static const int64_t bytes = std::max<int64_t>(cpu_info().l2_bytes, 256 << 10);
  return bytes;
}

// The i-th of `parts` nearly equal parts of n begins here.
int64_t part_start(int64_t n, int64_t parts, int64_t i) { return n * i / parts; }

// A product of few rows by a matrix whose columns do not lie in vectors takes one of two ways. Flipped, its own rows
// fill the vectors, the last ones of which may be mostly empty, and are packed by one thread. Plain, the matrix is
// packed, which a matrix beyond the caches does not bear.
// The number of threads has no say, since the ways add up in different orders.
bool flips(const GemmProblem& p, int64_t lanes, size_t size) {
  if (p.n * p.k * static_cast<int64_t>(size) > l2_bytes()) return true;
  const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n);
  const double flipped = n * static_cast<double>(ceil_div(p.m, lanes)) + 2 * kTranspose * m;
  const double plain = m * static_cast<double>(ceil_div(p.n, lanes)) + kTranspose * n;
  return flipped < plain;
}

// `most` made smaller so that all blocks of n are nearly equal.
int64_t even_block(int64_t n, int64_t most) {
  return ceil_div(n, std::max<int64_t>(ceil_div(n, std::max<int64_t>(most, 1)), 1));
}

}  // namespace

template <class T>
struct Gemm<T>::Call {
  const T *a, *b;
  T* c;
  const T *bias, *residual;
  T* panels;  // of a flipped product: a's rows, packed
};

template <class T>
struct Gemm<T>::ResultBlock {
  int64_t tile0, tile1, panel0, panel1;
};

// Packed next is, behind the rows of the tiles before `tile1` and the columns from `panel0` to `panel1` of the
// block of steps from k0 on: rows, and at the end of that block columns.
template <class T>
std::pair<Ahead<T>, Ahead<T>> Gemm<T>::packed_next(const Call& call, const ResultBlock& part, int64_t tile1,
                                                   int64_t panel0, int64_t panel1, int64_t k0) const {
  const bool same_steps = tile1 < part.tile1;
  const int64_t tile = same_steps ? tile1 : part.tile0, k = same_steps ? k0 : k0 + k_block_;
  const int64_t rows = std::min(std::min(tile + tile_block_, part.tile1) * rows_, m_) - tile * rows_;
  const int64_t columns = std::min(panel1 * width_, n_) - panel0 * width_, steps = std::min(k_block_, p_.k - k);
  std::pair<Ahead<T>, Ahead<T>> next;
  if (steps <= 0) return next;
  const auto block = [&](const T* from, int64_t count, ptrdiff_t stride, ptrdiff_t step_stride) {
    return stride == 1 ? Ahead<T>{from + k * step_stride, steps, count, step_stride}
                       : Ahead<T>{from + k * step_stride, count, steps, stride};
  };
  if (pack_rows_) next.first = block(call.a + tile * rows_ * p_.a_row, rows, p_.a_row, p_.a_col);
  // Beside the columns at work there must be room for those that come.
  const bool room = columns * k_block_ * static_cast<int64_t>(sizeof(T)) <= l2_bytes() * 4 / 10;
  if (pack_columns_ && !same_steps && room)
    next.second = block(call.b + panel0 * width_ * p_.b_col, columns, p_.b_col, p_.b_row);
  return next;
}

template <class T>
Gemm<T>::Gemm(const GemmProblem& problem) : p_(problem) {
  FREIGHT_CHECK(!(p_.accumulate && p_.subtract), "a product is added to the result or subtracted from it, not both");
  if (p_.m == 0 || p_.n == 0) return;
  const GemmTable<T>& table = gemm_table<T>();
  rows_ = table.rows;
  width_ = 2 * table.lanes;
  const int64_t threads = thread_count();
  flipped_ = !p_.packed && p_.batch == 1 && p_.b_col != 1 && p_.b_row == 1 && p_.m <= 2 * width_ && p_.n > p_.m &&
             flips(p_, table.lanes, sizeof(T));
  m_ = flipped_ ? p_.n : p_.m;
  n_ = flipped_ ? p_.m : p_.n;
  tiles_ = ceil_div(m_, rows_);
  if (!flipped_) rows_ = even_block(m_, rows_);  // no tile of few rows at the end
  panels_ = ceil_div(n_, width_);
  // Small tiles, of AVX2, do not ask for memory ahead.
  few_ = !flipped_ && !p_.packed && p_.batch == 1 && p_.b_col == 1 && tiles_ > 1 && p_.m <= kRowsWaiting &&
         table.rows >= 8 && p_.n * p_.k * static_cast<int64_t>(sizeof(T)) > l2_bytes();
  const int64_t depth = few_ ? kStepsPacked : kDepth<T>;
  k_block_ = std::max<int64_t>(std::min(p_.k, ceil_div(even_block(p_.k, depth), 4) * 4), 1);
  const double flops = 2.0 * static_cast<double>(p_.m) * static_cast<double>(p_.n) * static_cast<double>(p_.k);
  const bool parallel = p_.batch == 1 && flops > kSerialFlops && threads > 1;
  if (flipped_) {
    row_tasks_ = parallel ? std::min(threads, tiles_) : 1;
    scratch_bytes_ = static_cast<size_t>(panels_ * width_ * p_.k) * sizeof(T);
    thread_bytes_ = static_cast<size_t>((kFlippedRows + rows_) * panels_ * width_) * sizeof(T);
  } else {
    // A block read in place must be short enough for the first-level cache and free of steps that fall on the same
    // cache sets, or be read once.
    const auto shares_sets = [](ptrdiff_t step) { return step * static_cast<ptrdiff_t>(sizeof(T)) % 512 == 0; };
    // A matrix that the first-level cache holds whole is no concern of its sets.
    const bool small = p_.k * p_.b_row * static_cast<int64_t>(sizeof(T)) <= kFirstLevelBytes;
    // Steps of f64 on a page each cost more in place, measured from 64 of them on.
    const bool far_apart = sizeof(T) == sizeof(double) && p_.k >= 64 && p_.b_row * ptrdiff_t{sizeof(T)} >= 4096;
    pack_columns_ =
        !p_.packed &&
        (p_.b_col != 1 || (tiles_ > 1 && (p_.k > 256 || (p_.k > 16 && !small && shares_sets(p_.b_row)) || far_apart)));
    // Rows that lie together and fit the first-level cache are read in place, unless they are read often.
    const bool together = p_.a_col == 1 && p_.a_row == p_.k && p_.k <= 256 && panels_ <= 16;
    pack_rows_ = (p_.a_col != 1 && p_.a_row != 1) || (panels_ > 2 && p_.k > 64 && !together) ||
                 (p_.a_col != 1 && p_.k > 16 && shares_sets(p_.a_col));
    if (p_.packed && p_.a_col == 1 && m_ < rows_) pack_rows_ = false;  // the weight is read once: nothing to save
    const int64_t strip = k_block_ * static_cast<int64_t>(sizeof(T));
    panel_block_ = even_block(panels_, few_ ? kRowBytes / (static_cast<int64_t>(sizeof(T)) * width_)
                                            : l2_bytes() * 6 / 10 / (strip * width_));
    tile_block_ = even_block(tiles_, std::min(l2_bytes() / 4 / strip, k_block_) / rows_);
    if (parallel) cut(threads);
    const int64_t panel_numbers = p_.packed       ? 0
                                  : pack_columns_ ? panel_block_ * panel_stride(k_block_)
                                  : n_ % width_   ? width_ * k_block_
                                                  : 0;
    const int64_t row_numbers = pack_rows_ ? tile_block_ * rows_ * k_block_ : 0;
    thread_bytes_ = static_cast<size_t>(panel_numbers + row_numbers) * sizeof(T);
  }
  if (thread_bytes_ > 0) reserve_thread_scratch(thread_bytes_);
}

// Cuts the result into row_tasks_ x panel_tasks_ parts: each packs the rows and columns it needs for itself.
template <class T>
void Gemm<T>::cut(int64_t threads) {
  const double row_cost = !pack_rows_ ? 0 : p_.a_row == 1 ? kCopy : kTranspose;
  const double column_cost = !pack_columns_ ? 0 : p_.b_col == 1 ? kCopy : kTranspose;
  double best = 1e30;
  for (int64_t r = 1; r <= threads; ++r) {
    if (threads % r != 0) continue;
    const int64_t c = threads / r, tiles = ceil_div(tiles_, r), panels = ceil_div(panels_, c);
    const double rows = static_cast<double>(tiles * rows_);
    const double cost = rows * static_cast<double>(panels) +
                        row_cost * rows * static_cast<double>(ceil_div(panels, panel_block_)) +
                        column_cost * static_cast<double>(panels * width_);
    if (cost < best) {
      best = cost;
      row_tasks_ = r;
      panel_tasks_ = c;
    }
  }
}

// Numbers between packed panels: a line more than they hold where they would meet on the same cache sets.
template <class T>
int64_t Gemm<T>::panel_stride(int64_t steps) const {
  return steps * width_ + (few_ ? kLine<T> : 0);
}

// Packs steps [k0, k0 + steps) of the panels that are not read in place; returns the first of them.
template <class T>
int64_t Gemm<T>::pack_panels(const Call& call, int64_t panel0, int64_t panel1, int64_t k0, int64_t steps, T* to) const {
  const bool tail = panel1 == panels_ && n_ % width_ != 0;
  const int64_t first = pack_columns_ ? panel0 : panel1 - (tail ? 1 : 0), column = first * width_;
  gemm_table<T>().pack(to, panel_stride(steps), call.b + column * p_.b_col + k0 * p_.b_row, p_.b_row, p_.b_col, steps,
                       std::min(panel1 * width_, n_) - column, static_cast<int>(width_));
  return first;
}

template <class T>
void Gemm<T>::multiply(const Call& call, const ResultBlock& part) const {
  const GemmTable<T>& table = gemm_table<T>();
  const int64_t lanes = table.lanes;
  T* packed = thread_bytes_ > 0 ? static_cast<T*>(thread_scratch(thread_bytes_)) : nullptr;
  T* packed_rows =
      packed + (pack_rows_ ? static_cast<int64_t>(thread_bytes_ / sizeof(T)) - tile_block_ * rows_ * k_block_ : 0);
  alignas(64) T bias_tail[2 * kLine<T>] = {};
  if (call.bias && n_ % width_ != 0) std::copy(call.bias + (panels_ - 1) * width_, call.bias + n_, bias_tail);
  const auto& tile = table.tile[pack_rows_ || p_.a_col != 1 ? 1 : 0];
  GemmTile<T> t;
  t.a_row = pack_rows_ ? 1 : p_.a_row;
  t.a_step = pack_rows_ ? rows_ : p_.a_col;
  t.b_vector = t.c_vector = lanes;
  t.c_row = p_.c_row;
  const bool rows_together = !pack_rows_ && p_.a_col == 1 && p_.a_row == p_.k && k_block_ == p_.k;
  t.ahead_step = kLine<T>;
  t.ahead_count = rows_ * p_.k / kLine<T>;
  constexpr size_t line = kLine<T> * sizeof(T);
  t.subtract = p_.subtract;
  t.stream = p_.stream && !p_.accumulate && !p_.subtract && k_block_ >= p_.k && p_.c_row % kLine<T> == 0 &&
             reinterpret_cast<uintptr_t>(call.c) % line == 0;
  for (int64_t panel0 = part.panel0; panel0 < part.panel1; panel0 += panel_block_) {
    const int64_t panel1 = std::min(panel0 + panel_block_, part.panel1);
    for (int64_t k0 = 0; k0 == 0 || k0 < p_.k; k0 += k_block_) {  // an empty sum is 0
      const int64_t steps = std::min(k_block_, p_.k - k0);
      const bool last = k0 + steps == p_.k;
      const int64_t first_packed = p_.packed ? panel1 : pack_panels(call, panel0, panel1, k0, steps, packed);
      t.length = steps;
      t.accumulate = !p_.subtract && (k0 > 0 || p_.accumulate);
      t.relu = last && p_.relu;
      t.most = last ? static_cast<T>(p_.most) : std::numeric_limits<T>::infinity();
      for (int64_t tile0 = part.tile0; tile0 < part.tile1; tile0 += tile_block_) {
        const int64_t tile1 = std::min(tile0 + tile_block_, part.tile1);
        if (pack_rows_) {
          table.pack(packed_rows, rows_ * steps, call.a + tile0 * rows_ * p_.a_row + k0 * p_.a_col, p_.a_col, p_.a_row,
                     steps, std::min(tile1 * rows_, m_) - tile0 * rows_, static_cast<int>(rows_));
        }
        const auto [next_rows, next_columns] = packed_next(call, part, tile1, panel0, panel1, k0);
        int64_t asked = 0;
        for (int64_t i = tile0; i < tile1; ++i) {
          const int64_t row = i * rows_, count = std::min(rows_, m_ - row);
          t.a = pack_rows_ ? packed_rows + (i - tile0) * rows_ * steps : call.a + row * p_.a_row + k0 * p_.a_col;
          for (int64_t panel = panel0; panel < panel1; ++panel) {
            const int64_t column = panel * width_, columns = std::min(width_, n_ - column);
            const int vectors = columns > lanes ? 2 : 1;
            const bool in_place = panel < first_packed;
            if (p_.packed) {
              t.b = call.b + column * p_.k + k0 * width_;
            } else {
              t.b = in_place ? call.b + column + k0 * p_.b_row : packed + (panel - first_packed) * panel_stride(steps);
            }
            t.b_step = in_place && !p_.packed ? p_.b_row : width_;
            t.last_columns = static_cast<int>(columns - (vectors - 1) * lanes);
            t.c = call.c + row * p_.c_row + column;
            t.column_bias = !(last && call.bias) ? nullptr : columns < width_ ? bias_tail : call.bias + column;
            t.ahead = nullptr;
            if (rows_together) {  // come while the tile before works on its first panel
              if (panel == panel0) t.ahead = t.a + count * p_.a_row;
            } else if (asked < next_rows.lines()) {
              next_rows.ask(asked++, t);
            } else if (const int64_t ask = asked - next_rows.lines(); few_ && ask < next_columns.runs) {
              // The lines of one row of memory, since a line of each row would meet the others on one set of the cache.
              const T* const row_ahead = next_columns.start + ask * next_columns.stride;
              Ahead<T>{row_ahead, next_columns.lines(), kLine<T>, kLine<T>}.ask(0, t);
              ++asked;
            } else if (!few_ && ask < next_columns.lines()) {
              next_columns.ask(ask, t);
              ++asked;
            }
            t.residual = last && call.residual ? call.residual + row * p_.c_row + column : nullptr;
            tile[count - 1][vectors - 1](t);
          }
        }
      }
    }
  }
  if (t.stream) hwy::FlushStream();
}

// c's rows come out of the tiles as columns: sums stay aside until they are complete.
template <class T>
void Gemm<T>::multiply_flipped(const Call& call, int64_t row0, int64_t row1) const {
  const GemmTable<T>& table = gemm_table<T>();
  const int64_t lanes = table.lanes, line = panels_ * width_;
  auto* sums = static_cast<T*>(thread_scratch(thread_bytes_));
  GemmTile<T> t;
  t.a_row = p_.b_col;
  t.a_step = 1;
  t.b_vector = t.c_vector = lanes;
  t.b_step = width_;
  t.c_row = line;
  t.last_columns = static_cast<int>(lanes);
  const T most = static_cast<T>(p_.most);
  for (int64_t block = row0; block < row1; block += kFlippedRows) {
    const int64_t end = std::min(block + kFlippedRows, row1), tiles = ceil_div(end - block, rows_);
    for (int64_t k0 = 0; k0 == 0 || k0 < p_.k; k0 += k_block_) {  // an empty sum is 0
      t.length = std::min(k_block_, p_.k - k0);
      t.accumulate = k0 > 0;
      for (int64_t i = 0; i < tiles; ++i) {
        const int64_t row = part_start(end - block, tiles, i), count = part_start(end - block, tiles, i + 1) - row;
        t.a = call.b + (block + row) * p_.b_col + k0;
        for (int64_t panel = 0; panel < panels_; ++panel) {
          t.b = call.panels + panel * p_.k * width_ + k0 * width_;
          t.c = sums + row * line + panel * width_;
          table.tile[0][count - 1][n_ - panel * width_ > lanes ? 1 : 0](t);
        }
      }
    }
    for (int64_t j = 0; j < n_; ++j) {
      T* c = call.c + j * p_.c_row;
      const T* residual = call.residual ? call.residual + j * p_.c_row : nullptr;
      for (int64_t i = block; i < end; ++i) {
        T v = sums[(i - block) * line + j];
        if (p_.accumulate) v += c[i];
        if (p_.subtract) v = c[i] - v;
        if (call.bias) v += call.bias[i];
        if (residual) v += residual[i];
        if (p_.relu && v <= 0) v = 0;
        c[i] = v > most ? most : v;
      }
    }
  }
}

template <class T>
void Gemm<T>::run(const T* a, const T* b, T* c, const T* bias, const T* residual, void* scratch) const {
  if (p_.m == 0 || p_.n == 0) return;
  if (flipped_) {
    const Call call{a, b, c, bias, residual, static_cast<T*>(scratch)};
    pack_columns(call.panels, a, p_.a_col, p_.a_row, p_.k, p_.m);
    parallel_for(row_tasks_, [&](int64_t i) {
      multiply_flipped(call, part_start(m_, row_tasks_, i), part_start(m_, row_tasks_, i + 1));
    });
    return;
  }
  if (p_.batch > 1) {
    parallel_for(p_.batch, [&](int64_t i) {
      multiply({a + i * p_.a_batch, b + i * p_.b_batch, c + i * p_.c_batch, bias,
                residual ? residual + i * p_.c_batch : nullptr, nullptr},
               {0, tiles_, 0, panels_});
    });
    return;
  }
  parallel_for(row_tasks_ * panel_tasks_, [&](int64_t task) {
    const int64_t r = task % row_tasks_, q = task / row_tasks_;
    multiply({a, b, c, bias, residual, nullptr},
             {part_start(tiles_, row_tasks_, r), part_start(tiles_, row_tasks_, r + 1),
              part_start(panels_, panel_tasks_, q), part_start(panels_, panel_tasks_, q + 1)});
  });
}

template <class T>
int64_t panel_size(int64_t k, int64_t n) {
  const int64_t width = 2 * gemm_table<T>().lanes;
  return ceil_div(n, width) * width * k;
}

template <class T>
void pack_columns(T* panels, const T* b, ptrdiff_t k_stride, ptrdiff_t n_stride, int64_t k, int64_t n) {
  const int width = 2 * gemm_table<T>().lanes;
  gemm_table<T>().pack(panels, k * width, b, k_stride, n_stride, k, n, width);
}

template <class T>
void multiply_panels(const PanelProduct<T>& p) {
  const GemmTable<T>& table = gemm_table<T>();
  GemmTile<T> t;
  t.a_row = p.a_row;
  t.a_step = p.a_step;
  t.b_step = 2 * table.lanes;
  t.b_vector = t.c_vector = table.lanes;
  t.length = p.k;
  t.c_row = p.c_row;
  t.accumulate = p.accumulate;
  t.relu = p.relu;
  t.most = p.most;
  Ahead<T> ahead = p.ahead;
  const int64_t most = ceil_div(p.n, t.b_step) * ceil_div(p.m, table.rows);  // tiles
  if (ahead.runs == 1) ahead = {ahead.start, ceil_div(ahead.lines(), most), most * kLine<T>, most * kLine<T>};
  int64_t asked = 0;
  for (int64_t column = 0; column < p.n; column += t.b_step) {
    const int vectors = p.n - column > table.lanes ? 2 : 1;
    t.b = p.panels + column * std::max(p.k, p.packed_k);
    t.last_columns = static_cast<int>(std::min<int64_t>(p.n - column - (vectors - 1) * table.lanes, table.lanes));
    const int64_t tiles = ceil_div(p.m, vectors == 2 ? table.rows : table.rows_of_one);
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t first = p.m * i / tiles, count = p.m * (i + 1) / tiles - first;
      t.a = p.a + first * p.a_row;
      t.c = p.c + first * p.c_row + column;
      t.column_bias = p.bias ? p.bias + column : nullptr;
      t.residual = p.residual ? p.residual + first * p.c_row + column : nullptr;
      t.ahead = nullptr;
      if (asked < ahead.lines()) ahead.ask(asked++, t);
      table.tile[p.a_step == 1 ? 0 : 1][count - 1][vectors - 1](t);
    }
  }
}

template class Gemm<float>;
template class Gemm<double>;
template void multiply_panels(const PanelProduct<float>&);
template void multiply_panels(const PanelProduct<double>&);
template void pack_columns(float*, const float*, ptrdiff_t, ptrdiff_t, int64_t, int64_t);
template void pack_columns(double*, const double*, ptrdiff_t, ptrdiff_t, int64_t, int64_t);
template int64_t panel_size<float>(int64_t, int64_t);
template int64_t panel_size<double>(int64_t, int64_t);

}  // namespace freight::cpu
