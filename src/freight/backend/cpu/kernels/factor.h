// LU, Cholesky and QR factorizations and triangular solves of row-major matrices, f32 and f64: recursive over halves of
// the columns (Toledo 1997, Elmroth and Gustavson 2000), so that nearly all arithmetic is that of Gemm; an LU of some
// hundred columns goes panel by panel, so that no thread waits while one factorizes, and a Cholesky factorization
// column block by column block. Each object is one problem, made when the plan is made; a run allocates nothing, and
// its bits do not depend on the number of threads. Many small matrices go by lane_factor.h: each lane of a vector
// computes its own one.
#pragma once
#include <cstddef>
#include <cstdint>

#include "freight/backend/cpu/kernels/factor_blocks.h"

namespace freight::cpu {

// The places of an operand's matrices: element (i, k) of matrix b is x[b * batch + i * row + k * col], where one of row
// and col is 1. Whatever lies otherwise than row by row is read so into the place of the result.
struct MatrixStrides {
  ptrdiff_t row, col, batch;
  static MatrixStrides row_major(int64_t m, int64_t n) { return {n, 1, m * n}; }
  bool operator==(const MatrixStrides&) const = default;
};

// The matrices of a batch are shared by threads: each takes whole ones, or all work on one after the other.
struct BatchTasks {
  int64_t batch = 1, tasks = 1;
  bool inside = false;       // parallel within one matrix
  size_t bytes_of_task = 0;  // of scratch memory
  size_t bytes() const { return static_cast<size_t>(tasks) * bytes_of_task; }
};

// x (batch, m, n) becomes lu, which may be x if it is row-major: U on and above the diagonal, L below it, where it
// is 1.
template <class T>
class LuFactor {
 public:
  LuFactor(int64_t m, int64_t n, int64_t batch) : LuFactor(m, n, batch, MatrixStrides::row_major(m, n)) {}
  LuFactor(int64_t m, int64_t n, int64_t batch, const MatrixStrides& x);
  size_t scratch_bytes() const { return tasks_.bytes(); }
  bool interleaved() const { return lanes_ > 0; }
  // pivots (batch, min(m, n)): row i was exchanged with row pivots[i]; permutation (batch, m): x[permutation] = L U.
  // False: no pivot is 0.
  bool run(const T* x, T* lu, int32_t* pivots, int32_t* permutation, void* scratch) const;

 private:
  void one(T* x, int32_t* pivots, int32_t* permutation, Blocks<T>& blocks, T* panel) const;
  void panels(T* x, ptrdiff_t row, int64_t m, int64_t n, int32_t* pivots, Blocks<T>& blocks, T* panel) const;
  void columns(T* x, ptrdiff_t row, int64_t m, int64_t n, int32_t* pivots, Blocks<T>& blocks, T* panel) const;
  void halves(T* x, ptrdiff_t row, int64_t m, int64_t n, int32_t* pivots, Blocks<T>& blocks, T* panel) const;

  int64_t m_, n_, batch_, lanes_ = 0;
  MatrixStrides x_;
  BatchTasks tasks_;  // of matrices, or of groups of as many as there are lanes
  size_t panel_bytes_ = 0;
};

// The first matrix of a batch that has a pivot of 0, and which; `matrix` -1: there is none.
struct ZeroPivot {
  int64_t matrix = -1, pivot = 0;
};

// Many small systems a x = b: a (batch, n, n), b and x (batch, n, k), which may be one if b is row-major.
template <class T>
class LaneSystems {
 public:
  LaneSystems(int64_t n, int64_t k, int64_t batch)
      : LaneSystems(n, k, batch, MatrixStrides::row_major(n, n), MatrixStrides::row_major(n, k)) {}
  LaneSystems(int64_t n, int64_t k, int64_t batch, const MatrixStrides& a, const MatrixStrides& b);
  static bool takes(int64_t n, int64_t k, int64_t batch);
  size_t scratch_bytes() const { return tasks_.bytes(); }
  ZeroPivot run(const T* a, const T* b, T* x, void* scratch) const;

 private:
  int64_t n_, k_, batch_;
  MatrixStrides a_, b_;
  size_t lane_bytes_ = 0;  // of a task's memory, in front of what a group's strided operands become
  BatchTasks tasks_;
};

// The first matrix of a batch that is not positive definite, and its first such leading minor, from 1; `matrix` -1:
// there is none.
struct NotPositive {
  int64_t matrix = -1, minor = 0;
};

// x (batch, n, n) becomes its factor, which may be x if it is row-major: L of x = L L^T, or U of x = U^T U; the other
// triangle becomes 0.
template <class T>
class CholeskyFactor {
 public:
  CholeskyFactor(int64_t n, int64_t batch, bool upper)
      : CholeskyFactor(n, batch, upper, MatrixStrides::row_major(n, n)) {}
  CholeskyFactor(int64_t n, int64_t batch, bool upper, const MatrixStrides& x);
  size_t scratch_bytes() const { return tasks_.bytes(); }
  bool interleaved() const { return lanes_ > 0; }
  NotPositive run(const T* x, T* factor, void* scratch) const;

 private:
  struct Memory;
  // All give the first minor that is not positive, or 0.
  int64_t one(const T* x, T* factor, const Blocks<T>& blocks, const Memory& memory) const;
  int64_t packed(const T* x, const MatrixStrides& strides, T* factor, int64_t n, const Blocks<T>& blocks,
                 const Memory& memory) const;
  int64_t halves(T* x, int64_t n, Blocks<T>& blocks, const Memory& memory) const;

  int64_t n_, batch_, lanes_ = 0;
  bool upper_;
  MatrixStrides x_;
  BatchTasks tasks_;  // of matrices, or of groups of as many as there are lanes
};

// op(a) x = b, or x op(a) = b.
struct TriangularProblem {
  int64_t n = 0;      // of a
  int64_t other = 0;  // b's other extent
  int64_t batch = 1;
  ptrdiff_t a_row = 0, a_col = 1, a_batch = 0;  // of op(a)
  bool upper = false;                           // op(a) is
  bool unit_diagonal = false, right = false;
};

template <class T>
class TriangularSolve {
 public:
  explicit TriangularSolve(const TriangularProblem& problem);
  // True where many small systems are solved together: their triangles must lie densely.
  static bool interleaves(const TriangularProblem& problem);
  size_t scratch_bytes() const { return tasks_.bytes(); }
  bool interleaved() const { return lanes_ > 0; }
  // b becomes x.
  void run(const T* a, T* b, void* scratch) const;

 private:
  void one(const T* a, T* b, Blocks<T>& blocks, T* diagonal) const;

  TriangularProblem p_;
  int64_t lanes_ = 0;
  BatchTasks tasks_;  // of matrices, or of groups of as many as there are lanes
};

// x (batch, m, n) = q r by Householder reflections with LAPACK's signs: q (batch, m, k) and r (batch, k, n) with
// k = min(m, n), or m where complete.
template <class T>
class QrFactor {
 public:
  QrFactor(int64_t m, int64_t n, int64_t batch, bool complete)
      : QrFactor(m, n, batch, complete, MatrixStrides::row_major(m, n)) {}
  QrFactor(int64_t m, int64_t n, int64_t batch, bool complete, const MatrixStrides& x);
  size_t scratch_bytes() const { return tasks_.bytes(); }
  void run(const T* x, T* q, T* r, void* scratch) const;

 private:
  struct Memory;
  struct Panel;
  void one(const T* x, T* q, T* r, Blocks<T>& blocks, const Memory& memory) const;
  void eliminate(const Panel& panel, const Memory& memory, Blocks<T>& blocks) const;
  void eliminate_columns(const Panel& panel, int64_t first, int64_t count, const Memory& memory,
                         Blocks<T>& blocks) const;
  void reflect_columns(const Panel& panel, int64_t first, int64_t count, const Memory& memory) const;
  void apply(const Panel& panel, T* c, ptrdiff_t c_row, int64_t columns, const Memory& memory, Blocks<T>& blocks) const;
  void apply_to_ones(const Panel& panel, T* c, ptrdiff_t c_row, int64_t columns, const Memory& memory,
                     Blocks<T>& blocks) const;

  int64_t m_, n_, least_, q_columns_, panel_ = 0, stride_;
  MatrixStrides x_;
  BatchTasks tasks_;
};

}  // namespace freight::cpu
