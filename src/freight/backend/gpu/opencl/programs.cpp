// See programs.h.
#include "freight/backend/gpu/opencl/programs.h"

#include "freight/backend/gpu/kernel_text.h"
#include "freight/backend/gpu/program_files.h"
#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/log.h"

namespace freight::opencl {

namespace {

constexpr const char* kOptions = "-w";  // warnings of generated code concern nobody

std::string folder() { return env::cache_dir() + "/opencl"; }

}  // namespace

Programs::Programs(cl_context context, cl_device_id device, Options options)
    : api_(api()), context_(context), device_(device), options_(std::move(options)) {}

void Programs::want(const gpu::Launch& launch) {
  std::lock_guard lock(mutex_);
  if (programs_.count(launch.entry) == 0) wanted_.emplace(launch.entry, launch.source);
}

void Programs::compile() {
  std::lock_guard lock(mutex_);
  if (wanted_.empty()) return;
  std::string source = options_.dialect;
  for (const auto& [entry, text] : wanted_) source += text;
  const std::string path = cat(folder(), "/", gpu::hash_name(options_.identity + source), ".bin");
  const bool keep = options_.keep == KeepBinaries::yes;
  cl_program program = keep ? read(path) : nullptr;
  if (program) {
    ++read_back_;
  } else {
    program = build(source);
    ++compiled_;
    if (keep) write(path, program);
  }
  for (const auto& [entry, text] : wanted_) programs_[entry] = program;
  wanted_.clear();
}

cl_program Programs::build(const std::string& source) {
  cl_int status = CL_SUCCESS;
  const char* text = source.c_str();
  const cl_program program = api_.CreateProgramWithSource(context_, 1, &text, nullptr, &status);
  check(status, "cannot make a program");
  status = api_.BuildProgram(program, 1, &device_, kOptions, nullptr, nullptr);
  if (status == CL_SUCCESS) return program;
  size_t size = 0;
  api_.GetProgramBuildInfo(program, device_, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
  std::string complaint(size, '\0');
  api_.GetProgramBuildInfo(program, device_, CL_PROGRAM_BUILD_LOG, size, complaint.data(), nullptr);
  api_.ReleaseProgram(program);
  wanted_.clear();
  gpu::fail_to_compile("opencl", folder(), ".cl", source, complaint);
}

cl_program Programs::read(const std::string& path) const {
  const std::string bytes = gpu::read_program(path);
  if (bytes.empty()) return nullptr;
  const size_t size = bytes.size();
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  cl_int status = CL_SUCCESS, loaded = CL_SUCCESS;
  const cl_program program = api_.CreateProgramWithBinary(context_, 1, &device_, &size, &data, &loaded, &status);
  if (status == CL_SUCCESS && api_.BuildProgram(program, 1, &device_, kOptions, nullptr, nullptr) == CL_SUCCESS)
    return program;
  if (status == CL_SUCCESS) api_.ReleaseProgram(program);
  log::info(cat("opencl: the driver refuses ", path, "; compiling again"));
  return nullptr;
}

void Programs::write(const std::string& path, cl_program program) const {
  size_t size = 0;
  if (api_.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr) != CL_SUCCESS || size == 0)
    return;
  std::string bytes(size, '\0');
  auto* data = reinterpret_cast<unsigned char*>(bytes.data());
  if (api_.GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof data, &data, nullptr) == CL_SUCCESS)
    gpu::write_program(path, bytes);
}

cl_kernel Programs::make_kernel(const gpu::Launch& launch) {
  compile();
  std::lock_guard lock(mutex_);
  const auto it = programs_.find(launch.entry);
  FREIGHT_CHECK(it != programs_.end(), launch.entry);
  cl_int status = CL_SUCCESS;
  const cl_kernel kernel = api_.CreateKernel(it->second, launch.entry.c_str(), &status);
  check(status, cat("kernel ", launch.entry).c_str());
  return kernel;
}

}  // namespace freight::opencl
