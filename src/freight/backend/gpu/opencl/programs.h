// The programs of an OpenCL device (gpu/programs.h): what a plan needs is one.
#pragma once
#include "freight/backend/gpu/opencl/api.h"
#include "freight/backend/gpu/programs.h"

namespace freight::opencl {

// Compiled programs go to disk, unless the driver itself does that.
enum class KeepBinaries { no, yes };

class Programs final : public gpu::Programs {
 public:
  // `identity`: of device and driver.
  Programs(cl_context context, cl_device_id device, std::string dialect, std::string identity, KeepBinaries keep);
  // A kernel object of its own for the caller, who releases it. Compiles where that has not been done.
  cl_kernel make_kernel(const gpu::Launch& launch);

 private:
  void read(Program& program) override;
  void compile(std::vector<Program>& programs) override;
  cl_int build(cl_program program);

  const Api& api_ = api();
  cl_context context_;
  cl_device_id device_;
};

}  // namespace freight::opencl
