// The factorizations (factor.h) consist of these: products that are subtracted, triangular solves by halves, exchanges
// of rows. A block of a row-major matrix is an address and the step from row to row. Nothing here allocates.
#pragma once
#include <cstddef>
#include <cstdint>

#include "freight/backend/cpu/kernels/factor_tile.h"

namespace freight::cpu {

// The triangle of a matrix as it multiplies: element (i, k) is a[i * row + k * col], so that a transposed one has its
// strides exchanged. The diagonal is as in Substitution.
template <class T>
struct Triangle {
  const T* a = nullptr;
  ptrdiff_t row = 0, col = 1;
  bool upper = false;
  const T* diagonal = nullptr;
  bool divide = false;

  // The triangle from row and column `at` on.
  Triangle from(int64_t at) const {
    return {a + at * (row + col), row, col, upper, diagonal ? diagonal + at : nullptr, divide};
  }
  Triangle transposed() const { return {a, col, row, !upper, diagonal, divide}; }
};

// c (m, n) -= a (m, k) b (k, n); columns of c are contiguous.
template <class T>
struct Subtraction {
  int64_t m, n, k;
  const T* a;
  ptrdiff_t a_row, a_col;
  const T* b;
  ptrdiff_t b_row, b_col;
  T* c;
  ptrdiff_t c_row;
};

template <class T>
class Blocks {
 public:
  static constexpr int64_t kTriangle = 64;  // rows of a triangle that one call of the SIMD loops solves

  // The needs of a run, found by going through one without computing anything.
  struct Measure {
    size_t product_bytes = 0;
  };
  explicit Blocks(Measure& measure) : measure_(&measure) {}
  // `product` has the measured bytes; `parallel`: may start parallel regions.
  Blocks(void* product, bool parallel) : product_(product), parallel_(parallel) {}

  bool computes() const { return !measure_; }
  bool parallel() const { return parallel_; }
  // The same on the calling thread alone.
  Blocks serial() const {
    Blocks b = *this;
    b.parallel_ = false;
    return b;
  }
  void subtract(const Subtraction<T>& s);
  // The same where c (n, n) is symmetric and b is a transposed: only the lower (upper) triangle of c need be right.
  void subtract_symmetric(const Subtraction<T>& s, bool upper);
  // t x = b for b (n, columns), and x t = b for b (rows, n), in place.
  void solve_left(const Triangle<T>& t, int64_t n, T* b, ptrdiff_t b_row, int64_t columns);
  void solve_right(const Triangle<T>& t, int64_t n, T* b, ptrdiff_t b_row, int64_t rows);
  // FactorTable::exchange.
  void exchange(T* a, ptrdiff_t row, int64_t columns, const int32_t* pivots, int64_t count);

  // Numbers of the calling thread's scratch memory that solve_right takes.
  static int64_t strip_size();

 private:
  void product(const Subtraction<T>& s);
  void substitute(const Triangle<T>& t, int64_t n, T* b, ptrdiff_t b_row, int64_t columns) const;
  void substitute_right(const Triangle<T>& t, int64_t n, T* b, ptrdiff_t b_row, int64_t rows) const;

  Measure* measure_ = nullptr;
  void* product_ = nullptr;
  bool parallel_ = false;
};

// The reciprocals of a diagonal, or where one overflows its elements; `divide` says which.
template <class T>
bool invert_diagonal(const T* a, ptrdiff_t step, int64_t n, T* to);

// A block of n columns is halved behind so many: a multiple of the columns of one elimination.
int64_t half_of(int64_t n);

}  // namespace freight::cpu
