// Kernels between the rows of Freight's matrices and the columns of a library that factorizes them: transposes, copies
// that look for NaN, pivots as the op has them, reports of matrices that have no factors. Letters: M rows, N columns, K
// the smaller of both.
#pragma once
#include <string>

#include "freight/backend/gpu/launch.h"
#include "freight/base/dtype.h"

namespace freight::cuda {

// Bytes of an operand of the step, or of its scratch memory (gpu::Argument), from `offset` on.
struct Location {
  int operand = 0;
  size_t offset = 0;

  char* in(void* const* operands) const { return static_cast<char*>(operands[operand]) + offset; }
};

// A batch of matrices whose rows have no gaps. `lead`: elements from one row to the next, `apart`: from one matrix to
// the next. The columns of a library's matrix are rows here.
struct Rows {
  Location at;
  int64_t rows = 0, columns = 0, lead = 0, apart = 0;
};

// What a copy takes of the matrix that it reads; the rest becomes 0. Of `lower` and `upper` the other triangle is not
// looked at.
enum class Triangle : uint8_t { all, lower, upper };
struct CopyOptions {
  DType dtype = DType::f32;
  int64_t batches = 1;
  Triangle take = Triangle::all;
  // Where there is one, a number (i32) for each matrix becomes 1 if it holds NaN or an infinity, in whose place a 0 is
  // copied: libraries do not say that their iterations end at NaN.
  const Location* not_finite = nullptr;
};
gpu::Launch copy_matrices(const Rows& from, const Rows& to, const CopyOptions& options);
// Element (i, j) of `from` becomes element (j, i) of `to`. Tiles go through local memory, so that both sides are read
// and written along rows.
gpu::Launch transpose_matrices(const Rows& from, const Rows& to, const CopyOptions& options);
// Zeros in all of `to` but the triangle `keep`.
gpu::Launch clear_triangle(const Rows& to, const CopyOptions& options, Triangle keep);
gpu::Launch set_identity(const Rows& to, DType dtype, int64_t batches);

// The library's pivots (i64, from 1 on) as the op's: i32, from 0 on; and the rows in the order that they lead to.
gpu::Launch pivots_from_zero(Location from, Location to, int64_t batches, int64_t rows, int64_t pivots);
gpu::Launch permutation_of(Location pivots, Location to, int64_t batches, int64_t rows, int64_t count);

// NaN in all `count` elements of `to`, so many a matrix, of the matrices that are not finite.
gpu::Launch spoil(Location to, DType dtype, int64_t batches, int64_t count, Location not_finite);

// The library's eigenvalues (2, N) and the columns of its eigenvectors, of which those of a conjugate pair are real and
// imaginary part, as the op's four results.
struct EigenResults {
  Location values, vectors, values_re, values_im, vectors_re, vectors_im;
};
gpu::Launch unpack_eigenvalues(const EigenResults& r, DType dtype, int64_t batches, int64_t n);
gpu::Launch unpack_eigenvectors(const EigenResults& r, DType dtype, int64_t batches, int64_t n);

// Reports, by check `check` (gpu/faults.h), the first matrix whose number in `info` (i32) is above 0: one more than the
// place that is at fault, among k, or where there is none how many are missing.
enum class InfoSays : uint8_t { place, count };
gpu::Launch report(Location info, InfoSays says, int64_t batches, int64_t k, int64_t check);
// The same of a factor by Cholesky; a NaN on its diagonal is reported, too.
gpu::Launch report_not_positive(Location info, const Rows& factor, const CopyOptions& options, int64_t check);

// The address of each matrix of a batch (i64), for functions that take many.
gpu::Launch addresses_of(Location matrices, Location to, DType dtype, int64_t batches, int64_t apart);

}  // namespace freight::cuda
