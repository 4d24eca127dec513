// Matrix products by CLBlast, which is loaded at run time like OpenCL itself: where it is missing, the generated
// kernels do all the work. Whether a product goes to it is measured when a plan is made (opencl.cpp).
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "freight/backend/gpu/matrix_product.h"
#include "freight/backend/gpu/opencl/memory.h"

namespace freight::opencl {

// The matmul of a step, its epilogue left out, where CLBlast can compute it: f32 or f64.
std::optional<gpu::MatrixProduct> blas_product(const StepSpec& spec);

// Why CLBlast cannot be used; empty where it can.
const std::string& why_no_blas();

// A step that multiplies by CLBlast and then runs `rest`, the epilogue, if any. CLBlast makes temporary buffers of its
// own where sides are no multiples of its tiles.
std::unique_ptr<Kernel> make_blas_kernel(std::shared_ptr<Memory> memory, const gpu::MatrixProduct& product,
                                         std::unique_ptr<Kernel> rest);

}  // namespace freight::opencl
