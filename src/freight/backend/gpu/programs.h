// The programs of one device: kernel texts that plans want are compiled together, none twice. Programs are kept on disk
// under the cache directory, keyed by their text, the device, its driver and the compiler.
#pragma once
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "freight/backend/gpu/launch.h"

namespace freight::gpu {

class Programs {
 public:
  virtual ~Programs() = default;
  // Takes note of a kernel that will be needed.
  void want(const Launch& launch);
  // Makes all that is noted ready to launch. Throws Error(device) with the compiler's first complaint and the path
  // under which the source was saved; what is noted is then forgotten.
  void load();

  // Programs compiled from source and read from disk so far.
  size_t compiled() const { return compiled_; }
  size_t read_back() const { return read_back_; }

 protected:
  struct Options {
    std::string driver;       // "opencl"
    std::string text_ending;  // of files: ".cl"
    std::string ending;       // ".bin"; none where programs do not go to disk
    std::string identity;     // of device, driver and compiler
    std::string dialect;      // stands before every program
    bool together = false;    // one program for all that is noted, not one for each kernel
  };
  struct Program {
    std::vector<std::string> entries;
    std::string text, path;       // where it is kept, if it is
    std::string code, complaint;  // of the compiler
    void* handle = nullptr;       // the driver's
  };
  explicit Programs(Options options) : options_(std::move(options)) {}
  // Makes the handle from `code`, which was kept; none where the driver refuses it.
  virtual void read(Program& program) = 0;
  // Makes handles from texts, and the code that is to be kept; none where there is a complaint.
  virtual void compile(std::vector<Program>& programs) = 0;
  // That of the program with this kernel; loads where that has not been done. Throws Error(runtime) for a kernel that
  // nobody wanted.
  void* handle(const std::string& entry);

 private:
  const Options options_;
  std::recursive_mutex mutex_;
  std::map<std::string, std::string> wanted_;  // source by entry
  std::map<std::string, void*> handles_;       // by entry
  size_t compiled_ = 0, read_back_ = 0;
};

}  // namespace freight::gpu
