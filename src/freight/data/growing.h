// An array of plain values that grows at its end. It grows by realloc, which remaps the pages of a large array instead
// of copying them; a std::vector would briefly need three times its size. In a file (io/file_memory.h) it may be larger
// than memory.
#pragma once
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "freight/io/file_memory.h"

namespace freight::data {

template <class T>
class Growing {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Growing() = default;
  Growing(const Growing& other) {
    reserve(other.size_);
    append(other.data_, other.size_);
  }
  Growing(Growing&& other) noexcept
      : file_(std::move(other.file_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        room_(std::exchange(other.room_, 0)) {}
  Growing& operator=(Growing other) noexcept {
    std::swap(file_, other.file_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(room_, other.room_);
    return *this;
  }
  ~Growing() {
    if (!file_) std::free(data_);
  }

  // Keeps the elements in a file of this folder; "": in memory. Must be called before the first element is added. A
  // copy is in memory.
  void lie_in(const std::string& folder) {
    if (!folder.empty() && room_ == 0) file_ = std::make_unique<io::FileMemory>(folder);
  }

  void push_back(const T& value) {
    const T copied = value;  // it may be an element of this array
    if (size_ == room_) grow(size_ + 1);
    data_[size_++] = copied;
  }
  void append(const T* values, size_t count) {
    if (room_ - size_ < count) grow(size_ + count);
    if (count > 0) std::memcpy(data_ + size_, values, count * sizeof(T));
    size_ += count;
  }
  // Adds elements equal to `value`.
  void resize(size_t size, const T& value) {
    reserve(size);
    for (size_t i = size_; i < size; ++i) data_[i] = value;
    size_ = size;
  }
  void reserve(size_t room) {
    if (room > room_) move_to(room);
  }
  // Frees the memory that was reserved for growth.
  void fit() {
    if (size_ < room_ && size_ > 0) move_to(size_);
  }
  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& back() { return data_[size_ - 1]; }

 private:
  void grow(size_t least) { move_to(least < 16 ? 16 : least + least / 2); }
  void move_to(size_t room) {
    if (file_) {
      file_->resize(room * sizeof(T));
      data_ = static_cast<T*>(file_->data());
    } else {
      void* moved = std::realloc(static_cast<void*>(data_), room * sizeof(T));
      if (!moved) throw std::bad_alloc();
      data_ = static_cast<T*>(moved);
    }
    room_ = room;
  }
  std::unique_ptr<io::FileMemory> file_;
  T* data_ = nullptr;
  size_t size_ = 0, room_ = 0;
};

}  // namespace freight::data
