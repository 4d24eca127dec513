// SHA-256 of bytes and of large files. A large file has a hash for each part of it instead of one for the whole, so
// that several threads share the work, while others write or read the file.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "freight/io/file.h"

namespace freight::io {

// In lower-case hex.
std::string sha256(ByteView bytes);

struct PartHashes {
  uint64_t bytes = 0;               // of the whole
  uint64_t part = 0;                // bytes of each part but the last
  std::vector<std::string> sha256;  // of the parts, in order
};
// Of what the pieces are together, by several threads.
PartHashes part_hashes(const std::vector<ByteView>& pieces);
// The content of a file that must be as it was hashed; read and checked by several threads. Throws Error(checkpoint)
// that names the file and what differs, Error(data) where it cannot be read.
Bytes read_verified(const std::string& path, const PartHashes& expected);

}  // namespace freight::io
