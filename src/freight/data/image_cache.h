// ImageCache remembers images that were once decoded completely without an error: the state of their files, and for a
// small dataset their bytes. Such an image need not be decoded to its end again, and a cached one need not be read from
// its file. Thread-safe.
#pragma once
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "freight/base/array.h"
#include "freight/io/file.h"

namespace freight::data {

class ImageCache {
 public:
  // For `count` images; at most `most` bytes are cached.
  explicit ImageCache(size_t count, size_t most = kMost);
  // The bytes of image `index`, valid as long as the cache; empty if it is not cached.
  io::ByteView find(size_t index) const;
  // True if image `index` had no error when its file was in this state (io::read_file).
  bool sound(size_t index, uint64_t state) const;
  // Records that the image was decoded to its end, and caches its bytes if there is room. The first of several calls
  // for an image counts.
  void keep(size_t index, io::ByteView bytes, uint64_t state);

  static constexpr size_t kMost = size_t{64} << 20;
  static constexpr size_t kBlock = size_t{4} << 20;  // a block of contiguous files, which large pages fit into

 private:
  struct Known {
    std::atomic<const uint8_t*> bytes = nullptr;
    size_t size = 0;  // written before bytes
    std::atomic<uint64_t> state = 0;
  };
  uint8_t* place(size_t size);
  std::vector<Known> known_;
  std::mutex mutex_;
  // Files are contiguous in large blocks: threads that each allocated small blocks would contend for the system's lock.
  std::vector<std::shared_ptr<Storage>> blocks_;
  uint8_t* next_ = nullptr;  // the free part of the last block
  size_t left_ = 0;          // its bytes
  size_t room_;
};

}  // namespace freight::data
