// The bytes of a file one piece after another, for readers of files that need not fit into memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "freight/io/file.h"

namespace freight::io {

class ByteStream {
 public:
  // Reads a regular file by pieces, unpacked where it is gzip; a pipe or device to its end at once. Throws
  // Error(data) that names the path.
  explicit ByteStream(const std::string& path);
  explicit ByteStream(ByteView bytes);  // they outlive it
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  // Fills `to` with the next bytes, fewer than `size` only at the end. Throws Error(data) where they cannot be read or
  // unpacked, or the file became shorter, and Error(runtime) where the reading is to stop (stop_reading_when).
  size_t read(uint8_t* to, size_t size);
  // Begins again.
  void rewind();
  // UTF-8 from here on in place of UTF-16, where the bytes begin with the byte order mark of that. Called before any
  // byte is read.
  void to_utf8();
  uint64_t size() const;  // 0 where it is not known

  struct Source;  // where they come from

 private:
  std::unique_ptr<Source> source_;
  std::string path_;  // empty: bytes in memory
};

// All that gzip data unpack to, however much that is: what is more than they may become (most_unpacked) is refused as
// soon as that is seen. Throws Error(data), Error(capacity) that begin with `name`.
Bytes unpack_by_pieces(ByteView bytes, const std::string& name);

}  // namespace freight::io
