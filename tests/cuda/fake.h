// The fake CUDA driver for tests in this process: named to Freight before it looks for NVIDIA's libraries.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "freight/backend/gpu/cuda/driver.h"
#include "freight/base/strings.h"

#include "tests/cuda/fake_cuda/fake_cuda.h"
#include "tests/support/files.h"
#include "tests/support/folders.h"

namespace freight::test {

inline const std::string kFakeFolder = binary_dir() + "/tests/cuda/fake_cuda";
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

// A test on the fakes: with a cache folder of its own; what they find fault with fails it.
class OnFake : public ::testing::Test {
 protected:
  ~OnFake() override {
    fake_cuda_functions().flush();
    EXPECT_EQ(join(fake().faults, "\n"), "");
    fake().faults.clear();
  }
  freight::testing::TemporaryDir cache_;
  freight::testing::ScopedEnvironment environment_{"FREIGHT_CACHE", cache_.path()};
};

// A test of what goes to a library, counted from zero.
class OnFakeLibraries : public OnFake {
 protected:
  OnFakeLibraries() {
    FakeCuda& f = fake();
    f.library_products = f.library_gradients = f.library_convolutions = f.library_attentions = f.library_layers = 0;
    f.library_factorizations = f.library_solutions = f.captures = f.graph_launches = 0;
  }
};

}  // namespace freight::test
