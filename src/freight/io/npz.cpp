// .npz archives: a small zip reader (central directory, stored and deflated members, zip64 sizes) and a writer of
// stored members. Offsets and sizes are never trusted: everything is checked against the file before it is read.
#include <algorithm>
#include <cstring>
#include <vector>

#include "freight/base/error.h"
#include "freight/io/memory_need.h"
#include "freight/io/npy.h"
#include "freight/io/npy_internal.h"

namespace freight::io {

namespace {
constexpr uint32_t kLocalMark = 0x04034b50, kCentralMark = 0x02014b50, kEndMark = 0x06054b50, kEnd64Mark = 0x06064b50;
constexpr uint32_t kMax32 = 0xffffffffu;

// Bounds-checked little-endian reads.
class ZipReader {
 public:
  ZipReader(ByteView bytes, const std::string& name) : bytes_(bytes), name_(name) {}
  uint64_t word(uint64_t at, int size) const {
    const ByteView v = range(at, static_cast<uint64_t>(size));
    uint64_t out = 0;
    for (int i = size - 1; i >= 0; --i) out = out << 8 | v[static_cast<size_t>(i)];
    return out;
  }
  uint32_t u16(uint64_t at) const { return static_cast<uint32_t>(word(at, 2)); }
  uint32_t u32(uint64_t at) const { return static_cast<uint32_t>(word(at, 4)); }
  uint64_t u64(uint64_t at) const { return word(at, 8); }
  ByteView range(uint64_t at, uint64_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) {
      fail(ErrorKind::data, name_, "truncated or corrupt zip archive: ", size, " bytes at ", at, " in a file of ",
           bytes_.size());
    }
    return bytes_.subspan(at, size);
  }
  uint64_t size() const { return bytes_.size(); }

 private:
  ByteView bytes_;
  const std::string& name_;
};

struct Member {
  std::string name;
  uint32_t method, crc, flags;
  uint64_t packed, size, local_offset;
};

struct Directory {
  uint64_t entries, offset;
};

Directory find_directory(const ZipReader& in, const std::string& name) {
  // The end record is the last 22 bytes plus a comment of at most 65,535.
  constexpr uint64_t kEndSize = 22;
  if (in.size() < kEndSize) fail(ErrorKind::data, name, "not a zip archive: ", in.size(), " bytes");
  const uint64_t last = in.size() - kEndSize, first = last > 65535 ? last - 65535 : 0;
  for (uint64_t at = last + 1; at-- > first;) {
    if (in.u32(at) != kEndMark) continue;
    Directory d{in.u16(at + 10), in.u32(at + 16)};
    if ((d.entries == 0xffff || d.offset == kMax32) && at >= 20) {
      const uint64_t end64 = in.u64(at - 20 + 8);  // from the zip64 locator
      if (in.u32(end64) != kEnd64Mark) fail(ErrorKind::data, name, "corrupt zip archive: no zip64 end record");
      d = {in.u64(end64 + 32), in.u64(end64 + 48)};
    }
    return d;
  }
  fail(ErrorKind::data, name, "not a zip archive, or truncated: no end record");
}

// The central directory entry at `at`; advances it.
Member read_member(const ZipReader& in, uint64_t& at, const std::string& name) {
  if (in.u32(at) != kCentralMark) fail(ErrorKind::data, name, "corrupt zip archive: bad directory entry at ", at);
  Member m{"", in.u16(at + 10), in.u32(at + 16), in.u16(at + 8), in.u32(at + 20), in.u32(at + 24), in.u32(at + 42)};
  const uint64_t name_size = in.u16(at + 28), extra_size = in.u16(at + 30), comment_size = in.u16(at + 32);
  const ByteView text = in.range(at + 46, name_size);
  m.name.assign(text.begin(), text.end());
  uint64_t extra = at + 46 + name_size;
  const uint64_t extra_end = extra + extra_size;
  while (extra + 4 <= extra_end) {
    const uint32_t id = in.u16(extra), size = in.u16(extra + 2);
    if (id == 1) {  // zip64: 8-byte values for those fields that are full
      uint64_t p = extra + 4;
      for (uint64_t* field : {&m.size, &m.packed, &m.local_offset}) {
        if (*field != kMax32) continue;
        *field = in.u64(p);
        p += 8;
      }
    }
    extra += 4 + size;
  }
  at = extra_end + comment_size;
  return m;
}

Array read_array(const ZipReader& in, const Member& m, const std::string& name) {
  const std::string where = cat(name, "[", m.name, "]");
  if (in.u32(m.local_offset) != kLocalMark) fail(ErrorKind::data, where, "corrupt zip archive: no local header");
  if (m.flags & 1) fail(ErrorKind::data, where, "encrypted zip members are not supported");
  const uint64_t start = m.local_offset + 30 + in.u16(m.local_offset + 26) + in.u16(m.local_offset + 28);
  const ByteView packed = in.range(start, m.packed);
  Bytes unpacked;
  ByteView content = packed;
  if (m.method == 8) {
    if (m.size > m.packed * kMaxInflateRatio + 64) {
      fail(ErrorKind::data, where, "corrupt zip archive: claims ", m.size, " bytes from ", m.packed);
    }
    unpacked = Bytes(m.size);
    if (!inflate_raw(packed, unpacked.data(), m.size)) fail(ErrorKind::data, where, "corrupt deflate data");
    content = unpacked;
  } else if (m.method != 0) {
    fail(ErrorKind::data, where, "zip method ", m.method, " is not supported, expected stored or deflate");
  } else if (m.size != m.packed) {
    fail(ErrorKind::data, where, "corrupt zip archive: stored sizes differ: ", m.packed, " and ", m.size);
  }
  if (crc32(content) != m.crc) fail(ErrorKind::data, where, "corrupt zip archive: checksum differs");
  return parse_npy(content, where);
}

void put(std::string& out, uint64_t value, int size) {
  for (int i = 0; i < size; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

// The fields that local header and directory entry share, from "version needed" to "extra size".
void put_common(std::string& out, uint32_t crc, uint64_t size, size_t name_size) {
  put(out, 20, 2);    // version needed: 2.0
  put(out, 0, 2);     // flags
  put(out, 0, 2);     // method: stored
  put(out, 0, 2);     // time
  put(out, 0x21, 2);  // date: 1980-01-01, so that equal arrays give equal files
  put(out, crc, 4);
  put(out, size, 4);  // packed
  put(out, size, 4);  // unpacked
  put(out, name_size, 2);
  put(out, 0, 2);  // extra
}
}  // namespace

namespace {
std::vector<Member> members_of(const ZipReader& in, const std::string& name) {
  const Directory d = find_directory(in, name);
  std::vector<Member> all;
  uint64_t at = d.offset;
  uint64_t left = in.size();
  for (uint64_t i = 0; i < d.entries; ++i) {
    all.push_back(read_member(in, at, name));
    // Members that share their bytes would be as many arrays as there are names.
    if (all.back().packed > left) fail(ErrorKind::data, name, "corrupt zip archive: its members overlap");
    left -= all.back().packed;
  }
  return all;
}
std::string key_of(const Member& m) { return ends_with(m.name, ".npy") ? m.name.substr(0, m.name.size() - 4) : m.name; }
}  // namespace

NamedArrays parse_npz(ByteView bytes, const std::string& name, const std::vector<std::string>& only) {
  const ZipReader in(bytes, name);
  std::vector<Member> members = members_of(in, name);
  std::erase_if(members, [&](const Member& m) {
    return !only.empty() && std::find(only.begin(), only.end(), key_of(m)) == only.end();
  });
  double claimed = 0;
  for (const Member& m : members) claimed += static_cast<double>(m.size);
  need_memory(claimed, name, "its arrays");
  return reading(name, [&] {
    NamedArrays out;
    for (const Member& m : members) {
      const std::string key = key_of(m);
      if (!out.emplace(key, read_array(in, m, name)).second) {
        fail(ErrorKind::data, name, "two arrays named '", key, "'");
      }
    }
    return out;
  });
}

std::vector<std::string> npz_keys(ByteView bytes, const std::string& name) {
  std::vector<std::string> keys;
  for (const Member& m : members_of(ZipReader(bytes, name), name)) keys.push_back(key_of(m));
  return keys;
}

NamedArrays load_npz(const std::string& path, const std::vector<std::string>& only) {
  return parse_npz(read_file(path), path, only);
}

void save_npz(const std::string& path, const NamedArrays& arrays) {
  AtomicFile file(path);
  std::string directory;
  uint64_t offset = 0;
  for (const auto& [key, array] : arrays) {
    const std::string member = key + ".npy";
    const Array a = array.dtype() == DType::bf16 ? array.cast(DType::f32) : array;
    const std::string header = npy_header(a.dtype(), a.shape());
    const uint64_t size = header.size() + a.bytes();
    if (member.size() > 0xffff || arrays.size() > 0xfffe || offset + size + member.size() + 30 >= kMax32) {
      fail(ErrorKind::usage, path, "npz archives above 4 GiB or 65,534 arrays are not written: save npy files");
    }
    Bytes content(size);
    std::memcpy(content.data(), header.data(), header.size());
    if (a.bytes() > 0) std::memcpy(content.data() + header.size(), a.raw(), a.bytes());
    const uint32_t crc = crc32(content);
    std::string local;
    put(local, kLocalMark, 4);
    put_common(local, crc, size, member.size());
    local += member;
    file.write(local);
    file.write(content);
    put(directory, kCentralMark, 4);
    put(directory, 20, 2);  // version made by
    put_common(directory, crc, size, member.size());
    put(directory, 0, 6);  // comment, disk, internal attributes
    put(directory, 0, 4);  // external attributes
    put(directory, offset, 4);
    directory += member;
    offset += local.size() + size;
  }
  std::string end;
  put(end, kEndMark, 4);
  put(end, 0, 4);  // disks
  put(end, arrays.size(), 2);
  put(end, arrays.size(), 2);
  put(end, directory.size(), 4);
  put(end, offset, 4);
  put(end, 0, 2);  // comment
  file.write(directory);
  file.write(end);
  file.commit();
}

}  // namespace freight::io
