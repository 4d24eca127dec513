// See compiler.h.
#include "freight/backend/gpu/cuda/compiler.h"

#include <algorithm>

#include "freight/base/error.h"

namespace freight::cuda {

std::string Target::option() const { return cat(portable ? "compute_" : "sm_", architecture); }

Compiler::Compiler() {
  Functions& f = functions_;
  const std::vector<std::string> names = names_of("libnvrtc");
  library_ = load_library(names, "the CUDA toolkit or the Python package nvidia-cuda-nvrtc", "",
                          {FREIGHT_NVRTC_FUNCTIONS(FREIGHT_SYMBOL)}, &f, "older than CUDA 12");
  std::string& why = library_.why;
  if (!library_.handle) why = cat("no compiler for kernels: ", why);
  if (!why.empty()) {
    if (names.size() == 1 && find_library({"libnvrtc.so.13"}, LibraryKind::toolkit).handle) {
      why += cat("; the libnvrtc.so.13 that is here needs a driver for CUDA 13 (580 or newer), this one is for CUDA ",
                 version_text(driver().version));
    }
    return;
  }
  int major = 0, minor = 0, count = 0;
  f.nvrtcVersion(&major, &minor);
  version_ = 1000 * major + 10 * minor;
  f.nvrtcGetNumSupportedArchs(&count);
  architectures_.resize(static_cast<size_t>(count));
  f.nvrtcGetSupportedArchs(architectures_.data());
  std::sort(architectures_.begin(), architectures_.end());
}

const Compiler* Compiler::load(std::string& why) {
  static const Compiler kCompiler;
  why = kCompiler.library_.why;
  return why.empty() ? &kCompiler : nullptr;
}

std::optional<Target> Compiler::target_for(int architecture, std::string& why) const {
  const std::vector<int>& all = architectures_;
  if (std::binary_search(all.begin(), all.end(), architecture)) return Target{architecture, false};
  // Code for an older chip of the same generation runs; beyond the newest generation the driver compiles.
  const auto after = std::upper_bound(all.begin(), all.end(), architecture);
  if (after == all.begin()) {
    why = cat("architecture sm_", architecture, " is not covered by ", path(), ": it begins with sm_",
              all.empty() ? 0 : all.front(), "; set FREIGHT_CUDA_LIBS to an older toolkit's folder");
    return std::nullopt;
  }
  const int nearest = *std::prev(after);
  return Target{nearest, nearest / 10 != architecture / 10};
}

Compiler::Result Compiler::compile(const std::string& source, const Target& target, Report report) const {
  const Functions& f = functions_;
  void* program = nullptr;
  Result result;
  if (const int status = f.nvrtcCreateProgram(&program, source.c_str(), "freight.cu", 0, nullptr, nullptr); status) {
    result.log = f.nvrtcGetErrorString(status);
    return result;
  }
  const std::string architecture = "--gpu-architecture=" + target.option();
  std::vector<const char*> options = {architecture.c_str(), "--std=c++17", "-w"};
  if (report == Report::yes) options.push_back("--ptxas-options=-v");
  const int status = f.nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  const auto text = [&](auto size_of, auto get) {
    size_t size = 0;
    std::string bytes;
    if (size_of(program, &size) == 0 && size > 0) {
      bytes.resize(size);
      get(program, bytes.data());
    }
    return bytes;
  };
  result.log = text(f.nvrtcGetProgramLogSize, f.nvrtcGetProgramLog);
  while (!result.log.empty() && result.log.back() == '\0') result.log.pop_back();
  if (status != 0) {
    if (result.log.empty()) result.log = f.nvrtcGetErrorString(status);
  } else {
    result.code = target.portable ? text(f.nvrtcGetPTXSize, f.nvrtcGetPTX) : text(f.nvrtcGetCUBINSize, f.nvrtcGetCUBIN);
  }
  f.nvrtcDestroyProgram(&program);
  return result;
}

}  // namespace freight::cuda
