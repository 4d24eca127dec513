// The dictionary of a column of words. See cells.h.
#include <algorithm>
#include <cstring>

#include "freight/base/error.h"
#include "freight/data/cells.h"

namespace freight::data {

namespace {

// Eight bytes at a time; a product moves what differs in low bits to the high ones, a shift back again.
uint64_t mixed_bits(uint64_t h) {
  h *= 0x9E3779B97F4A7C15ull;
  return h ^ (h >> 32);
}

uint32_t hash_of_word(std::string_view word) {
  uint64_t h = mixed_bits(word.size() + 1);
  size_t at = 0;
  for (; at + 8 <= word.size(); at += 8) {
    uint64_t eight = 0;
    std::memcpy(&eight, word.data() + at, 8);
    h = mixed_bits(h ^ eight);
  }
  uint64_t rest = 0;
  std::memcpy(&rest, word.data() + at, word.size() - at);
  return static_cast<uint32_t>(mixed_bits(h ^ rest));
}

}  // namespace

uint32_t Words::find(std::string_view word) const {
  if (slots_.empty()) return kMissing;
  const uint32_t hash = hash_of_word(word);
  for (size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[at];
    if (slot.code == kMissing || (slot.hash == hash && (*this)[slot.code] == word)) return slot.code;
  }
}

uint32_t Words::add(std::string_view word) {
  if (4 * (size() + 1) > 3 * slots_.size()) grow();
  const uint32_t hash = hash_of_word(word);
  size_t at = hash & (slots_.size() - 1);
  for (;; at = (at + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[at];
    if (slot.code == kMissing) break;
    if (slot.hash == hash && (*this)[slot.code] == word) return slot.code;
  }
  const size_t code = size();
  if (code == kMissing) fail(ErrorKind::data, "table", "a column has more than ", kMissing, " different words");
  bytes_.append(word.data(), word.size());
  ends_.push_back(bytes_.size());
  slots_[at] = {hash, static_cast<uint32_t>(code)};
  return static_cast<uint32_t>(code);
}

void Words::grow() {
  std::vector<Slot> old(std::max<size_t>(16, 2 * slots_.size()));
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.code == kMissing) continue;
    size_t at = slot.hash & (slots_.size() - 1);
    while (slots_[at].code != kMissing) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  }
}

}  // namespace freight::data
