// Finds NVIDIA's libraries where they usually are: folders named by FREIGHT_CUDA_LIBS, the loader's path
// (LD_LIBRARY_PATH among it), toolkits, Python environments. Nothing is linked.
#pragma once
#include <string>
#include <vector>

namespace freight::cuda {

struct Library {
  void* handle = nullptr;  // never closed
  std::string path;        // as loaded
  std::string why;         // where it cannot be used: what was looked for, and where, or what it lacks
  size_t version = 0;      // 91900 of 9.19.0, where it was asked for
};

enum class LibraryKind { driver, toolkit };

// Whether the process is ending: the libraries' own statics may be gone, and what was made by them must be left alone.
bool leaving();

// The first of `names` ("libnvrtc.so.13", "libnvrtc.so.12") that loads.
Library find_library(const std::vector<std::string>& names, LibraryKind kind);

// Of the functions that abi.h lists: pointers as members of a struct, and names.
#define FREIGHT_POINTER(name, result, ...) result (*name)(__VA_ARGS__) = nullptr;
#define FREIGHT_SYMBOL(name, ...) #name,
// A library of `package` whose functions `symbols`, behind `prefix`, come into such a struct; `otherwise` is what one
// is that lacks some.
Library load_toolkit(const std::vector<std::string>& names, const char* package, const char* prefix,
                     std::initializer_list<const char*> symbols, void* functions, const char* otherwise);

}  // namespace freight::cuda
