// NVRTC, loaded at run time: kernel texts become machine code for one architecture, without a device or its driver.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "freight/backend/gpu/cuda/abi.h"
#include "freight/base/library.h"

namespace freight::cuda {

// A device's kernels are compiled to its own machine code, or, for a device newer than the library, to portable code
// that the driver compiles once more.
struct Target {
  int architecture = 0;  // 90 of "sm_90"
  bool portable = false;

  std::string option() const;  // "sm_90", "compute_120"
};

class Compiler {
 public:
  // NVRTC for the driver at hand, without one the newest. Null where none is found: `why` says what was looked for and
  // where.
  static const Compiler* load(std::string& why);

  int version() const { return version_; }  // 13000
  const std::string& path() const { return library_.path; }
  // Ascending: 75, 80, 86, ...
  const std::vector<int>& architectures() const { return architectures_; }
  // Nothing where the library does not cover a device of that architecture; then `why` says so.
  std::optional<Target> target_for(int architecture, std::string& why) const;

  struct Result {
    std::string code;  // machine code, or PTX; empty where the text does not compile
    std::string log;   // complaints; with `report` also registers and spills of each kernel
  };
  enum class Report { no, yes };
  Result compile(const std::string& source, const Target& target, Report report = Report::no) const;

 private:
  struct Functions {
    FREIGHT_NVRTC_FUNCTIONS(FREIGHT_POINTER)
  };
  Compiler();
  Functions functions_;
  Library library_;
  int version_ = 0;
  std::vector<int> architectures_;
};

}  // namespace freight::cuda
