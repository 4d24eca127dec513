// Compiles kernel texts for one device by NVRTC and loads them. Every kernel is a module of its own: nets share
// kernels, machine code is kept on disk per kernel, and several are compiled at once.
#pragma once
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "freight/backend/gpu/cuda/compiler.h"
#include "freight/backend/gpu/cuda/driver.h"
#include "freight/backend/gpu/launch.h"

namespace freight::cuda {

class Modules {
 public:
  // `dialect` stands before every text. The device's context is current in all calls.
  Modules(const Driver& driver, const Compiler& compiler, const Target& target, std::string dialect);
  ~Modules();
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;

  // Takes note of a kernel that will be needed.
  void want(const gpu::Launch& launch);
  // Makes all that is noted ready to launch. Throws Error(device) with the compiler's first complaint and the path
  // under which the source was saved; what is noted is then forgotten.
  void load();
  // Loads where that has not been done. Throws Error(runtime) for a kernel that nobody wanted.
  Function function(const std::string& entry);

 private:
  struct Wanted {
    std::string entry, source, path;
    std::string code = {}, complaint = {};
    bool from_disk = false;
  };
  struct Loaded {
    Module module = nullptr;
    Function function = nullptr;
  };
  void load_wanted();
  void compile(std::vector<Wanted>& kernels) const;
  void place(Wanted& kernel);

  const Driver& driver_;
  const Compiler& compiler_;
  const Target target_;
  const std::string dialect_;
  std::mutex mutex_;
  std::map<std::string, std::string> wanted_;  // source by entry
  std::map<std::string, Loaded> loaded_;       // by entry
};

}  // namespace freight::cuda
