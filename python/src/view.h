// View: elements in memory with an element type, shape, strides and an offset, as NumPy's arrays have them. Transposes,
// slices and broadcasts share the memory. Loops over views of any layout are in loops.h.
#pragma once
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "freight/base/array.h"
#include "freight/base/dtype.h"
#include "freight/base/shape.h"
#include "freight/base/strings.h"

namespace freight::python {

// Errors that become Python's exceptions of these names.
struct ArrayError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct ValueError : ArrayError {
  using ArrayError::ArrayError;
};
struct TypeError : ArrayError {
  using ArrayError::ArrayError;
};
struct IndexError : ArrayError {
  using ArrayError::ArrayError;
};
struct OverflowError : ArrayError {
  using ArrayError::ArrayError;
};
template <class E, class... Parts>
[[noreturn, gnu::cold]] void raise(const Parts&... parts) {
  throw E(cat(parts...));
}

// Up to 64 extents, as NumPy's arrays have them; those of the library have at most eight, and few are held inline.
class Shape {
 public:
  static constexpr int kMaxRank = 64;

  Shape() = default;
  Shape(const int64_t* first, const int64_t* last) {
    std::copy(first, last, resize(static_cast<size_t>(last - first)));
  }
  Shape(std::initializer_list<int64_t> dims) : Shape(dims.begin(), dims.end()) {}
  explicit Shape(const std::vector<int64_t>& dims) : Shape(dims.data(), dims.data() + dims.size()) {}
  Shape(const freight::Shape& s) : Shape(s.begin(), s.end()) {}
  Shape(const Shape& s) : Shape(s.begin(), s.end()) {}
  Shape& operator=(const Shape& s) {
    if (this != &s) std::copy(s.begin(), s.end(), resize(static_cast<size_t>(s.rank_)));
    return *this;
  }
  static Shape filled(int rank, int64_t value);
  operator freight::Shape() const;  // ValueError beyond the library's limit

  int rank() const { return rank_; }
  int64_t* begin() { return many_ ? many_.get() : few_; }
  const int64_t* begin() const { return many_ ? many_.get() : few_; }
  int64_t* end() { return begin() + rank_; }
  const int64_t* end() const { return begin() + rank_; }
  int64_t& operator[](int i) { return begin()[i]; }
  int64_t operator[](int i) const { return begin()[i]; }
  void push_back(int64_t n) { insert(rank_, n); }
  void insert(int at, int64_t n);
  void erase(int at);
  bool is_empty() const;  // an extent is 0
  int64_t numel() const;
  std::vector<int64_t> vector() const { return {begin(), end()}; }
  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  static constexpr size_t kFew = 6;
  int64_t* resize(size_t rank);  // keeps the extents that fit; ValueError beyond kMaxRank
  int64_t few_[kFew];
  std::unique_ptr<int64_t[]> many_;  // room for kMaxRank, once there were more than a few
  int rank_ = 0;
};
using Strides = Shape;
Strides contiguous_strides(const Shape& shape);
std::string to_string(const Shape& shape);  // "(2, 3)", as Python has it

// Memory that views share. It is freed with the last view, or `owner` is let go.
struct Block {
  Block(size_t size);
  Block(void* memory, size_t size, bool may_write, std::shared_ptr<void> keeps)
      : data(static_cast<char*>(memory)), bytes(size), writable(may_write), owner(std::move(keeps)) {}
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  char* data = nullptr;
  size_t bytes = 0;
  bool writable = true;
  bool of_trace = false;        // new while a function was traced, which may write to it after using it
  int64_t number = 0;           // in the order in which blocks are made; 0 of memory that is not the block's own
  std::shared_ptr<void> owner;  // of memory that is not the block's own

 private:
  bool owned_ = false;
};

struct View {
  std::shared_ptr<Block> block;
  char* data = nullptr;  // the element at index 0 of every axis
  DType dtype = DType::f32;
  Shape shape;
  Strides strides;  // in elements; negative ones run backwards, 0 repeats

  // New memory, not initialised, row-major.
  View() = default;
  View(DType type, const Shape& extents);
  View(DType type, const Shape& extents, const Strides& steps, char* first, std::shared_ptr<Block> memory)
      : block(std::move(memory)), data(first), dtype(type), shape(extents), strides(steps) {}
  // Memory of others.
  View(DType type, const Shape& extents, const Strides& steps, void* first, bool writable, std::shared_ptr<void> owner);

  int rank() const { return shape.rank(); }
  int64_t numel() const { return shape.numel(); }
  size_t item_size() const { return size_of(dtype); }
  bool is_contiguous() const;  // row-major without gaps
};

// The sizes of all axes are checked: ValueError naming the shape where they are negative or their bytes do not fit.
Shape checked_shape(const std::vector<int64_t>& extents, DType dtype);

// Elements of any layout, row-major in memory of their own.
View copy(const View& x);
View contiguous(const View& x);  // x itself where it is row-major
View cast(const View& x, DType dtype);
// dst = src, broadcast and converted. ValueError for shapes that do not broadcast, and for read-only memory. Memory
// that both share is copied first.
void assign(const View& dst, const View& src);
// Moves elements of a type, bit by bit: to at[0] with steps[0], from at[1] with steps[1].
using ElementMove = void (*)(int64_t n, char** at, const int64_t* steps);
ElementMove mover_of(DType dtype);
bool may_share_memory(const View& a, const View& b);

// Views. Axes count from 0.
View permuted(const View& x, const std::vector<int>& order);
View broadcast(const View& x, const Shape& shape);
// Same elements in row-major order: a view where strides allow one, else undefined (no block).
View reshaped_view(const View& x, const Shape& shape);
View reshaped(const View& x, const Shape& shape);
// Elements start, start + step, ... of an axis, `length` of them.
View sliced(const View& x, int axis, int64_t start, int64_t step, int64_t length);
View selected(const View& x, int axis, int64_t index);
View with_axis(const View& x, int axis);     // a new axis of size 1
View without_axis(const View& x, int axis);  // without an axis of size 1
View diagonal_view(const View& x, int64_t offset);
// The real (0) or imaginary (1) parts of complex elements.
View part_of_complex(const View& x, int part);

// ValueError naming both shapes where they do not broadcast.
Shape broadcast_of(const Shape& a, const Shape& b);
int checked_axis(int64_t axis, int rank);  // IndexError, named as NumPy does, out of range

// Element types.
DType promoted(DType a, DType b);  // TypeError where there is no common type
const char* python_name(DType dtype);
const char* buffer_format(DType dtype);  // null where Python's buffer protocol has none
DType real_type(DType dtype);            // f32 of c64
DType complex_type(DType dtype);         // c64 of f32

// Views and the library's arrays share memory where the elements are row-major.
Array to_array(const View& x);
View from_array(const Array& a);

}  // namespace freight::python
