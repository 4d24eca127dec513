// See picture_cache.h.
#include "freight/data/picture_cache.h"

#include <memory>
#include <utility>

namespace freight::data {

PictureCache::PictureCache(size_t count, size_t most) : kept_(count), room_(most) {}

PictureCache::~PictureCache() {
  for (auto& k : kept_) delete k.load();
}

const io::Bytes* PictureCache::find(size_t index) const { return kept_[index].load(std::memory_order_acquire); }

void PictureCache::keep(size_t index, io::Bytes bytes) {
  const size_t size = bytes.size();
  size_t room = room_.load();
  do {
    if (size > room) return;
  } while (!room_.compare_exchange_weak(room, room - size));
  auto mine = std::make_unique<const io::Bytes>(std::move(bytes));
  const io::Bytes* none = nullptr;
  if (kept_[index].compare_exchange_strong(none, mine.get(), std::memory_order_acq_rel)) {
    mine.release();  // NOLINT(bugprone-unused-return-value): kept_ owns it
  } else {
    room_ += size;
  }
}

}  // namespace freight::data
