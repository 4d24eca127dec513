// QR: panels of columns by Householder reflections, each panel by halves (Elmroth and Gustavson 2000). A product of
// reflections is I - V T V' (Schreiber and Van Loan 1989), which Gemm applies. T itself is never made: its inverse is
// the upper triangle of V' V with 1 / tau on the diagonal (Puglisi 1992), so that a triangular solve applies it.
// See factor.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/factor.h"
#include "freight/backend/cpu/kernels/factor_tasks.h"

namespace freight::cpu {

namespace {

// Reflections of one panel: the more, the less often a product reads the columns behind it.
constexpr int64_t kReflections = 32, kMostReflections = 64, kManyColumns = 400;
// Columns whose reflections are applied one by one.
constexpr int64_t kSingleReflections = 16;

// Scales x (n) by a power of two such that its squares neither overflow nor vanish; returns by which.
template <class T>
T scale_column(T* x, int64_t n) {
  T largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(x[i]));
  int exponent = 0;
  if (largest == T(0) || !std::isfinite(largest)) return T(1);
  std::frexp(largest, &exponent);
  const int shift = std::min(-exponent, std::numeric_limits<T>::max_exponent - 2);
  const T scale = std::ldexp(T(1), shift);
  for (int64_t i = 0; i < n; ++i) x[i] *= scale;
  return scale;
}

// The reflection I - tau v v' that makes all of x (n) but its first element zero: x becomes v, whose first element is
// 1, and `beta` what that element becomes.
template <class T>
T reflection(T* x, int64_t n, T& beta) {
  const FactorTable<T>& table = factor_table<T>();
  constexpr T kLeast = std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon();
  T squares = table.squares(x + 1, n - 1), scale = 1;
  const T all = squares + x[0] * x[0];
  if (!(squares >= kLeast && all <= std::numeric_limits<T>::max())) {
    if (std::all_of(x + 1, x + n, [](T v) { return v == T(0); })) {
      beta = x[0];
      x[0] = T(1);
      return T(0);
    }
    scale = scale_column(x, n);
    squares = table.squares(x + 1, n - 1);
  }
  const T alpha = x[0], norm = std::sqrt(alpha * alpha + squares);
  const T signed_norm = std::signbit(alpha) ? norm : -norm;
  const T factor = T(1) / (alpha - signed_norm);
  x[0] = T(1);
  for (int64_t i = 1; i < n; ++i) x[i] *= factor;
  beta = signed_norm / scale;
  return (signed_norm - alpha) / signed_norm;
}

}  // namespace

// One task's scratch memory.
template <class T>
struct QrFactor<T>::Memory {
  T* work = nullptr;     // (m, n): x, and in the end r above its diagonal
  T* vectors = nullptr;  // (k, stride): the reflections as rows, with their zeros and ones
  T* taus = nullptr;     // (k), negative
  T* cross = nullptr;    // (k, panel_): of each panel -V' V above its diagonal
  T* sums = nullptr;     // (panel_, the most columns)
  char* product = nullptr;
  size_t bytes = 0;

  Memory(const QrFactor& f, char* from) {
    const auto take = [&](int64_t count) {
      T* const at = from ? reinterpret_cast<T*>(from + bytes) : nullptr;
      bytes += whole_lines(static_cast<size_t>(count) * sizeof(T));
      return at;
    };
    work = take(f.m_ * f.n_);
    vectors = take(f.least_ * f.stride_);
    taus = take(f.least_);
    cross = take(f.least_ * f.panel_);
    sums = take(f.panel_ * std::max(f.n_, f.q_columns_));
    product = from ? from + bytes : nullptr;
  }
};

// The reflections of columns [first, first + width), which change rows from `first` on.
template <class T>
struct QrFactor<T>::Panel {
  int64_t first, width, rows;
  T *vectors, *taus, *cross;

  Panel(const QrFactor& f, const Memory& memory, int64_t begin)
      : first(begin),
        width(std::min(f.panel_, f.least_ - begin)),
        rows(f.m_ - begin),
        vectors(memory.vectors ? memory.vectors + begin * f.stride_ : nullptr),
        taus(memory.taus ? memory.taus + begin : nullptr),
        cross(memory.cross ? memory.cross + begin * f.panel_ : nullptr) {}

  // The inverse of T with all signs changed, from reflection `at` on. It solves for right sides whose signs are
  // changed, too, since blocks subtract products; and a tau of 0 makes its row 0, as T would.
  Triangle<T> inverse(int64_t at) const { return Triangle<T>{cross, width, 1, true, taus}.from(at); }
};

// One thread factorizes a matrix of fewer multiply-adds (f64: 448 columns), as with LU.
template <class T>
constexpr double kSharedQr = 1.8e8 * (sizeof(double) / sizeof(T));

template <class T>
QrFactor<T>::QrFactor(int64_t m, int64_t n, int64_t batch, bool complete, const MatrixStrides& x)
    : m_(m), n_(n), least_(std::min(m, n)), q_columns_(complete ? m : least_), x_(x) {
  panel_ = least_ < kManyColumns ? kReflections : kMostReflections;
  const int64_t lanes = factor_table<T>().lanes;
  stride_ = ceil_div(m, lanes) * lanes + (m % 512 == 0 ? lanes : 0);
  const double columns = static_cast<double>(least_), rows = static_cast<double>(m);
  tasks_ = batch_tasks(batch, columns * rows * static_cast<double>(n_ + q_columns_), kSharedQr<T>);
  typename Blocks<T>::Measure measure;
  Blocks<T> blocks(measure);
  T nothing{};
  Memory memory(*this, nullptr);
  const size_t bytes = memory.bytes;
  memory.work = memory.vectors = memory.taus = memory.cross = memory.sums = &nothing;
  one(nullptr, &nothing, nullptr, blocks, memory);
  tasks_.bytes_of_task = bytes + whole_lines(measure.product_bytes);
}

template <class T>
void QrFactor<T>::run(const T* x, T* q, T* r, void* scratch) const {
  const int64_t r_rows = q_columns_;
  for_matrices(tasks_, scratch, [&](int64_t i, char* own, bool parallel) {
    const Memory memory(*this, own);
    Blocks<T> blocks(memory.product, parallel);
    one(x + i * x_.batch, q + i * m_ * q_columns_, r + i * r_rows * n_, blocks, memory);
  });
}

template <class T>
void QrFactor<T>::one(const T* x, T* q, T* r, Blocks<T>& blocks, const Memory& memory) const {
  if (blocks.computes()) read_matrix(memory.work, x, x_, m_, n_, blocks.parallel());
  for (int64_t j = 0; j < least_; j += panel_) {
    const Panel panel(*this, memory, j);
    eliminate(panel, memory, blocks);
    const int64_t behind = j + panel.width;
    apply(panel, memory.work + j * n_ + behind, n_, n_ - behind, memory, blocks);
  }
  if (blocks.computes()) {
    for (int64_t i = 0; i < q_columns_; ++i) {
      const int64_t zeros = std::min(i, n_);
      std::fill_n(r + i * n_, zeros, T(0));
      std::copy(memory.work + i * n_ + zeros, memory.work + (i + 1) * n_, r + i * n_ + zeros);
    }
    std::fill_n(q, m_ * q_columns_, T(0));
    for (int64_t i = 0; i < q_columns_; ++i) q[i * (q_columns_ + 1)] = T(1);
  }
  for (int64_t j = (ceil_div(least_, panel_) - 1) * panel_; j >= 0; j -= panel_) {
    const Panel panel(*this, memory, j);
    apply_to_ones(panel, q + j * (q_columns_ + 1), q_columns_, q_columns_ - j, memory, blocks);
  }
}

// Makes V, taus and V' V of the panel, and its part of r.
template <class T>
void QrFactor<T>::eliminate(const Panel& panel, const Memory& memory, Blocks<T>& blocks) const {
  if (blocks.computes()) {
    factor_table<T>().transpose(panel.vectors, stride_, memory.work + panel.first * (n_ + 1), n_, panel.rows,
                                panel.width);
    std::fill_n(panel.cross, panel.width * panel.width, T(0));
  }
  eliminate_columns(panel, 0, panel.width, memory, blocks);
}

// Columns [first, first + count) of the panel, to which the reflections before are applied.
template <class T>
void QrFactor<T>::eliminate_columns(const Panel& panel, int64_t first, int64_t count, const Memory& memory,
                                    Blocks<T>& blocks) const {
  const int64_t w = panel.width, rows = panel.rows - first;
  T *const left = panel.vectors + first * (stride_ + 1), *const cross = panel.cross + first * (w + 1);
  if (count <= kSingleReflections) {
    if (blocks.computes()) reflect_columns(panel, first, count, memory);
    blocks.subtract({count, count, rows, left, stride_, 1, left, 1, stride_, cross, w});
    return;
  }
  const int64_t h = (count / 2 + 7) / 8 * 8, others = count - h;
  T *const right = left + h * stride_, *const sums = memory.sums;  // (h, others)
  eliminate_columns(panel, first, h, memory, blocks);
  if (blocks.computes()) std::fill_n(sums, h * others, T(0));
  blocks.subtract({h, others, rows, left, stride_, 1, right, 1, stride_, sums, others});
  blocks.solve_left(panel.inverse(first).transposed(), h, sums, others, others);
  blocks.subtract({others, rows, h, sums, 1, others, left, stride_, 1, right, stride_});
  eliminate_columns(panel, first + h, others, memory, blocks);
  blocks.subtract({h, others, rows - h, left + h, stride_, 1, right + h, 1, stride_, cross + h, w});
}

template <class T>
void QrFactor<T>::reflect_columns(const Panel& panel, int64_t first, int64_t count, const Memory& memory) const {
  T* const x = memory.work + panel.first * (n_ + 1);
  for (int64_t j = first; j < first + count; ++j) {
    T* const column = panel.vectors + j * stride_;
    T beta = 0;
    const T tau = reflection(column + j, panel.rows - j, beta);
    factor_table<T>().reflect(column + stride_ + j, stride_, first + count - 1 - j, column + j, tau, panel.rows - j);
    for (int64_t i = 0; i < j; ++i) x[i * n_ + j] = column[i];
    x[j * n_ + j] = beta;
    std::fill_n(column, j, T(0));
    panel.taus[j] = -tau;
  }
}

// c (rows of the panel, columns) -= V T' V' c.
template <class T>
void QrFactor<T>::apply(const Panel& panel, T* c, ptrdiff_t c_row, int64_t columns, const Memory& memory,
                        Blocks<T>& blocks) const {
  if (columns == 0) return;
  const int64_t w = panel.width;
  T* const sums = memory.sums;
  if (blocks.computes()) std::fill_n(sums, w * columns, T(0));
  blocks.subtract({w, columns, panel.rows, panel.vectors, stride_, 1, c, c_row, 1, sums, columns});
  blocks.solve_left(panel.inverse(0).transposed(), w, sums, columns, columns);
  blocks.subtract({panel.rows, columns, w, panel.vectors, 1, stride_, sums, columns, 1, c, c_row});
}

// c (rows of the panel, columns) -= V T V' c, where the first rows and columns, as many as there are reflections, are
// still those of the unit matrix.
template <class T>
void QrFactor<T>::apply_to_ones(const Panel& panel, T* c, ptrdiff_t c_row, int64_t columns, const Memory& memory,
                                Blocks<T>& blocks) const {
  const int64_t w = panel.width;
  T* const sums = memory.sums;
  if (blocks.computes()) {
    std::fill_n(sums, w * columns, T(0));
    for (int64_t i = 0; i < w; ++i) {
      for (int64_t k = i; k < w; ++k) sums[i * columns + k] = -panel.vectors[i * stride_ + k];
    }
  }
  blocks.subtract({w, columns - w, panel.rows - w, panel.vectors + w, stride_, 1, c + w * (c_row + 1), c_row, 1,
                   sums + w, columns});
  blocks.solve_left(panel.inverse(0), w, sums, columns, columns);
  blocks.subtract({panel.rows, columns, w, panel.vectors, 1, stride_, sums, columns, 1, c, c_row});
}

template class QrFactor<float>;
template class QrFactor<double>;

}  // namespace freight::cpu
