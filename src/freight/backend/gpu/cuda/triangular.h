// Triangular systems by cuBLAS, whose trsm cuBLASLt has not; found at run time like the driver.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "freight/backend/backend.h"
#include "freight/backend/gpu/cuda/memory.h"
#include "freight/backend/gpu/launch.h"
#include "freight/base/library.h"

namespace freight::cuda {

// The library on one device.
class TriangularSolver : public std::enable_shared_from_this<TriangularSolver> {
 public:
  // Null where it cannot be used: `why` says.
  static std::shared_ptr<TriangularSolver> open(std::shared_ptr<Memory> memory, std::string& why);
  ~TriangularSolver();
  TriangularSolver(const TriangularSolver&) = delete;
  TriangularSolver& operator=(const TriangularSolver&) = delete;

  // The kernel of a solve_triangular. `generate` makes those that stand around the library's.
  std::unique_ptr<Kernel> kernel(const StepSpec& spec,
                                 const std::function<std::unique_ptr<Kernel>(gpu::Lowered)>& generate);

  Memory& memory() const { return *memory_; }
  void* handle() const { return handle_; }

 private:
  explicit TriangularSolver(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}
  std::shared_ptr<Memory> memory_;
  void* handle_ = nullptr;
};

}  // namespace freight::cuda
