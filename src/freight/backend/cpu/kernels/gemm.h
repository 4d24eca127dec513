// f32 and f64 matrix products of any strides on the register tile of gemm_tile.h, with bias, residual, relu and a bound
// in the epilogue.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "freight/backend/cpu/kernels/gemm_tile.h"

namespace freight::cpu {

// c (m, n) = a (m, k) b (k, n), for each of `batch` matrices. Strides in elements. Rows of c may lie further apart than
// they are long: nothing between them is written, so that a block of a larger matrix can be updated in place.
struct GemmProblem {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  ptrdiff_t a_row = 0, a_col = 1, b_row = 0, b_col = 1, c_row = 0;  // columns of c are contiguous
  ptrdiff_t a_batch = 0, b_batch = 0, c_batch = 0;
  bool accumulate = false, subtract = false;  // c += a b, c -= a b; not both
  bool relu = false;
  double most = std::numeric_limits<double>::infinity();  // larger results become it
  bool stream = false;                                    // the result is larger than the caches: it passes them by
  bool packed = false;                                    // b is what pack_columns left; its strides do not count
};

// Memory that will be read and is asked for meanwhile: `runs` stretches of `length` numbers, `stride` apart.
template <class T>
struct Ahead {
  static constexpr int64_t kLine = 64 / sizeof(T);  // numbers of a cache line
  const T* start = nullptr;
  int64_t runs = 0, length = 0;
  ptrdiff_t stride = 0;
  int64_t lines() const { return start ? (length + kLine - 1) / kLine : 0; }
  // A tile asks for line i of each stretch, at one step after the other.
  void ask(int64_t i, GemmTile<T>& tile) const {
    tile.ahead = start + i * kLine;
    tile.ahead_step = stride;
    tile.ahead_count = runs;
  }
};

// T: float or double. A product keeps packed blocks in the thread's scratch memory (scratch.h) while it runs: operands
// must not lie there.
template <class T>
class Gemm {
 public:
  explicit Gemm(const GemmProblem& problem);
  // bias (n) and residual (like c) may be null. `scratch` has scratch_bytes() bytes.
  void run(const T* a, const T* b, T* c, const T* bias, const T* residual, void* scratch) const;
  size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  struct Call;
  struct ResultBlock;  // of the result: rows and panels as computed
  void cut(int64_t threads);
  int64_t panel_stride(int64_t steps) const;
  int64_t pack_panels(const Call& call, int64_t panel0, int64_t panel1, int64_t k0, int64_t steps, T* to) const;
  std::pair<Ahead<T>, Ahead<T>> packed_next(const Call& call, const ResultBlock& part, int64_t tile1, int64_t panel0,
                                            int64_t panel1, int64_t k0) const;
  void multiply(const Call& call, const ResultBlock& part) const;
  void multiply_flipped(const Call& call, int64_t row0, int64_t row1) const;

  GemmProblem p_;
  // Few rows by a matrix whose columns do not lie in vectors: its columns are broadcast, and c's tiles are transposed.
  bool flipped_ = false;
  int64_t m_ = 0, n_ = 0;  // of the product as computed: rows are broadcast, columns lie in vectors
  int64_t rows_ = 0, width_ = 0, tiles_ = 0, panels_ = 0;
  int64_t k_block_ = 0, tile_block_ = 0, panel_block_ = 0;  // that are worked on while they are in a cache
  // Rows of a few tiles by a matrix that is larger than the cache: what counts is how it is read.
  bool few_ = false;
  bool pack_columns_ = false, pack_rows_ = false;
  int64_t row_tasks_ = 1, panel_tasks_ = 1;
  size_t scratch_bytes_ = 0, thread_bytes_ = 0;
};

// For products inside other kernels: c (m, n) = a (m, k) b (k, n), or c + a b, on the calling thread. One of a's
// strides is 1; b lies in panels.
template <class T>
struct PanelProduct {
  const T* a;
  ptrdiff_t a_row, a_step;
  const T* panels;
  T* c;
  ptrdiff_t c_row;
  int64_t m, n, k;
  bool accumulate;
  int64_t packed_k = 0;  // of the panels, where they hold more than the k steps that are taken
  Ahead<T> ahead = {};
  // The epilogue. A bias for each column; all of a panel's can be read. The residual lies like c.
  const T *bias = nullptr, *residual = nullptr;
  bool relu = false;
  T most = std::numeric_limits<T>::infinity();
};
template <class T = float>
void multiply_panels(const PanelProduct<T>& p);
// Packs b (k, n) for it; one of the strides is 1.
template <class T>
void pack_columns(T* panels, const T* b, ptrdiff_t k_stride, ptrdiff_t n_stride, int64_t k, int64_t n);
// Numbers of the panels.
template <class T = float>
int64_t panel_size(int64_t k, int64_t n);

}  // namespace freight::cpu
