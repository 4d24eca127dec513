// Finds NVIDIA's libraries where they usually are: folders named by FREIGHT_CUDA_LIBS, the loader's path
// (LD_LIBRARY_PATH among it), toolkits, Python environments. Nothing is linked.
#pragma once
#include <string>
#include <vector>

namespace freight::cuda {

struct Library {
  void* handle = nullptr;  // never closed
  std::string path;        // as loaded
  std::string why;         // where the handle is null: what was looked for, and where
};

enum class LibraryKind { driver, toolkit };

// The first of `names` ("libnvrtc.so.13", "libnvrtc.so.12") that loads.
Library find_library(const std::vector<std::string>& names, LibraryKind kind);

}  // namespace freight::cuda
