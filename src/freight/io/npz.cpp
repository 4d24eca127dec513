// .npz archives: the zip reader and writer of zip_internal.h, with a .npy file as each member.
#include <algorithm>
#include <cstring>
#include <vector>

#include "freight/base/error.h"
#include "freight/io/memory_need.h"
#include "freight/io/npy.h"
#include "freight/io/npy_internal.h"
#include "freight/io/zip_internal.h"

namespace freight::io {

namespace {
std::string key_of(const ZipMember& m) {
  return ends_with(m.name, ".npy") ? m.name.substr(0, m.name.size() - 4) : m.name;
}
}  // namespace

NamedArrays parse_npz(ByteView bytes, const std::string& name, const std::vector<std::string>& only) {
  const ZipArchive archive(bytes, name, ErrorKind::data);
  std::vector<ZipMember> members = archive.members();
  std::erase_if(members, [&](const ZipMember& m) {
    return !only.empty() && std::find(only.begin(), only.end(), key_of(m)) == only.end();
  });
  double claimed = 0;
  for (const ZipMember& m : members) claimed += static_cast<double>(m.size);
  need_memory(claimed, name, "its arrays");
  return reading(name, [&] {
    NamedArrays out;
    for (const ZipMember& m : members) {
      const std::string key = key_of(m);
      const ZipContent content = archive.read(m);
      if (!out.emplace(key, parse_npy(content.view, cat(name, "[", m.name, "]"))).second) {
        fail(ErrorKind::data, name, "two arrays named '", key, "'");
      }
    }
    return out;
  });
}

std::vector<std::string> npz_keys(ByteView bytes, const std::string& name) {
  std::vector<std::string> keys;
  const ZipArchive archive(bytes, name, ErrorKind::data);
  for (const ZipMember& m : archive.members()) keys.push_back(key_of(m));
  return keys;
}

NamedArrays load_npz(const std::string& path, const std::vector<std::string>& only) {
  return parse_npz(read_file(path), path, only);
}

void save_npz(const std::string& path, const NamedArrays& arrays) {
  AtomicFile file(path);
  ZipWriter zip(file, path, 1);
  for (const auto& [key, array] : arrays) {
    const Array a = array.dtype() == DType::bf16 ? array.cast(DType::f32) : array;
    const std::string header = npy_header(a.dtype(), a.shape());
    Bytes content(header.size() + a.bytes());
    std::memcpy(content.data(), header.data(), header.size());
    if (a.bytes() > 0) std::memcpy(content.data() + header.size(), a.raw(), a.bytes());
    zip.add(key + ".npy", content);
  }
  zip.finish();
  file.commit();
}

}  // namespace freight::io
