// gzip files that unpack to far more than they are, for tests of readers.
#pragma once
#include <zlib.h>

#include <string>

#include "tests/support/files.h"

namespace freight::testing {

// A gzip file of this text in exactly `size` bytes, where that is not 0: a comment fills it up.
inline std::string gzip_packed(const std::string& text, size_t size = 0) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string data(deflateBound(&z, text.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(data.data());
  z.avail_out = static_cast<uInt>(data.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  data.resize(z.total_out);
  deflateEnd(&z);
  constexpr size_t kHead = 10, kTail = 8;
  const size_t least = kHead + 1 + data.size() + kTail;
  EXPECT_TRUE(size == 0 || size >= least) << least;
  const std::string head("\x1f\x8b\x08\x10\x00\x00\x00\x00\x00\x03", kHead);
  const std::string comment(size > least ? size - least : 0, '-');
  return head + comment + '\0' + data + le(io::crc32(bytes_of(text)), 4) + le(text.size(), 4);
}

// A file of `members` such, each of this text: a few megabytes that unpack to gigabytes.
inline std::string gzip_bomb(const std::string& text, size_t members) {
  const std::string one = gzip_packed(text);
  std::string all;
  for (size_t i = 0; i < members; ++i) all += one;
  return all;
}

}  // namespace freight::testing
