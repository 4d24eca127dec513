// See zip_internal.h.
#include <algorithm>
#include <cstring>

#include "freight/io/little_endian_internal.h"
#include "freight/io/zip_internal.h"

namespace freight::io {

namespace {
constexpr uint32_t kLocalMark = 0x04034b50, kCentralMark = 0x02014b50, kEndMark = 0x06054b50, kEnd64Mark = 0x06064b50;
constexpr uint32_t kMax32 = 0xffffffffu;
constexpr size_t kLocalSize = 30;  // of a local header without name and extra field

// The fields that local header and directory entry share, from "version needed" to "extra size".
void put_common(std::string& out, uint32_t crc, uint64_t size, size_t name_size, size_t extra_size) {
  put_little_endian(out, 20, 2);    // version needed: 2.0
  put_little_endian(out, 0, 2);     // flags
  put_little_endian(out, 0, 2);     // method: stored
  put_little_endian(out, 0, 2);     // time
  put_little_endian(out, 0x21, 2);  // date: 1980-01-01, so that equal members give equal files
  put_little_endian(out, crc, 4);
  put_little_endian(out, size, 4);  // packed
  put_little_endian(out, size, 4);  // unpacked
  put_little_endian(out, name_size, 2);
  put_little_endian(out, extra_size, 2);
}
}  // namespace

bool is_zip(ByteView bytes) { return bytes.size() >= 4 && std::memcmp(bytes.data(), "PK\x03\x04", 4) == 0; }

uint64_t ZipArchive::word(uint64_t at, int size) const { return little_endian(range(at, static_cast<uint64_t>(size))); }

ByteView ZipArchive::range(uint64_t at, uint64_t size) const {
  if (at > bytes_.size() || size > bytes_.size() - at) {
    fail(kind_, name_, "truncated or corrupt zip archive: ", size, " bytes at ", at, " in a file of ", bytes_.size());
  }
  return bytes_.subspan(at, size);
}

ZipArchive::Directory ZipArchive::find_directory() const {
  // The end record is the last 22 bytes plus a comment of at most 65,535.
  constexpr uint64_t kEndSize = 22;
  if (bytes_.size() < kEndSize) fail(kind_, name_, "not a zip archive: ", bytes_.size(), " bytes");
  const uint64_t last = bytes_.size() - kEndSize, first = last > 65535 ? last - 65535 : 0;
  for (uint64_t at = last + 1; at-- > first;) {
    if (u32(at) != kEndMark) continue;
    Directory d{u16(at + 10), u32(at + 16)};
    if ((d.entries == 0xffff || d.offset == kMax32) && at >= 20) {
      const uint64_t end64 = u64(at - 20 + 8);  // from the zip64 locator
      if (u32(end64) != kEnd64Mark) fail(kind_, name_, "corrupt zip archive: no zip64 end record");
      d = {u64(end64 + 32), u64(end64 + 48)};
    }
    return d;
  }
  fail(kind_, name_, "not a zip archive, or truncated: no end record");
}

// The central directory entry at `at`; advances it.
ZipMember ZipArchive::read_entry(uint64_t& at) const {
  if (u32(at) != kCentralMark) fail(kind_, name_, "corrupt zip archive: bad directory entry at ", at);
  ZipMember m{"", u16(at + 10), u32(at + 16), u16(at + 8), u32(at + 20), u32(at + 24), u32(at + 42), 0};
  const uint64_t name_size = u16(at + 28), extra_size = u16(at + 30), comment_size = u16(at + 32);
  const ByteView text = range(at + 46, name_size);
  m.name.assign(text.begin(), text.end());
  uint64_t extra = at + 46 + name_size;
  const uint64_t extra_end = extra + extra_size;
  while (extra + 4 <= extra_end) {
    const uint32_t id = u16(extra), size = u16(extra + 2);
    if (id == 1) {  // zip64: 8-byte values for those fields that are full
      uint64_t p = extra + 4;
      for (uint64_t* field : {&m.size, &m.packed, &m.header}) {
        if (*field != kMax32) continue;
        *field = u64(p);
        p += 8;
      }
    }
    extra += 4 + size;
  }
  at = extra_end + comment_size;
  return m;
}

// Members that share their bytes would be as many arrays as there are names.
void ZipArchive::check_places(uint64_t directory) {
  std::vector<const ZipMember*> order;
  for (ZipMember& m : members_) {
    if (u32(m.header) != kLocalMark) fail(kind_, cat(name_, "[", m.name, "]"), "corrupt zip archive: no local header");
    m.begin = m.header + kLocalSize + u16(m.header + 26) + u16(m.header + 28);
    range(m.begin, m.packed);
    order.push_back(&m);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->header < b->header; });
  for (size_t i = 0; i < order.size(); ++i) {
    const uint64_t next = i + 1 < order.size() ? order[i + 1]->header : directory;
    if (order[i]->begin + order[i]->packed > next) fail(kind_, name_, "corrupt zip archive: its members overlap");
  }
  for (const ZipMember& m : members_) {
    const ByteView own = range(m.header + kLocalSize, u16(m.header + 26));
    if (!std::equal(own.begin(), own.end(), m.name.begin(), m.name.end()) || u16(m.header + 8) != m.method) {
      fail(kind_, cat(name_, "[", m.name, "]"), "corrupt zip archive: directory and local header differ");
    }
  }
}

ZipArchive::ZipArchive(ByteView bytes, const std::string& name, ErrorKind kind)
    : bytes_(bytes), name_(name), kind_(kind) {
  const Directory d = find_directory();
  uint64_t at = d.offset;
  for (uint64_t i = 0; i < d.entries; ++i) members_.push_back(read_entry(at));
  check_places(d.offset);
}

ZipContent ZipArchive::read(const ZipMember& m, bool checksum) const {
  const std::string where = cat(name_, "[", m.name, "]");
  if (m.flags & 1) fail(kind_, where, "encrypted zip members are not supported");
  ZipContent content{{}, range(m.begin, m.packed)};
  if (m.method == 8) {
    if (m.size > m.packed * kMaxInflateRatio + 64) {  // the bytes of the file are fewer than 2^50
      fail(kind_, where, "corrupt zip archive: claims ", m.size, " bytes from ", m.packed);
    }
    content.unpacked = Bytes(m.size);
    if (!inflate_raw(content.view, content.unpacked.data(), m.size)) fail(kind_, where, "corrupt deflate data");
    content.view = content.unpacked;
  } else if (m.method != 0) {
    fail(kind_, where, "zip method ", m.method, " is not supported, expected stored or deflate");
  } else if (m.size != m.packed) {
    fail(kind_, where, "corrupt zip archive: stored sizes differ: ", m.packed, " and ", m.size);
  }
  if (checksum && crc32(content.view) != m.crc) fail(kind_, where, "corrupt zip archive: checksum differs");
  return content;
}

void ZipWriter::add(const std::string& name, ByteView content) {
  if (name.size() > 0xffff || count_ > 0xfffd ||
      offset_ + content.size() + name.size() + 2 * alignment_ >= kMax32 - 64) {
    fail(ErrorKind::usage, path_, "zip archives above 4 GiB or 65,534 members are not written");
  }
  // An extra field of padding has a mark, its size and the padding: four bytes at least.
  size_t extra = (alignment_ - (offset_ + kLocalSize + name.size()) % alignment_) % alignment_;
  if (extra > 0 && extra < 4) extra += alignment_;
  const uint32_t crc = crc32(content);
  std::string local;
  put_little_endian(local, kLocalMark, 4);
  put_common(local, crc, content.size(), name.size(), extra);
  local += name;
  if (extra > 0) {
    local += "FB";  // PyTorch's mark of padding
    put_little_endian(local, extra - 4, 2);
    local.append(extra - 4, 'Z');
  }
  file_.write(local);
  file_.write(content);
  put_little_endian(directory_, kCentralMark, 4);
  put_little_endian(directory_, 20, 2);  // version made by
  put_common(directory_, crc, content.size(), name.size(), 0);
  put_little_endian(directory_, 0, 6);  // comment, disk, internal attributes
  put_little_endian(directory_, 0, 4);  // external attributes
  put_little_endian(directory_, offset_, 4);
  directory_ += name;
  offset_ += local.size() + content.size();
  ++count_;
}

void ZipWriter::finish() {
  std::string end;
  put_little_endian(end, kEndMark, 4);
  put_little_endian(end, 0, 4);  // disks
  put_little_endian(end, count_, 2);
  put_little_endian(end, count_, 2);
  put_little_endian(end, directory_.size(), 4);
  put_little_endian(end, offset_, 4);
  put_little_endian(end, 0, 2);  // comment
  file_.write(directory_);
  file_.write(end);
}

}  // namespace freight::io
