// Shape: up to eight non-negative extents, held inline. Strides reuse the class (entries may then be zero).
// Scalars have rank 0. Axis arguments of users may be negative; normalize them with `axis_index`.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <vector>

namespace freight {

class Shape {  // Up to eight extents.
 public:
  static constexpr int kMaxRank = 8;  // axes at most

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) { assign(dims.begin(), dims.end()); }  // Error(usage) beyond kMaxRank
  explicit Shape(const std::vector<int64_t>& dims) { assign(dims.data(), dims.data() + dims.size()); }  // as above
  Shape(const int64_t* first, const int64_t* last) { assign(first, last); }  // the same of a range
  static Shape filled(int rank, int64_t value);                              // `rank` extents of `value` each

  int rank() const { return rank_; }                    // the number of axes
  int size() const { return rank_; }                    // the same as rank()
  bool empty() const { return rank_ == 0; }             // true for a scalar
  int64_t& operator[](int i) { return dims_[i]; }       // extent of axis i, 0 to rank - 1
  int64_t operator[](int i) const { return dims_[i]; }  // extent of axis i, 0 to rank - 1
  int64_t back() const { return dims_[rank_ - 1]; }     // the last extent
  int64_t* begin() { return dims_; }                    // the first extent
  int64_t* end() { return dims_ + rank_; }              // behind the last extent
  const int64_t* begin() const { return dims_; }        // the first extent
  const int64_t* end() const { return dims_ + rank_; }  // behind the last extent
  void push_back(int64_t d);                            // adds an axis at the end
  void insert(int at, int64_t d);                       // adds an axis before `at`
  void erase(int at);                                   // drops axis `at`
  // Product of the extents; 1 for a scalar.
  int64_t numel() const;
  std::vector<int64_t> vector() const { return {begin(), end()}; }  // the extents as a list

  friend bool operator==(const Shape& a, const Shape& b) {
    bool same = a.rank() == b.rank();
    for (int i = 0; same && i < a.rank(); ++i) same = a[i] == b[i];
    return same;
  }
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }

 private:
  void assign(const int64_t* first, const int64_t* last);
  int64_t dims_[kMaxRank] = {};
  int rank_ = 0;
};

using Strides = Shape;  // the distance of neighbors along each axis, in elements

// "[64,784]".
std::string to_string(const Shape& shape);
std::ostream& operator<<(std::ostream& out, const Shape& shape);  // the same
// Row-major strides in elements.
Strides contiguous_strides(const Shape& shape);
// Strides of a dense tensor whose memory order, slowest first, is `order` (a permutation of the axes).
Strides permuted_strides(const Shape& shape, const std::vector<int>& order);
// Channels-last strides of (N, C, spatial...); row-major below rank 3.
Strides channels_last_strides(const Shape& shape);
// NumPy broadcasting of two shapes; false where they do not broadcast.
bool broadcast_shapes(const Shape& a, const Shape& b, Shape& out);
// Maps a possibly negative axis to [0, rank); throws Error(usage, op, ...) when out of range.
int axis_index(int64_t axis, int rank, const char* op);

}  // namespace freight
