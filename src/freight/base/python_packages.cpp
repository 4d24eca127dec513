// See python_packages.h.
#include "freight/base/python_packages.h"

#include <dlfcn.h>
#include <glob.h>

#include <filesystem>
#include <mutex>
#include <utility>

#include "freight/base/env.h"
#include "freight/base/strings.h"

namespace freight {

namespace {

struct Interpreter {
  std::mutex mutex;
  std::vector<std::string> packages;
};
Interpreter& interpreter() {
  static auto& one = *new Interpreter;  // libraries are looked for until the process ends
  return one;
}

// The folder of packages that has this library as a file of the package `freight`: PACKAGES/freight/lib/libfreight.so.
std::string own_packages() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&own_packages), &info) == 0 || !info.dli_fname) return "";
  const auto file = std::filesystem::path(info.dli_fname).lexically_normal();  // the command has freight/bin/../lib
  const auto folder = file.parent_path().parent_path().parent_path();
  return ends_with(folder.filename().string(), "-packages") ? folder.string() : "";
}

}  // namespace

void set_python_packages(std::vector<std::string> folders) {
  const std::lock_guard lock(interpreter().mutex);
  interpreter().packages = std::move(folders);
}

std::vector<std::string> active_python_packages() {
  std::vector<std::string> folders;
  {
    const std::lock_guard lock(interpreter().mutex);
    folders = interpreter().packages;
  }
  if (const std::string own = own_packages(); !own.empty()) folders.push_back(own);
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const std::string prefix = env::get(name); !prefix.empty()) {
      folders.push_back(prefix + "/lib/python3*/site-packages");
    }
  }
  return folders;
}

std::vector<std::string> other_python_packages() {
  std::vector<std::string> folders;
  if (const std::string home = env::get("HOME"); !home.empty()) {
    folders.push_back(home + "/.local/lib/python3*/site-packages");
  }
  folders.emplace_back("/usr/local/lib/python3*/*-packages");
  folders.emplace_back("/usr/lib/python3*/*-packages");
  return folders;
}

std::vector<std::string> files_in(const std::vector<std::string>& folders, const std::string& below) {
  std::vector<std::string> paths;
  for (const std::string& folder : folders) {
    glob_t found = {};
    if (::glob(cat(folder, "/", below).c_str(), 0, nullptr, &found) == 0) {
      for (size_t i = found.gl_pathc; i-- > 0;) paths.emplace_back(found.gl_pathv[i]);
    }
    ::globfree(&found);
  }
  return paths;
}

}  // namespace freight
