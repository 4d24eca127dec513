// Matrix products by CLBlast, which is loaded at run time like OpenCL itself: where it is missing, the generated
// kernels do all the work. Whether a product goes to it is measured when a plan is made (opencl.cpp).
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "freight/backend/backend.h"
#include "freight/backend/gpu/opencl/memory.h"

namespace freight::opencl {

// Per batch Y (m, n) = A (m, k) B (k, n), all rows or columns of a matrix dense. `lead`: elements from one row (column)
// to the next, `apart`: from one batch to the next; of A, B and Y.
struct BlasProduct {
  DType dtype = DType::f32;
  size_t batches = 1, m = 0, n = 0, k = 0;
  bool transposed[2] = {false, false};  // A, B as they lie in memory
  size_t lead[3] = {}, apart[3] = {};
  int result = 2;  // which operand of the step Y is
};

// The matmul of a step, its epilogue left out, where CLBlast can compute it: f32 or f64 throughout, no empty side.
std::optional<BlasProduct> blas_product(const StepSpec& spec);

// Why CLBlast cannot be used; empty where it can.
const std::string& why_no_blas();

// A step that multiplies by CLBlast and then runs `rest`, the epilogue, if any. CLBlast makes temporary buffers of its
// own where sides are no multiples of its tiles.
std::unique_ptr<Kernel> make_blas_kernel(std::shared_ptr<Memory> memory, const BlasProduct& product,
                                         std::unique_ptr<Kernel> rest);

}  // namespace freight::opencl
