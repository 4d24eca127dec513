// The operands or results of a node: a few values, held inline. Graphs are copied by every pass, and most of the
// allocations of that were lists of one or two values.
#pragma once
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "freight/ir/type.h"

namespace freight {

// Converts from and to std::vector<Value>, in which lists that grow are collected.
class ValueList {
 public:
  using value_type = Value;             // as containers of the standard library have it
  using iterator = Value*;              // the same
  using const_iterator = const Value*;  // the same

  ValueList() = default;
  ValueList(std::initializer_list<Value> values) { assign(values.begin(), values.size()); }  // of these
  ValueList(const std::vector<Value>& values) { assign(values.data(), values.size()); }      // NOLINT: a conversion
  ValueList(const ValueList& other) { assign(other.begin(), other.size()); }
  ValueList(ValueList&& other) noexcept { swap(other); }
  ValueList& operator=(ValueList other) noexcept {  // takes over the other's
    swap(other);
    return *this;
  }
  ~ValueList() = default;
  operator std::vector<Value>() const { return {begin(), end()}; }  // NOLINT: a conversion

  size_t size() const { return size_; }                              // how many there are
  bool empty() const { return size_ == 0; }                          // true where there are none
  Value* begin() { return more_ ? more_.get() : few_; }              // the first
  Value* end() { return begin() + size_; }                           // behind the last
  const Value* begin() const { return more_ ? more_.get() : few_; }  // the first
  const Value* end() const { return begin() + size_; }               // behind the last
  auto rbegin() const { return std::reverse_iterator(end()); }       // the last
  auto rend() const { return std::reverse_iterator(begin()); }       // before the first
  Value& operator[](size_t i) { return begin()[i]; }                 // number i, from 0
  Value operator[](size_t i) const { return begin()[i]; }
  Value front() const { return begin()[0]; }                                                        // the first
  Value back() const { return begin()[size_ - 1]; }                                                 // the last
  void clear() { size_ = 0; }                                                                       // drops all
  void erase(Value* at) { size_ = static_cast<uint32_t>(std::copy(at + 1, end(), at) - begin()); }  // drops one
  void push_back(Value v) {  // adds it at the end
    reserve(size_ + 1);
    begin()[size_++] = v;
  }
  void reserve(size_t count) {  // makes room for so many
    if (count <= room_) return;
    const size_t room = std::max<size_t>(count, size_t{2} * room_);
    auto larger = std::make_unique<Value[]>(room);
    std::copy(begin(), end(), larger.get());
    more_ = std::move(larger);
    room_ = static_cast<uint32_t>(room);
  }
  friend bool operator==(const ValueList& a, const ValueList& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  static constexpr uint32_t kFew = 5;
  void assign(const Value* first, size_t count) {
    reserve(count);
    std::copy_n(first, count, begin());
    size_ = static_cast<uint32_t>(count);
  }
  void swap(ValueList& other) noexcept {
    std::swap(more_, other.more_);
    std::swap(few_, other.few_);
    std::swap(size_, other.size_);
    std::swap(room_, other.room_);
  }
  std::unique_ptr<Value[]> more_;  // null where they are few
  Value few_[kFew];
  uint32_t size_ = 0, room_ = kFew;
};

}  // namespace freight
