// See plugin.h.
#include "freight/nn/plugin.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "freight/base/error.h"
#include "freight/base/version.h"

namespace freight::nn {

namespace {

constexpr const char* kEntry = "freight_plugin";

// The loader maps what the tables of the file name, and the program ends by SIGBUS where a part of that is not there:
// half a copy of a library is refused before. Other kinds of ELF than this program's are left to the loader's words.
void need_whole(std::ifstream& file, uint64_t size, const std::string& path) {
  const auto cut = [&](uint64_t need) {
    fail(ErrorKind::usage, path, "the library is cut off: expected ", need, " according to its own tables, got ", size,
         " bytes; copy or rebuild it");
  };
  Elf64_Ehdr head{};
  if (size < sizeof head) cut(sizeof head);
  file.seekg(0).read(reinterpret_cast<char*>(&head), sizeof head);
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB) return;
  uint64_t need = 0;
  const auto reach = [&](uint64_t offset, uint64_t bytes) {  // without overflow: a damaged table may say anything
    need = std::max(need, bytes > UINT64_MAX - offset ? UINT64_MAX : offset + bytes);
  };
  reach(head.e_phoff, uint64_t{head.e_phnum} * sizeof(Elf64_Phdr));
  reach(head.e_shoff, uint64_t{head.e_shnum} * sizeof(Elf64_Shdr));
  if (need > size) cut(need);
  std::vector<Elf64_Phdr> segments(head.e_phnum);
  file.seekg(static_cast<std::streamoff>(head.e_phoff));
  file.read(reinterpret_cast<char*>(segments.data()),
            static_cast<std::streamsize>(segments.size() * sizeof(Elf64_Phdr)));
  for (const Elf64_Phdr& s : segments) reach(s.p_offset, s.p_filesz);
  if (need > size) cut(need);
}

// For a directory, a pipe or a text file the loader's own message does not help, and it would block on a pipe.
void need_shared_library(const std::string& path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) {
    fail(ErrorKind::usage, path, "there is no plugin: ", std::strerror(errno));
  }
  if (!S_ISREG(st.st_mode)) {
    fail(ErrorKind::usage, path, "is ", S_ISDIR(st.st_mode) ? "a directory" : "not a file",
         ": expected a plugin, a shared library such as libmine.so");
  }
  char magic[4] = {};
  std::ifstream file(path, std::ios::binary);
  file.read(magic, sizeof magic);
  if (std::memcmp(magic,
                  "\x7f"
                  "ELF",
                  sizeof magic) != 0) {
    fail(ErrorKind::usage, path,
         "is not a shared library: expected a plugin such as libmine.so (docs/extend/layer.md)");
  }
  need_whole(file, static_cast<uint64_t>(st.st_size), path);
}

void need_this_freight(const Plugin& plugin, const std::string& path) {
  const bool same = plugin.interface == kPluginInterface && std::string(plugin.version) == version();
  if (same && plugin.layout == plugin_layout()) return;
  fail(ErrorKind::usage, path, "was built for another Freight: expected ", version(), " (interface ", kPluginInterface,
       "), got ", plugin.version, " (interface ", plugin.interface,
       same ? ", by a compiler that lays out classes differently" : "", "); rebuild it with the headers of this one");
}

}  // namespace

void load_plugin(const std::string& given) {
  const std::string path = given.find('/') == std::string::npos ? "./" + given : given;
  need_shared_library(path);
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fail(ErrorKind::usage, path, "the plugin cannot be loaded by Freight ", version(), ": ", dlerror(),
         "; a plugin is built with the headers of the Freight that loads it");
  }
  static std::vector<void*> loaded;  // never closed: layers that are known have their code there
  if (std::find(loaded.begin(), loaded.end(), library) != loaded.end()) return;
  using Entry = const Plugin* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, kEntry));
  if (!entry) {
    fail(ErrorKind::usage, path, "is not a plugin: it has no function ", kEntry,
         ", which FREIGHT_PLUGIN { ... } in one of its sources defines (freight/nn/plugin.h)");
  }
  const Plugin& plugin = *entry();
  need_this_freight(plugin, path);
  try {
    plugin.declare();
  } catch (const Error& e) {
    throw Error(e.kind(), path, e.what());
  } catch (const std::exception& e) {
    fail(ErrorKind::usage, path, "the plugin's declarations failed: ", e.what());
  }
  loaded.push_back(library);
}

}  // namespace freight::nn
