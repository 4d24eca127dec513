// The SIMD loops behind factorizations and triangular solves (factor.h), in f32 and f64: a few columns of a panel that
// lie together, a strip of right sides that is substituted, and rows that are exchanged. Matrices are row-major.
// Chosen per CPU by Highway.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace freight::cpu {

// a x = b for lower triangular a (n, n), forwards, over b (n, columns) in place. Strides may be negative: an upper
// triangle is a lower one that is read from its end.
template <class T>
struct Substitution {
  const T* a = nullptr;
  ptrdiff_t a_row = 0, a_col = 1;
  // The diagonal is read here and not in `a`: its reciprocals, or where one of those would overflow its elements
  // themselves (`divide`); null: ones.
  const T* diagonal = nullptr;
  ptrdiff_t diagonal_step = 1;
  bool divide = false;
  T* b = nullptr;
  ptrdiff_t b_row = 0;
  int64_t n = 0, columns = 0;
};

template <class T>
struct FactorTable {
  static constexpr int kColumns = 8;  // the most of one call of lu_columns
  int lanes = 0;
  // dst[j * dst_row + i] = src[i * src_row + j].
  void (*transpose)(T* dst, ptrdiff_t dst_row, const T* src, ptrdiff_t src_row, int64_t rows, int64_t columns);
  // LU with partial pivoting of `width` columns that lie `stride` apart, a multiple of a vector; behind `rows` elements
  // each is filled up with zeros. Row j was exchanged with row pivots[j].
  void (*lu_columns)(T* columns, ptrdiff_t stride, int64_t rows, int width, int32_t* pivots);
  // Cholesky of n columns, of which c holds the rows of two vectors each: element (i, k) is c[2 k lanes + i]. Numbers
  // above the diagonal are not read and become any. Gives the first minor that is not positive, from 1, or 0.
  int64_t (*cholesky_panel)(T* c, int64_t n, T* reciprocals);
  void (*substitute)(const Substitution<T>& s);
  // Exchanges rows j and pivots[j] of a (.., columns), for j in order.
  void (*exchange)(T* a, ptrdiff_t row, int64_t columns, const int32_t* pivots, int64_t count);
  // Sum of squares of x (n).
  T (*squares)(const T* x, int64_t n);
  // y_c -= factor * (v . y_c) v for `count` vectors y that lie `stride` apart.
  void (*reflect)(T* y, ptrdiff_t stride, int64_t count, const T* v, T factor, int64_t n);
};

const FactorTable<float>& factor_table_f32();
const FactorTable<double>& factor_table_f64();
template <class T>
const FactorTable<T>& factor_table() {
  if constexpr (std::is_same_v<T, float>) {
    return factor_table_f32();
  } else {
    return factor_table_f64();
  }
}

}  // namespace freight::cpu
