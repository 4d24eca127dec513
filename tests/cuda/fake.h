// The fake CUDA driver for tests in this process: named to Freight before it looks for NVIDIA's libraries.
#pragma once
#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "freight/backend/gpu/cuda/driver.h"
#include "freight/base/strings.h"

#include "tests/cuda/fake_cuda/fake_cuda.h"

namespace freight::test {

inline const std::string kFakeFolder = FREIGHT_BINARY_DIR "/tests/cuda/fake_cuda";
inline const bool kFakeIsNamed = ::setenv("FREIGHT_CUDA_LIBS", kFakeFolder.c_str(), 1) == 0;

struct FakeFunctions {
  FakeCuda* state = nullptr;
  void (*flush)() = nullptr;
};
inline const FakeFunctions& fake_cuda_functions() {
  static const FakeFunctions kFunctions = [] {
    void* library = dlopen((kFakeFolder + "/libcuda.so.1").c_str(), RTLD_NOW);
    if (!library) std::abort();
    return FakeFunctions{reinterpret_cast<FakeCuda* (*)()>(dlsym(library, "fake_cuda"))(),
                         reinterpret_cast<void (*)()>(dlsym(library, "fake_cuda_flush"))};
  }();
  return kFunctions;
}
inline FakeCuda& fake() { return *fake_cuda_functions().state; }
// Tells the fakes something by a variable of theirs (FAKE_...), for as long as it lives.
class Told {
 public:
  explicit Told(const char* name, const char* value = "1") : name_(name) { ::setenv(name, value, 1); }
  ~Told() { ::unsetenv(name_); }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;

 private:
  const char* name_;
};
inline const cuda::Driver* fake_driver() {
  std::string why;
  return cuda::load_driver(why);
}

}  // namespace freight::test
