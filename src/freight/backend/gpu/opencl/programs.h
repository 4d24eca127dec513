// Compiles kernel texts for one device: what a plan needs in one program, nothing twice. Programs are kept on disk
// under the cache directory, keyed by their text, the device and its driver.
#pragma once
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "freight/backend/gpu/launch.h"
#include "freight/backend/gpu/opencl/api.h"

namespace freight::opencl {

// Whether compiled programs go to disk: not where the driver itself does that.
enum class KeepBinaries { no, yes };

class Programs {
 public:
  struct Options {
    std::string dialect;   // stands before every program
    std::string identity;  // of device and driver
    KeepBinaries keep = KeepBinaries::yes;
  };
  Programs(cl_context context, cl_device_id device, Options options);

  // Takes note of a kernel that will be needed.
  void want(const gpu::Launch& launch);
  // Compiles all that is noted and not yet there. Throws Error(device) with the compiler's first complaint and the path
  // under which the source was saved.
  void compile();
  // A kernel object of its own for the caller, who releases it. Compiles where that has not been done.
  cl_kernel make_kernel(const gpu::Launch& launch);

  // Programs compiled from source and read from disk so far.
  int compiled() const { return compiled_; }
  int read_back() const { return read_back_; }

 private:
  cl_program build(const std::string& source);
  cl_program read(const std::string& path) const;
  void write(const std::string& path, cl_program program) const;

  const Api& api_;
  cl_context context_;
  cl_device_id device_;
  Options options_;
  std::mutex mutex_;
  std::map<std::string, std::string> wanted_;   // source by entry
  std::map<std::string, cl_program> programs_;  // by entry
  int compiled_ = 0, read_back_ = 0;
};

}  // namespace freight::opencl
