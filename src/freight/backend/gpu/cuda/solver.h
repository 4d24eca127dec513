// Factorizations, eigenvalues and singular values by cuSOLVER's 64-bit interface, which is found at run time like the
// driver. The library's matrices lie column by column: one that lies row by row is its own transpose there, so a
// symmetric one only has its triangles exchanged, and the singular vectors of a wide one their sides; all else goes
// through transposes (solver_kernels.h).
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "freight/backend/backend.h"
#include "freight/backend/gpu/cuda/abi.h"
#include "freight/backend/gpu/cuda/memory.h"
#include "freight/backend/gpu/launch.h"
#include "freight/base/library.h"

namespace freight::cuda {

// The library as found. Loads it, but opens no device.
const Library& find_solver();

struct SolverFunctions {
  FREIGHT_CUSOLVER_FUNCTIONS(FREIGHT_POINTER)
};
struct NewerSolverFunctions {
  FREIGHT_CUSOLVER_NEWER_FUNCTIONS(FREIGHT_POINTER)
};

// The library on one device.
class Solver : public std::enable_shared_from_this<Solver> {
 public:
  // Null where it cannot be used: `why` says.
  static std::shared_ptr<Solver> open(std::shared_ptr<Memory> memory, std::string& why);
  ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  // Why the library computes no such op; empty where it does.
  static std::string why_unsupported(Op op);
  // The kernel of a factorization, eigh, svd or eig. `generate` makes those that stand around the library's.
  std::unique_ptr<Kernel> kernel(const StepSpec& spec,
                                 const std::function<std::unique_ptr<Kernel>(gpu::Lowered)>& generate);

  Memory& memory() const { return *memory_; }
  void* handle() const { return handle_; }
  void* params() const { return params_; }

 private:
  explicit Solver(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}
  std::shared_ptr<Memory> memory_;
  void *handle_ = nullptr, *params_ = nullptr;
};

const SolverFunctions& solver_functions();             // loaded
const NewerSolverFunctions* newer_solver_functions();  // null where the library lacks some
// Throws Error(device) where it is no success.
void check_solver(int status, const char* function);

}  // namespace freight::cuda
