// Hashes of bytes and of large files. A large file has a hash for each part of it instead of one for the whole, so
// that several threads share the work, while others write or read the file. Downloads are held against SHA-256, which
// others publish; a checkpoint's files against XXH3 of 128 bits, which finds damage as surely (a forger could write the
// manifest, too) at the memory's speed: SHA-256 without the processor's help is slower than many disks.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "freight/base/array.h"
#include "freight/io/file.h"

namespace freight::io {

// The hash in lower-case hex; XXH3 in its canonical order, as `xxhsum -H2` prints it.
std::string sha256(ByteView bytes);
std::string xxh3_128(ByteView bytes);  // the same by XXH3 of 128 bits
class Xxh3 {                           // XXH3 of bytes that come in pieces
 public:
  Xxh3();
  void add(ByteView bytes);  // the next piece
  std::string hex() const;   // as xxh3_128 of all pieces

 private:
  std::shared_ptr<void> state_;
};
// The SHA-256 of a file, which need not fit into memory. Throws Error(data) that names a file that cannot be read.
std::string sha256_of(const std::string& path);

struct PartHashes {                // The hashes of a file's parts.
  uint64_t bytes = 0;              // of the whole
  uint64_t part = 0;               // bytes of each part but the last
  std::vector<std::string> parts;  // the XXH3 of each, in order
};
// The hashes of all pieces together, computed by several threads.
PartHashes part_hashes(const std::vector<ByteView>& pieces);
// The content of a file that must be as it was hashed; read and checked by several threads. Throws Error(checkpoint)
// that names the file and what differs, Error(data) where it cannot be read.
std::shared_ptr<Storage> read_verified(const std::string& path, const PartHashes& expected);

}  // namespace freight::io
