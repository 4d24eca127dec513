// See compiler.h.
#include "freight/backend/gpu/cuda/compiler.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "freight/base/error.h"

namespace freight::cuda {

std::string Target::option() const { return cat(portable ? "compute_" : "sm_", architecture); }

Compiler* Compiler::find(const std::vector<std::string>& names, std::string& why) {
  Functions f;
  const gpu::Library library = gpu::load_library(names, "the CUDA toolkit or the Python package nvidia-cuda-nvrtc", "",
                                                 {FREIGHT_NVRTC_FUNCTIONS(FREIGHT_SYMBOL)}, &f, "older than CUDA 12");
  why = library.handle ? library.why : cat("no compiler for kernels: ", library.why);
  if (!why.empty()) return nullptr;
  auto* c = new Compiler;  // lives as long as the library does: to the end
  c->functions_ = f;
  c->path_ = library.path;
  int major = 0, minor = 0, count = 0;
  f.nvrtcVersion(&major, &minor);
  c->version_ = 1000 * major + 10 * minor;
  f.nvrtcGetNumSupportedArchs(&count);
  c->architectures_.resize(static_cast<size_t>(count));
  f.nvrtcGetSupportedArchs(c->architectures_.data());
  std::sort(c->architectures_.begin(), c->architectures_.end());
  return c;
}

const Compiler* Compiler::load(int driver_version, std::string& why) {
  struct Found {
    const Compiler* compiler;
    std::string why;
  };
  static std::mutex mutex;
  static std::map<int, Found> by_major;
  const int major = driver_version == 0 ? 13 : std::clamp(driver_version / 1000, 12, 13);
  std::lock_guard lock(mutex);
  auto it = by_major.find(major);
  if (it == by_major.end()) {
    std::vector<std::string> names = {"libnvrtc.so.12"};
    if (major >= 13) names.insert(names.begin(), "libnvrtc.so.13");
    Found found;
    found.compiler = find(names, found.why);
    std::string ignored;
    if (!found.compiler && major == 12 && find({"libnvrtc.so.13"}, ignored)) {
      found.why +=
          cat("; the libnvrtc.so.13 that is here needs a driver for CUDA 13 (580 or newer), this one is for CUDA ",
              version_text(driver_version));
    }
    it = by_major.emplace(major, found).first;
  }
  why = it->second.why;
  return it->second.compiler;
}

bool Compiler::target_for(int architecture, Target& target, std::string& why) const {
  const std::vector<int>& all = architectures_;
  if (std::binary_search(all.begin(), all.end(), architecture)) {
    target = {architecture, false};
    return true;
  }
  // Code for an older chip of the same generation runs; beyond the newest generation the driver compiles.
  const auto after = std::upper_bound(all.begin(), all.end(), architecture);
  if (after == all.begin()) {
    why = cat("architecture sm_", architecture, " is not covered by ", path_, ": it begins with sm_",
              all.empty() ? 0 : all.front(), "; give FREIGHT_CUDA_LIBS an older toolkit's folder");
    return false;
  }
  const int nearest = *std::prev(after);
  target = {nearest, nearest / 10 != architecture / 10};
  return true;
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
    result.ok = !result.code.empty();
  }
  f.nvrtcDestroyProgram(&program);
  return result;
}

}  // namespace freight::cuda
