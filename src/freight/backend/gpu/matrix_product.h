// Libraries of matrix products need to know this of a matmul: how its operands lie as matrices, if they do.
#pragma once
#include <optional>
#include <string>

#include "freight/backend/backend.h"

namespace freight::gpu {

// Per batch Y (m, n) = A (m, k) B (k, n), all rows or columns of a matrix dense, those of Y rows. `lead`: elements from
// one row (column) to the next, `apart`: from one batch to the next; of A, B and Y.
struct MatrixProduct {
  DType dtype = DType::f32;
  size_t batches = 1, m = 0, n = 0, k = 0;
  bool transposed[2] = {false, false};  // A, B as they lie in memory
  size_t lead[3] = {};
  int64_t apart[3] = {};
  int result = 2;  // which operand of the step Y is
};

// The matmul of a step, its epilogue or the rest of its pattern left out; nothing where the operands lie otherwise or a
// side is empty.
std::optional<MatrixProduct> matrix_product(const StepSpec& spec);

// The name of all that a choice between kernels of a matmul, or of a pattern with one, depends on.
std::string signature(const StepSpec& spec);

}  // namespace freight::gpu
