// NVRTC, loaded at run time: kernel texts become machine code for one architecture, without a device or its driver.
#pragma once
#include <string>
#include <vector>

#include "freight/backend/gpu/cuda/abi.h"
#include "freight/backend/gpu/library.h"

namespace freight::cuda {

// What a device's kernels are compiled to: its own machine code, or, for a device newer than the library, portable code
// that the driver compiles once more.
struct Target {
  int architecture = 0;  // 90 of "sm_90"
  bool portable = false;

  std::string option() const;  // "sm_90", "compute_120"
};

class Compiler {
 public:
  // NVRTC for a driver of this version (CUDA 13 code needs a CUDA 13 driver), 0: the newest. Null where none is found:
  // `why` says what was looked for and where.
  static const Compiler* load(int driver_version, std::string& why);

  int version() const { return version_; }  // 13000
  const std::string& path() const { return path_; }
  // Ascending: 75, 80, 86, ...
  const std::vector<int>& architectures() const { return architectures_; }
  // False where the library does not cover a device of that architecture; then `why` says so.
  bool target_for(int architecture, Target& target, std::string& why) const;

  struct Result {
    bool ok = false;
    std::string code;  // machine code, or PTX
    std::string log;   // complaints; with `report` also registers and spills of each kernel
  };
  enum class Report { no, yes };
  Result compile(const std::string& source, const Target& target, Report report = Report::no) const;

 private:
  struct Functions {
    FREIGHT_NVRTC_FUNCTIONS(FREIGHT_POINTER)
  };
  Compiler() = default;
  static Compiler* find(const std::vector<std::string>& names, std::string& why);
  Functions functions_;
  std::string path_;
  int version_ = 0;
  std::vector<int> architectures_;
};

}  // namespace freight::cuda
