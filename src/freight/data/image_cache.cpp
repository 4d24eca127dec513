// See image_cache.h.
#include "freight/data/image_cache.h"

#include <cstring>
#include <utility>

namespace freight::data {

ImageCache::ImageCache(size_t count, size_t most) : known_(count), room_(most) {}

io::ByteView ImageCache::find(size_t index) const {
  const uint8_t* const bytes = known_[index].bytes.load(std::memory_order_acquire);
  return bytes ? io::ByteView(bytes, known_[index].size) : io::ByteView();
}

bool ImageCache::sound(size_t index, uint64_t state) const {
  return state != 0 && known_[index].state.load(std::memory_order_relaxed) == state;
}

// A large file has a block to itself; the others fill one after the other.
uint8_t* ImageCache::place(size_t size) {
  if (size > kBlock / 4) {
    blocks_.push_back(Storage::allocate(size));
    return static_cast<uint8_t*>(blocks_.back()->data());
  }
  if (left_ < size) {
    blocks_.push_back(Storage::allocate(kBlock));
    next_ = static_cast<uint8_t*>(blocks_.back()->data());
    left_ = kBlock;
  }
  left_ -= size;
  return std::exchange(next_, next_ + size);
}

void ImageCache::keep(size_t index, io::ByteView bytes, uint64_t state) {
  Known& known = known_[index];
  known.state.store(state, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  if (known.bytes.load(std::memory_order_relaxed) || bytes.empty() || bytes.size() > room_) return;
  uint8_t* const to = place(bytes.size());
  room_ -= bytes.size();
  std::memcpy(to, bytes.data(), bytes.size());
  known.size = bytes.size();
  known.bytes.store(to, std::memory_order_release);
}

}  // namespace freight::data
