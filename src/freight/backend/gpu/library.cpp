// See library.h.
#include "freight/backend/gpu/library.h"

#include <dlfcn.h>
#include <glob.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "freight/base/env.h"
#include "freight/base/strings.h"

namespace freight::gpu {

namespace {

std::atomic<bool> g_leaving = false;

// Folders that match, the newest version (by name) first.
std::vector<std::string> matching(const std::string& pattern) {
  glob_t found = {};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (size_t i = found.gl_pathc; i-- > 0;) paths.emplace_back(found.gl_pathv[i]);
  }
  globfree(&found);
  return paths;
}

std::vector<std::string> named_folders(LibraryKind kind) {
  std::vector<std::string> folders;
  if (kind == LibraryKind::system) return folders;
  for (const std::string& folder : split(env::get("FREIGHT_CUDA_LIBS"), ':')) {
    if (!folder.empty()) folders.push_back(folder);
  }
  return folders;
}

// Patterns of folders. pip puts libraries into PACKAGES/nvidia/NAME/lib, conda into lib.
std::vector<std::string> usual_folders(LibraryKind kind) {
  if (kind == LibraryKind::system) return {};
  if (kind == LibraryKind::driver) return {"/usr/lib/wsl/lib", "/usr/local/nvidia/lib64"};
  std::vector<std::string> patterns;
  for (const std::string& toolkit : {env::get("CUDA_HOME"), env::get("CUDA_PATH"), std::string("/usr/local/cuda"),
                                     std::string("/usr/local/cuda-[0-9]*"), std::string("/opt/cuda")}) {
    if (!toolkit.empty()) patterns.insert(patterns.end(), {toolkit + "/lib64", toolkit + "/lib"});
  }
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const std::string prefix = env::get(name); !prefix.empty()) {
      patterns.push_back(prefix + "/lib/python3*/site-packages/nvidia/*/lib");
      patterns.push_back(prefix + "/lib");
    }
  }
  if (const std::string home = env::get("HOME"); !home.empty()) {
    patterns.push_back(home + "/.local/lib/python3*/site-packages/nvidia/*/lib");
  }
  patterns.emplace_back("/usr/local/lib/python3*/*-packages/nvidia/*/lib");
  patterns.emplace_back("/usr/lib/python3*/*-packages/nvidia/*/lib");
  return patterns;
}

std::string path_of(void* handle, const std::string& asked) {
  char folder[4096] = {};
  if (asked.find('/') != std::string::npos || dlinfo(handle, RTLD_DI_ORIGIN, folder) != 0) return asked;
  return cat(folder, "/", asked);
}

}  // namespace

bool leaving() { return g_leaving; }

Library find_library(const std::vector<std::string>& names, LibraryKind kind) {
  std::vector<std::string> broken;  // there, but the loader refuses it
  const auto open = [&](const std::string& path) {
    Library library;
    library.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library.handle) {
      std::atexit([] { g_leaving = true; });  // behind the library's own, so it runs before these
      library.path = path_of(library.handle, path);
    } else if (const std::string text = dlerror();
               !starts_with(text, path) || text.find("No such file") == std::string::npos) {
      broken.push_back(text);
    }
    return library;
  };
  const std::vector<std::string> named = named_folders(kind), usual = usual_folders(kind);
  for (const std::string& name : names) {
    for (const std::string& folder : named) {
      if (Library l = open(cat(folder, "/", name)); l.handle) return l;
    }
    if (Library l = open(name); l.handle) return l;
    for (const std::string& pattern : usual) {
      for (const std::string& path : matching(cat(pattern, "/", name))) {
        if (Library l = open(path); l.handle) return l;
      }
    }
  }
  std::vector<std::string> places = usual;
  places.insert(places.begin(), "the loader's path");
  if (kind != LibraryKind::system) {
    places.insert(places.begin(),
                  named.empty() ? "FREIGHT_CUDA_LIBS (not set)" : "FREIGHT_CUDA_LIBS=" + join(named, ":"));
  }
  Library none;
  none.why = cat("found no ", join(names, " or "), ": looked in ", join(places, ", "));
  if (!broken.empty()) none.why += cat("; the loader refuses: ", join(broken, "; "));
  return none;
}

void look_up(Library& library, const char* prefix, std::initializer_list<const char*> symbols, void* functions,
             const std::string& otherwise) {
  auto* to = static_cast<char*>(functions);
  for (const char* symbol : symbols) {
    if (!library.why.empty()) return;
    void* const function = dlsym(library.handle, cat(prefix, symbol).c_str());
    if (!function) library.why = cat(library.path, " has no ", prefix, symbol, ": it is ", otherwise);
    std::memcpy(to, &function, sizeof function);
    to += sizeof function;
  }
}

Library load_library(const std::vector<std::string>& names, const char* package, const char* prefix,
                     std::initializer_list<const char*> symbols, void* functions, const char* otherwise,
                     LibraryKind kind) {
  Library l = find_library(names, kind);
  if (!l.handle) l.why += cat("; install ", package);
  if (!l.handle && kind != LibraryKind::system) l.why += ", or name the folder in FREIGHT_CUDA_LIBS";
  look_up(l, prefix, symbols, functions, otherwise);
  return l;
}

}  // namespace freight::gpu
