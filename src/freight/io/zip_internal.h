// Zip archives, of which npz files and PyTorch's files are kinds: the central directory, stored and deflated members,
// zip64; and a writer of stored members. Offsets and sizes are never trusted: everything is checked against the file
// before it is read. What members mean is their readers' business: npz.cpp, torch_file.cpp.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "freight/base/error.h"
#include "freight/io/file.h"

namespace freight::io {

bool is_zip(ByteView bytes);  // by its first four bytes

struct ZipMember {
  std::string name;
  uint32_t method, crc, flags;
  uint64_t packed, size;   // bytes in the archive, and unpacked
  uint64_t header, begin;  // offsets of the local header and of the bytes
};

// The bytes of a member: a view of the archive where it is stored.
struct ZipContent {
  Bytes unpacked;
  ByteView view;
};

class ZipArchive {
 public:
  // Reads the directory. Throws Error(kind) that begins with `name`: damaged, members whose bytes overlap, a directory
  // that names members otherwise than they name themselves. `bytes` outlive this.
  ZipArchive(ByteView bytes, const std::string& name, ErrorKind kind);
  const std::vector<ZipMember>& members() const { return members_; }  // in the order of the directory
  // Throws Error(kind) that begins with `name[member]`: encrypted, damaged, or of another compression.
  ZipContent read(const ZipMember& member, bool checksum = true) const;

 private:
  uint64_t word(uint64_t at, int size) const;
  uint32_t u16(uint64_t at) const { return static_cast<uint32_t>(word(at, 2)); }
  uint32_t u32(uint64_t at) const { return static_cast<uint32_t>(word(at, 4)); }
  uint64_t u64(uint64_t at) const { return word(at, 8); }
  ByteView range(uint64_t at, uint64_t size) const;
  struct Directory {
    uint64_t entries, offset;
  };
  Directory find_directory() const;
  ZipMember read_entry(uint64_t& at) const;
  void check_places(uint64_t directory);

  ByteView bytes_;
  std::string name_;
  ErrorKind kind_;
  std::vector<ZipMember> members_;
};

// Writes stored members. Equal members give equal files.
class ZipWriter {
 public:
  // Bytes of members begin at a multiple of `alignment`.
  ZipWriter(AtomicFile& file, std::string path, size_t alignment) : file_(file), path_(path), alignment_(alignment) {}
  // Throws Error(usage) for archives above 4 GiB or 65,534 members.
  void add(const std::string& name, ByteView content);
  void finish();  // writes the directory; once

 private:
  AtomicFile& file_;
  std::string path_;
  size_t alignment_;
  std::string directory_;
  uint64_t offset_ = 0;
  size_t count_ = 0;
};

}  // namespace freight::io
