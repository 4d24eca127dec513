// See library.h.
#include "freight/base/library.h"

#include <dlfcn.h>
#include <glob.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "freight/base/env.h"
#include "freight/base/python_packages.h"
#include "freight/base/strings.h"

namespace freight {

namespace {

std::atomic<bool> g_leaving = false;

// Files that match, the newest version (by name) first; the pattern itself where there are none.
std::vector<std::string> matching(const std::string& pattern) {
  glob_t found = {};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), GLOB_NOCHECK, nullptr, &found) == 0) {
    for (size_t i = found.gl_pathc; i-- > 0;) paths.emplace_back(found.gl_pathv[i]);
  }
  globfree(&found);
  return paths;
}

constexpr const char* kLoadersPath = "the loader's path";

// Where libraries usually are: the loader's path and patterns of folders. pip puts them into PACKAGES/nvidia/NAME/lib,
// conda into lib.
std::vector<std::string> usual_places(LibraryKind kind) {
  if (kind == LibraryKind::system) return {kLoadersPath};
  if (kind == LibraryKind::driver) return {kLoadersPath, "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64"};
  std::vector<std::string> places = {kLoadersPath};
  for (const std::string& toolkit : {env::get("CUDA_HOME"), env::get("CUDA_PATH"), std::string("/usr/local/cuda"),
                                     std::string("/usr/local/cuda-[0-9]*"), std::string("/opt/cuda")}) {
    if (!toolkit.empty()) places.insert(places.end(), {toolkit + "/lib64", toolkit + "/lib"});
  }
  for (const std::string& packages : active_python_packages()) places.push_back(packages + "/nvidia/*/lib");
  if (const std::string conda = env::get("CONDA_PREFIX"); !conda.empty()) places.push_back(conda + "/lib");
  for (const std::string& packages : other_python_packages()) places.push_back(packages + "/nvidia/*/lib");
  return places;
}

std::string path_of(void* handle, const std::string& asked) {
  char folder[4096] = {};
  if (asked.find('/') != std::string::npos || dlinfo(handle, RTLD_DI_ORIGIN, folder) != 0) return asked;
  return cat(folder, "/", asked);
}

// Loads a file, or the library of that name in the loader's path.
Library load(const std::string& path) {
  Library l;
  l.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (l.handle) {
    std::atexit([] { g_leaving = true; });  // behind the library's own, so it runs before these
    l.path = path_of(l.handle, path);
    return l;
  }
  const std::string text = dlerror(), subject = starts_with(text, path) ? "" : path + ": ";
  l.broken = !subject.empty() || text.find("No such file") == std::string::npos;
  l.why = l.broken ? cat("the loader refuses ", subject, text) : cat("there is no file ", path);
  return l;
}

}  // namespace

bool leaving() { return g_leaving; }

Library find_library(const std::vector<std::string>& names, LibraryKind kind) {
  if (names.size() == 1 && names[0].find('/') != std::string::npos) return load(names[0]);
  const std::string named = kind == LibraryKind::system ? std::string() : env::get("FREIGHT_CUDA_LIBS");
  const std::vector<std::string> usual = usual_places(kind);
  std::vector<std::string> places = split(named, ':');
  places.insert(places.end(), usual.begin(), usual.end());
  std::vector<std::string> broken;  // there, but the loader refuses it
  Library library;
  for (const std::string& name : names) {
    for (const std::string& place : places) {
      if (place.empty()) continue;
      for (const std::string& path : place == kLoadersPath ? std::vector{name} : matching(cat(place, "/", name))) {
        library = load(path);
        if (library.handle) return library;
        if (library.broken && path.find('*') == std::string::npos)
          broken.push_back(library.why);  // not a pattern without a match
      }
    }
  }
  const std::string first = cat("FREIGHT_CUDA_LIBS", named.empty() ? " (not set)" : "=" + named, ", ");
  library.broken = !broken.empty();
  library.why = cat("found no ", join(names, " or "), ": looked in ", kind == LibraryKind::system ? "" : first,
                    join(usual, ", "), library.broken ? "; " : "", join(broken, "; "));
  return library;
}

void look_up(Library& library, const char* prefix, std::initializer_list<const char*> symbols, void* functions,
             const std::string& otherwise) {
  auto* to = static_cast<char*>(functions);
  for (const char* symbol : symbols) {
    if (!library.why.empty()) return;
    void* const function = dlsym(library.handle, cat(prefix, symbol).c_str());
    if (!function) {
      library.why = cat(library.path, " has no ", prefix, symbol, ": it is ", otherwise);
      library.broken = true;
    }
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

}  // namespace freight
