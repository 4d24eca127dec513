// See programs.h.
#include "freight/backend/gpu/opencl/programs.h"

#include "freight/base/strings.h"

namespace freight::opencl {

Programs::Programs(cl_context context, cl_device_id device, std::string dialect, std::string identity,
                   KeepBinaries keep)
    : gpu::Programs({.driver = "opencl",
                     .text_ending = ".cl",
                     .ending = keep == KeepBinaries::yes ? ".bin" : "",
                     .identity = std::move(identity),
                     .dialect = std::move(dialect),
                     .together = true}),
      context_(context),
      device_(device) {}

cl_int Programs::build(cl_program program) {
  constexpr const char* kOptions = "-w";  // warnings of generated code concern nobody
  return api_.BuildProgram(program, 1, &device_, kOptions, nullptr, nullptr);
}

void Programs::compile(std::vector<Program>& programs) {
  for (Program& p : programs) {
    cl_int status = CL_SUCCESS;
    const char* text = p.text.c_str();
    const cl_program program = api_.CreateProgramWithSource(context_, 1, &text, nullptr, &status);
    check(status, "cannot make a program");
    size_t size = 0;
    if (build(program) != CL_SUCCESS) {
      api_.GetProgramBuildInfo(program, device_, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
      p.complaint.resize(size);
      api_.GetProgramBuildInfo(program, device_, CL_PROGRAM_BUILD_LOG, size, p.complaint.data(), nullptr);
      api_.ReleaseProgram(program);
      continue;
    }
    p.handle = program;
    if (p.path.empty()) continue;
    api_.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr);
    p.code.resize(size);
    char* code = p.code.data();
    if (api_.GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof code, &code, nullptr) != CL_SUCCESS) p.code.clear();
  }
}

void Programs::read(Program& p) {
  const size_t size = p.code.size();
  const auto* code = reinterpret_cast<const unsigned char*>(p.code.data());
  cl_int status = CL_SUCCESS, loaded = CL_SUCCESS;
  const cl_program program = api_.CreateProgramWithBinary(context_, 1, &device_, &size, &code, &loaded, &status);
  if (status != CL_SUCCESS) return;
  if (build(program) == CL_SUCCESS) {
    p.handle = program;
  } else {
    api_.ReleaseProgram(program);
  }
}

cl_kernel Programs::make_kernel(const gpu::Launch& launch) {
  cl_int status = CL_SUCCESS;
  const auto program = static_cast<cl_program>(handle(launch.entry));
  const cl_kernel kernel = api_.CreateKernel(program, launch.entry.c_str(), &status);
  check(status, cat("kernel ", launch.entry).c_str());
  return kernel;
}

}  // namespace freight::opencl
