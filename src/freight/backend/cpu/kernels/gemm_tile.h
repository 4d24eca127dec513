// The register tile behind matmul and the small-channel convolutions, in f32 and in f64: an outer-product loop that
// holds rows x vectors of the result in registers. One side is broadcast element by element ("rows"), the other is read
// in vectors
// ("columns"). The sum runs over `segments` stretches of `length` steps, so that a convolution window needs no copy.
// Chosen per CPU by Highway.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace freight::cpu {

template <class T>
struct GemmTile {
  // Row side: element of row i at step j of segment s is a[i * a_row + s * a_segment + j * a_step].
  const T* a = nullptr;
  ptrdiff_t a_row = 1, a_segment = 0, a_step = 1;
  // Column side: vector v at step j of segment s starts at b[v * b_vector + s * b_segment + j * b_step].
  const T* b = nullptr;
  ptrdiff_t b_vector = 0, b_segment = 0, b_step = 1;
  int64_t segments = 1, length = 0;
  // A later tile reads this: at each of so many steps a line of it is asked for, the next one so far on; null: nothing.
  const T* ahead = nullptr;
  ptrdiff_t ahead_step = 0;
  int64_t ahead_count = 0;
  // Result: row i, vector v at c[i * c_row + v * c_vector]; `columns` of the last vector's lanes are stored.
  T* c = nullptr;
  ptrdiff_t c_row = 0, c_vector = 0;
  int last_columns = 0;
  // Rows that may be stored with a whole last vector because what lies behind is written later.
  int whole_rows = 0;
  // Before storing: what c holds + the sum, or - the sum, + bias, + residual (at c's offsets), relu, at most `most`.
  bool accumulate = false, subtract = false, relu = false;
  T most = std::numeric_limits<T>::infinity();
  bool stream = false;             // whole vectors pass the caches by: c's lie at multiples of a vector
  const T* column_bias = nullptr;  // one per column, at v * c_vector; whole vectors can be read
  const T* row_bias = nullptr;     // one per row
  const T* residual = nullptr;
};

template <class T>
using GemmTileFn = void (*)(const GemmTile<T>&);

template <class T>
struct GemmTable {
  static constexpr int kMaxRows = 12;
  int rows = 0, rows_of_one = 0;  // rows of the largest tile with two vectors and with one
  int lanes = 0;                  // numbers per vector
  // [0]: steps are contiguous (a_step 1), rows anywhere; [1]: rows are contiguous (a_row 1), steps anywhere.
  // Then rows - 1, then vectors - 1.
  GemmTileFn<T> tile[2][kMaxRows][2];
  // Groups of `width` columns, side by side in src, `group` apart in dst; the last one is filled up with zeros:
  // dst[g * group + k * width + j] = src[k * k_stride + (g * width + j) * j_stride]; fast where a stride is 1.
  void (*pack)(T* dst, ptrdiff_t group, const T* src, ptrdiff_t k_stride, ptrdiff_t j_stride, int64_t steps,
               int64_t columns, int width);
};
// Of the processor.
const GemmTable<float>& gemm_table_f32();
const GemmTable<double>& gemm_table_f64();
// While one lives, f32 products are prepared and computed with another table: so that tests reach those of other
// processors.
class ForcedGemmTable {
 public:
  explicit ForcedGemmTable(const GemmTable<float>& table) { forced_ = &table; }
  ~ForcedGemmTable() { forced_ = nullptr; }
  ForcedGemmTable(const ForcedGemmTable&) = delete;
  ForcedGemmTable& operator=(const ForcedGemmTable&) = delete;
  static const GemmTable<float>* table() { return forced_; }

 private:
  static inline const GemmTable<float>* forced_ = nullptr;
};
template <class T = float>
const GemmTable<T>& gemm_table() {
  if constexpr (std::is_same_v<T, float>) {
    const GemmTable<float>* const forced = ForcedGemmTable::table();
    return forced ? *forced : gemm_table_f32();
  } else {
    return gemm_table_f64();
  }
}

}  // namespace freight::cpu
