// The codes of a column of words by row. A code takes one byte while the column has at most 255 words, then two or
// four: most columns of categories have few.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "freight/data/by_index.h"
#include "freight/data/growing.h"

namespace freight::data {

class Codes {
 public:
  using Element = uint32_t;
  static constexpr uint32_t kMissing = UINT32_MAX;  // of a row without a word

  size_t size() const { return bytes_.size() / width_; }
  bool empty() const { return bytes_.empty(); }
  uint32_t operator[](size_t i) const {
    uint32_t code = 0;  // one more than the code; 0 for a missing word
    if (width_ == 1) {
      code = bytes_[i];
    } else {
      std::memcpy(&code, bytes_.data() + i * width_, width_);  // little-endian, as everywhere in this library
    }
    return code - 1;
  }
  uint32_t back() const { return (*this)[size() - 1]; }
  void push_back(uint32_t code) {
    widen_for(code);
    const uint32_t stored = code + 1;
    if (width_ == 1) return bytes_.push_back(static_cast<uint8_t>(stored));
    bytes_.append(reinterpret_cast<const uint8_t*>(&stored), width_);
  }
  void set(size_t i, uint32_t code) {
    widen_for(code);
    const uint32_t stored = code + 1;
    std::memcpy(bytes_.data() + i * width_, &stored, width_);
  }
  void resize_with_missing(size_t size) { bytes_.resize(size * width_, 0); }
  void reserve(size_t room) { bytes_.reserve(room * width_); }
  void fit() { bytes_.fit(); }
  // Keeps the codes in a file of this folder (growing.h).
  void lie_in(const std::string& folder) {
    folder_ = folder;
    bytes_.lie_in(folder);
  }
  // Removes the codes for which `rows` is false.
  void keep(const std::vector<bool>& rows) {
    size_t kept = 0;
    for (size_t i = 0; i < size(); ++i) {
      if (rows[i]) set(kept++, (*this)[i]);
    }
    bytes_.resize(kept * width_, 0);
  }
  ByIndex<Codes> begin() const { return {*this, 0}; }
  ByIndex<Codes> end() const { return {*this, size()}; }

 private:
  void widen_for(uint32_t code) {
    const uint32_t stored = code + 1;
    const size_t needed = stored <= UINT8_MAX ? 1 : stored <= UINT16_MAX ? 2 : 4;
    if (needed <= width_) return;
    Codes wider;
    wider.lie_in(folder_);
    wider.width_ = needed;
    wider.reserve(size() + size() / 2);
    for (const uint32_t each : *this) wider.push_back(each);
    *this = std::move(wider);
  }

  std::string folder_;
  size_t width_ = 1;  // bytes of a code
  Growing<uint8_t> bytes_;
};

}  // namespace freight::data
