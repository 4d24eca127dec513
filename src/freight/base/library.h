// Finds libraries at run time: OpenCL's in the loader's path, NVIDIA's where they usually are: folders named by
// FREIGHT_CUDA_LIBS, the loader's path (LD_LIBRARY_PATH among it), toolkits, Python environments. Nothing is linked.
#pragma once
#include <string>
#include <vector>

namespace freight {

struct Library {
  void* handle = nullptr;  // never closed
  std::string path;        // as loaded
  std::string why;         // where it cannot be used: what was looked for, and where, or what it lacks
  bool broken = false;     // a file is there that cannot be used
  size_t version = 0;      // 91900 of 9.19.0, where it was asked for
};

template <class Functions>
struct Loaded {
  Functions functions;
  Library library;
};

enum class LibraryKind { system, driver, toolkit };  // the last two are NVIDIA's

// True where the process is ending: the libraries' own statics may be gone, and what they made must be left alone.
bool leaving();

// The first of `names` ("libnvrtc.so.13", "libnvrtc.so.12") that loads; a single name with a slash is a path.
Library find_library(const std::vector<std::string>& names, LibraryKind kind);

// The functions that cuda/abi.h lists become pointers as members of a struct, and names.
#define FREIGHT_POINTER(name, result, ...) result (*name)(__VA_ARGS__) = nullptr;
#define FREIGHT_SYMBOL(name, ...) #name,
// Finds the functions `symbols`, behind `prefix`, of a library that is there: `functions` begins with pointers to them.
// `otherwise` is what a library is that lacks some.
void look_up(Library& library, const char* prefix, std::initializer_list<const char*> symbols, void* functions,
             const std::string& otherwise);
// Both. `package` has the library.
Library load_library(const std::vector<std::string>& names, const char* package, const char* prefix,
                     std::initializer_list<const char*> symbols, void* functions, const char* otherwise,
                     LibraryKind kind = LibraryKind::toolkit);

}  // namespace freight
