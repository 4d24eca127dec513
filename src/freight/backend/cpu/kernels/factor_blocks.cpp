// See factor_blocks.h.
#include "freight/backend/cpu/kernels/factor_blocks.h"

#include <algorithm>
#include <cmath>

#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/gemm.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

// Products up to so many multiply-adds, and sums up to so long, are made on the register tile without blocking.
constexpr int64_t kSmallProduct = int64_t{1} << 18, kSmallDepth = 64;
// Below so many multiply-adds (or elements moved) a parallel region costs more than it saves.
constexpr double kSerialFactorWork = 1e6;
constexpr int64_t kColumnsOfTask = 128;  // of right sides that one chunk solves, or of rows that it exchanges
constexpr int64_t kSymmetric = 48;       // rows of a symmetric block that is computed whole

// a (m, k) b (k, n) on the register tile; columns of b that do not fill it, or are no vectors, are packed.
template <class T>
void small_product(const Subtraction<T>& s) {
  const GemmTable<T>& table = gemm_table<T>();
  const int64_t lanes = table.lanes, width = 2 * lanes;
  alignas(64) T packed[kSmallDepth * 2 * 64 / sizeof(T)];
  GemmTile<T> t;
  t.a_row = s.a_row;
  t.a_step = s.a_col;
  t.b_vector = t.c_vector = lanes;
  t.length = s.k;
  t.c_row = s.c_row;
  t.subtract = true;
  for (int64_t column = 0; column < s.n; column += width) {
    const int64_t columns = std::min(width, s.n - column);
    const int vectors = columns > lanes ? 2 : 1;
    t.last_columns = static_cast<int>(columns - (vectors - 1) * lanes);
    t.b = s.b + column * s.b_col;
    t.b_step = s.b_row;
    if (s.b_col != 1 || columns < width) {
      table.pack(packed, 0, t.b, s.b_row, s.b_col, s.k, columns, static_cast<int>(width));
      t.b = packed;
      t.b_step = width;
    }
    const int64_t tiles = ceil_div(s.m, vectors == 2 ? table.rows : table.rows_of_one);
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t first = s.m * i / tiles, count = s.m * (i + 1) / tiles - first;
      t.a = s.a + first * s.a_row;
      t.c = s.c + first * s.c_row + column;
      table.tile[s.a_col == 1 ? 0 : 1][count - 1][vectors - 1](t);
    }
  }
}

}  // namespace

int64_t half_of(int64_t n) {
  const int64_t unit = n >= 4 * 64 ? 64 : 8;
  return std::max<int64_t>(unit, (n / 2 + unit / 2) / unit * unit);
}

template <class T>
int64_t Blocks<T>::strip_size() {
  return kTriangle * 2 * factor_table<T>().lanes;
}

template <class T>
void Blocks<T>::product(const Subtraction<T>& s) {
  GemmProblem p;
  p.m = s.m;
  p.n = s.n;
  p.k = s.k;
  p.a_row = s.a_row;
  p.a_col = s.a_col;
  p.b_row = s.b_row;
  p.b_col = s.b_col;
  p.c_row = s.c_row;
  p.subtract = true;
  const Gemm<T> gemm(p);
  if (measure_) {
    measure_->product_bytes = std::max(measure_->product_bytes, gemm.scratch_bytes());
  } else {
    gemm.run(s.a, s.b, s.c, nullptr, nullptr, product_);
  }
}

template <class T>
void Blocks<T>::subtract(const Subtraction<T>& s) {
  if (s.m == 0 || s.n == 0 || s.k == 0) return;
  const bool steps = s.a_col == 1 || s.a_row == 1, columns = s.b_col == 1 || s.b_row == 1;
  if (steps && columns && s.k <= kSmallDepth && s.m * s.n * s.k <= kSmallProduct) {
    if (computes()) small_product(s);
  } else {
    product(s);
  }
}

template <class T>
void Blocks<T>::subtract_symmetric(const Subtraction<T>& s, bool upper) {
  if (s.n <= kSymmetric) return subtract(s);
  const int64_t h = half_of(s.n);
  Subtraction<T> first = s, second = s, corner = s;
  first.m = first.n = h;
  second.m = second.n = s.n - h;
  second.a += h * s.a_row;
  second.b += h * s.b_col;
  second.c += h * (s.c_row + 1);
  if (upper) {
    corner.m = h;
    corner.n = s.n - h;
    corner.b += h * s.b_col;
    corner.c += h;
  } else {
    corner.m = s.n - h;
    corner.n = h;
    corner.a += h * s.a_row;
    corner.c += h * s.c_row;
  }
  subtract_symmetric(first, upper);
  subtract(corner);
  subtract_symmetric(second, upper);
}

// An upper triangle is a lower one with its rows and columns in reverse.
template <class T>
void Blocks<T>::substitute(const Triangle<T>& t, int64_t n, T* b, ptrdiff_t b_row, int64_t columns) const {
  Substitution<T> s{t.a, t.row, t.col, t.diagonal, 1, t.divide, b, b_row, n, columns};
  if (t.upper) {
    s.a += (n - 1) * (t.row + t.col);
    s.a_row = -t.row;
    s.a_col = -t.col;
    if (s.diagonal) s.diagonal += n - 1;
    s.diagonal_step = -1;
    s.b += (n - 1) * b_row;
    s.b_row = -b_row;
  }
  factor_table<T>().substitute(s);
}

template <class T>
void Blocks<T>::solve_left(const Triangle<T>& t, int64_t n, T* b, ptrdiff_t b_row, int64_t columns) {
  // Few columns: the triangle is read once, whatever is done.
  if (n <= kTriangle || columns <= 2 * factor_table<T>().lanes) {
    if (!computes() || n == 0) return;
    const double work = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(columns) / 2;
    if (!parallel_ || work < kSerialFactorWork) return substitute(t, n, b, b_row, columns);
    parallel_for(ceil_div(columns, kColumnsOfTask), [&](int64_t i) {
      substitute(t, n, b + i * kColumnsOfTask, b_row, std::min(kColumnsOfTask, columns - i * kColumnsOfTask));
    });
    return;
  }
  const int64_t h = half_of(n);
  const Triangle<T> second = t.from(h);
  T* const b2 = b + h * b_row;
  if (t.upper) {
    solve_left(second, n - h, b2, b_row, columns);
    subtract({h, columns, n - h, t.a + h * t.col, t.row, t.col, b2, b_row, 1, b, b_row});
    solve_left(t, h, b, b_row, columns);
  } else {
    solve_left(t, h, b, b_row, columns);
    subtract({n - h, columns, h, t.a + h * t.row, t.row, t.col, b, b_row, 1, b2, b_row});
    solve_left(second, n - h, b2, b_row, columns);
  }
}

// x t = b is solved as t' x' = b', a few rows at a time.
template <class T>
void Blocks<T>::substitute_right(const Triangle<T>& t, int64_t n, T* b, ptrdiff_t b_row, int64_t rows) const {
  const FactorTable<T>& table = factor_table<T>();
  const int64_t width = 2 * table.lanes;
  T* const strip = static_cast<T*>(thread_scratch(static_cast<size_t>(strip_size()) * sizeof(T)));
  for (int64_t i = 0; i < rows; i += width) {
    const int64_t count = std::min(width, rows - i);
    table.transpose(strip, width, b + i * b_row, b_row, count, n);
    substitute(t.transposed(), n, strip, width, count);
    table.transpose(b + i * b_row, b_row, strip, width, n, count);
  }
}

template <class T>
void Blocks<T>::solve_right(const Triangle<T>& t, int64_t n, T* b, ptrdiff_t b_row, int64_t rows) {
  if (n <= kTriangle) {
    if (!computes() || n == 0) return;
    const double work = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(rows) / 2;
    if (!parallel_ || work < kSerialFactorWork) return substitute_right(t, n, b, b_row, rows);
    parallel_for(ceil_div(rows, kColumnsOfTask), [&](int64_t i) {
      substitute_right(t, n, b + i * kColumnsOfTask * b_row, b_row,
                       std::min(kColumnsOfTask, rows - i * kColumnsOfTask));
    });
    return;
  }
  const int64_t h = half_of(n);
  const Triangle<T> second = t.from(h);
  if (t.upper) {
    solve_right(t, h, b, b_row, rows);
    subtract({rows, n - h, h, b, b_row, 1, t.a + h * t.col, t.row, t.col, b + h, b_row});
    solve_right(second, n - h, b + h, b_row, rows);
  } else {
    solve_right(second, n - h, b + h, b_row, rows);
    subtract({rows, h, n - h, b + h, b_row, 1, t.a + h * t.row, t.row, t.col, b, b_row});
    solve_right(t, h, b, b_row, rows);
  }
}

template <class T>
void Blocks<T>::exchange(T* a, ptrdiff_t row, int64_t columns, const int32_t* pivots, int64_t count) {
  if (!computes() || columns == 0) return;
  const auto& table = factor_table<T>();
  if (!parallel_ || static_cast<double>(columns * count) < kSerialFactorWork)
    return table.exchange(a, row, columns, pivots, count);
  parallel_for(ceil_div(columns, kColumnsOfTask), [&](int64_t i) {
    const int64_t first = i * kColumnsOfTask;
    table.exchange(a + first, row, std::min(kColumnsOfTask, columns - first), pivots, count);
  });
}

template <class T>
bool invert_diagonal(const T* a, ptrdiff_t step, int64_t n, T* to) {
  bool overflows = false;
  for (int64_t i = 0; i < n; ++i) {
    to[i] = T(1) / a[i * step];
    overflows = overflows || (std::isinf(to[i]) && a[i * step] != T(0));
  }
  for (int64_t i = 0; i < n && overflows; ++i) to[i] = a[i * step];
  return overflows;
}

template class Blocks<float>;
template class Blocks<double>;
template bool invert_diagonal(const float*, ptrdiff_t, int64_t, float*);
template bool invert_diagonal(const double*, ptrdiff_t, int64_t, double*);

}  // namespace freight::cpu
