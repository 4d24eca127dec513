// The Python with torch, for tests against what PyTorch itself computes.
#pragma once
#include <cstdlib>
#include <string>

#include "tests/support/files.h"

namespace freight::testing {

// FREIGHT_TORCH_PYTHON, or a Python with torch that is found; "" where there is none (the test then skips itself).
inline std::string torch_python() {
  const char* named = std::getenv("FREIGHT_TORCH_PYTHON");
  return named ? named : python_with("torch");
}
constexpr const char* kWithoutTorch = "no Python with torch is here (FREIGHT_TORCH_PYTHON names one)";

}  // namespace freight::testing
