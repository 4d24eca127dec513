// The dictionary of a column of words. See cells.h.
#include <algorithm>
#include <cstring>

#include "freight/base/error.h"
#include "freight/data/cells.h"

namespace freight::data {

namespace {

template <class T>
uint64_t loaded(const char* at) {
  T value = 0;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// All bytes of a word of at most eight, as one number: loads overlap where it is shorter.
uint64_t short_word(std::string_view word) {
  const char* const at = word.data();
  const size_t size = word.size();
  if (size == 8) return loaded<uint64_t>(at);
  if (size >= 4) return loaded<uint32_t>(at) << 32 | loaded<uint32_t>(at + size - 4);
  if (size == 0) return 0;
  return loaded<uint8_t>(at) << 16 | loaded<uint8_t>(at + size / 2) << 8 | loaded<uint8_t>(at + size - 1);
}

// A product moves what differs in low bits to the high ones, a shift back again.
uint64_t mixed_bits(uint64_t h) {
  h *= 0x9E3779B97F4A7C15ull;
  return h ^ (h >> 32);
}

uint32_t hash_of_word(std::string_view word) {
  uint64_t h = mixed_bits(word.size() + 1);
  if (word.size() <= 8) return static_cast<uint32_t>(mixed_bits(h ^ short_word(word)));
  for (size_t at = 0; at + 8 < word.size(); at += 8) h = mixed_bits(h ^ loaded<uint64_t>(word.data() + at));
  return static_cast<uint32_t>(mixed_bits(h ^ loaded<uint64_t>(word.data() + word.size() - 8)));
}

// Most words are so short that a call of memcmp takes longer than the comparison.
bool same_word(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  if (a.size() <= 8) return short_word(a) == short_word(b);
  return a == b;
}

}  // namespace

uint32_t Words::find(std::string_view word) const {
  if (slots_.empty()) return kMissing;
  const uint32_t hash = hash_of_word(word);
  for (size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
    const HashEntry& slot = slots_[at];
    if (slot.code == kMissing || (slot.hash == hash && same_word((*this)[slot.code], word))) return slot.code;
  }
}

uint32_t Words::add(std::string_view word) {
  if (4 * (size() + 1) > 3 * slots_.size()) grow();
  const uint32_t hash = hash_of_word(word);
  size_t at = hash & (slots_.size() - 1);
  for (;; at = (at + 1) & (slots_.size() - 1)) {
    const HashEntry& slot = slots_[at];
    if (slot.code == kMissing) break;
    if (slot.hash == hash && same_word((*this)[slot.code], word)) return slot.code;
  }
  const size_t code = size();
  if (code == kMissing) fail(ErrorKind::data, "table", "a column has more than ", kMissing, " different categories");
  bytes_.append(word.data(), word.size());
  ends_.push_back(bytes_.size());
  slots_[at] = {hash, static_cast<uint32_t>(code)};
  return static_cast<uint32_t>(code);
}

void Words::cut_endings(std::string_view ending) {
  Words cut;
  for (size_t i = 0; i < size(); ++i) {
    std::string_view word = (*this)[static_cast<uint32_t>(i)];
    if (word.ends_with(ending)) word.remove_suffix(ending.size());
    if (cut.add(word) == i) continue;
    fail(ErrorKind::data, "table", "two categories of a column are the same without '", std::string(ending),
         "' at their end: ", std::string(word));
  }
  *this = std::move(cut);
}

void Words::grow() {
  std::vector<HashEntry> old(std::max<size_t>(16, 2 * slots_.size()));
  old.swap(slots_);
  for (const HashEntry& slot : old) {
    if (slot.code == kMissing) continue;
    size_t at = slot.hash & (slots_.size() - 1);
    while (slots_[at].code != kMissing) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  }
}

}  // namespace freight::data
