// PictureCache: the bytes of pictures that were once decoded to their end without a fault. Who needs one of them again
// reads no file, and no more of it than the part that is wanted. Thread-safe, without locks.
#pragma once
#include <atomic>
#include <cstddef>
#include <vector>

#include "freight/io/file.h"

namespace freight::data {

class PictureCache {
 public:
  // Of `count` pictures, together at most so many bytes.
  explicit PictureCache(size_t count, size_t most = kMost);
  ~PictureCache();
  PictureCache(const PictureCache&) = delete;
  PictureCache& operator=(const PictureCache&) = delete;
  // The file of picture `index`, for as long as the cache lives; null where it is not kept.
  const io::Bytes* find(size_t index) const;
  // Keeps it where there is room. Of several that keep the same picture at once, one does.
  void keep(size_t index, io::Bytes bytes);

  static constexpr size_t kMost = size_t{64} << 20;

 private:
  std::vector<std::atomic<const io::Bytes*>> kept_;
  std::atomic<size_t> room_;
};

}  // namespace freight::data
