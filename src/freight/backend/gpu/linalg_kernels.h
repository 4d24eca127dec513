// The kernels that linear algebra is made of (linalg.cpp puts them in order): one work-group for a matrix, or for some
// columns of it, and every sum in one order, so that the same matrix gives the same bits. They read and write matrices
// that lie with any strides. Small matrices stay in local memory from the first step to the last.
#pragma once
#include <cstdint>

#include "freight/backend/gpu/launch.h"
#include "freight/base/dtype.h"

namespace freight::gpu {

// Rows and columns of the blocks that large matrices are cut into.
constexpr int64_t kFactorBlock = 32;

// Matrices of a batch in an operand of the step (Argument::operand), `offset` bytes from its beginning. Strides in
// elements: from row to row, from column to column, from matrix to matrix.
struct MatrixBatch {
  int operand = 0;
  DType dtype = DType::f32;
  int64_t count = 1, rows = 0, columns = 0;
  int64_t row = 0, column = 1, apart = 0;
  size_t offset = 0;

  MatrixBatch transposed() const;
  // That part of every matrix which begins at row i, column j.
  MatrixBatch block(int64_t i, int64_t j, int64_t block_rows, int64_t block_columns) const;
  // Rows and columns in the opposite order, which makes an upper triangle a lower one.
  MatrixBatch reversed() const;
};
// Matrices row by row without gaps.
MatrixBatch dense_batch(int operand, DType dtype, int64_t count, int64_t rows, int64_t columns, size_t offset = 0);

// A matrix may take so much of a group's local memory: every OpenCL device has 32 KiB of it, every CUDA device 48 KiB
// that a kernel need not ask for. What is left is for sums.
constexpr int64_t kLocalBytes = 28 << 10, kMostLocalBytes = 44 << 10;
// True where a matrix of so many numbers fits into `bytes`, so that one kernel factorizes it.
bool fits_local(DType dtype, int64_t rows, int64_t columns, int64_t bytes = kLocalBytes);

// Elements that a copy takes; the others become 0.
enum class Triangle { all, lower, upper };
Launch copy_part(const MatrixBatch& from, const MatrixBatch& to, Triangle part);
// Ones on the diagonal and zeros elsewhere.
Launch set_identity(const MatrixBatch& to);

// Pivots (K) and permutation (M) of a factorization by lu, operands of the step. `first`: the row of the whole matrix
// with which a panel begins; the permutation of the panel that begins with row 0 is set up by its kernel.
struct RowOrder {
  int pivots = 0, permutation = 0;
  int64_t matrix_rows = 0, matrix_pivots = 0, first = 0;
};
// The panel's factors over itself, its rows exchanged; `from` is what a small matrix is read from: it fits local
// memory. Elsewhere `from` is `panel`.
Launch lu_panel(const MatrixBatch& from, const MatrixBatch& panel, const RowOrder& order,
                int64_t local_bytes = kLocalBytes);
// Exchanges rows of the whole matrix as `pivots` pivots from order.first on say, in all columns but these.
Launch lu_exchange(const MatrixBatch& matrix, const RowOrder& order, int64_t pivots);

// The lower triangle of Cholesky's factor of `from`, which fits local memory, and zeros above it. A diagonal that is
// not positive becomes NaN.
Launch cholesky_block(const MatrixBatch& from, const MatrixBatch& to);

enum class Diagonal { given, unit };
// Solves t x = x for all columns of x; t is a lower triangle of at most kFactorBlock rows.
Launch solve_block(const MatrixBatch& t, const MatrixBatch& x, Diagonal diagonal);

// Reports the first number of the matrices' diagonals that is 0, or not positive, by check `check` (faults.h).
enum class Bad { zero, not_positive };
Launch report_diagonal(const MatrixBatch& matrix, Bad bad, int64_t check);

// q and r of matrices that fit local memory.
Launch qr_small(const MatrixBatch& x, const MatrixBatch& q, const MatrixBatch& r);
// Reflects the panel to an upper triangle. v gets its reflectors, with their ones and zeros, tau (1, columns) their
// factors.
Launch qr_panel(const MatrixBatch& panel, const MatrixBatch& v, const MatrixBatch& tau);
// The upper triangle t by which I - v t v^T is the product of the panel's reflections; `gram` is v^T v.
Launch qr_triangle(const MatrixBatch& gram, const MatrixBatch& tau, const MatrixBatch& t);

}  // namespace freight::gpu
