// ImageCache: what is known of images that were once decoded to their end without a fault: the bytes of some, of
// all of them in which state their files were. Who needs one again reads no more of it than the part that is wanted,
// and a kept one from no file. Thread-safe.
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
  // Of `count` images; together at most so many bytes are kept.
  explicit ImageCache(size_t count, size_t most = kMost);
  // The file of image `index`, for as long as the cache lives; empty where it is not kept.
  io::ByteView find(size_t index) const;
  // Whether image `index` was without a fault when its file was in this state (io::read_file).
  bool sound(size_t index, uint64_t state) const;
  // The image was decoded to its end: its bytes are kept where there is room. The first of several keeps it.
  void keep(size_t index, io::ByteView bytes, uint64_t state);

  static constexpr size_t kMost = size_t{64} << 20;
  static constexpr size_t kBlock = size_t{4} << 20;  // of files one behind the other; the system's large pages fit in

 private:
  struct Known {
    std::atomic<const uint8_t*> bytes = nullptr;
    size_t size = 0;  // written before bytes
    std::atomic<uint64_t> state = 0;
  };
  uint8_t* place(size_t size);
  std::vector<Known> known_;
  std::mutex mutex_;
  // Files lie one behind the other in large blocks: threads that each allocate small ones, all to be kept, would wait
  // for each other in the system.
  std::vector<std::shared_ptr<Storage>> blocks_;
  uint8_t* next_ = nullptr;  // in the block that is being filled
  size_t left_ = 0;          // bytes of that
  size_t room_;
};

}  // namespace freight::data
