// Matrix products by cuBLASLt, which is found at run time like the driver: where it is missing, the generated kernels
// do all the work. The library computes columns first, and its bias goes along columns only: rows are given to it as
// columns, the operands in exchange, Y' = B' A'.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "freight/backend/gpu/cuda/memory.h"
#include "freight/backend/gpu/matrix_product.h"
#include "freight/base/library.h"

namespace freight::cuda {

// The library as found. Loads it, but opens no device.
const Library& find_blas();

// The library on one device.
class Blas : public std::enable_shared_from_this<Blas> {
 public:
  // Null where it cannot be used: `why` says.
  static std::shared_ptr<Blas> open(std::shared_ptr<Memory> memory, int architecture, std::string& why);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  // Kernels for a product with all of its epilogue or pattern (ir/fused_pattern.h), or, where `rest` is given,
  // without: `rest` is then run behind it. `mask_bits` makes the mask's bits of a ReLU's gradient, if there is one.
  // The library's best guess comes first; none where it has none. All give the same bits in every run. f32 is rounded
  // to TF32 where the step says so.
  std::vector<std::unique_ptr<Kernel>> kernels(const StepSpec& spec, const gpu::MatrixProduct& product,
                                               const std::shared_ptr<Kernel>& mask_bits,
                                               const std::shared_ptr<Kernel>& rest);
  // Bytes of a mask's row: the library wants multiples of 128 bits.
  static int64_t mask_bytes(size_t columns);
  // A choice between them depends on this.
  static std::string signature(const StepSpec& spec);

  Memory& memory() const { return *memory_; }
  void* handle() const { return handle_; }

 private:
  Blas(std::shared_ptr<Memory> memory, int architecture);
  std::shared_ptr<Memory> memory_;
  size_t most_workspace_;
  void* handle_ = nullptr;
};

}  // namespace freight::cuda
