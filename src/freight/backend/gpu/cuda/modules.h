// The programs of a CUDA device (gpu/programs.h), by NVRTC. Every kernel is a module of its own: nets share kernels,
// and several are compiled at once.
#pragma once
#include "freight/backend/gpu/cuda/compiler.h"
#include "freight/backend/gpu/cuda/driver.h"
#include "freight/backend/gpu/programs.h"

namespace freight::cuda {

class Modules final : public gpu::Programs {
 public:
  // The device's context is current in all calls.
  Modules(const Driver& driver, const Compiler& compiler, const Target& target, std::string dialect);
  ~Modules() override;
  Function function(const std::string& entry) { return static_cast<Function>(handle(entry)); }

 private:
  void read(Program& program) override { place(program); }
  void compile(std::vector<Program>& programs) override;
  Status place(Program& program);

  const Driver& driver_;
  const Compiler& compiler_;
  const Target target_;
  std::vector<Module> modules_;
};

}  // namespace freight::cuda
