// Shape arithmetic; see shape.h.
#include "freight/base/shape.h"

#include <algorithm>
#include <ostream>

#include "freight/base/error.h"

namespace freight {

void Shape::assign(const int64_t* first, const int64_t* last) {
  if (last - first > kMaxRank) {
    fail(ErrorKind::usage, "shape", "rank ", static_cast<int64_t>(last - first), " is above the limit of ", kMaxRank);
  }
  rank_ = static_cast<int>(last - first);
  std::copy(first, last, dims_);
}

Shape Shape::filled(int rank, int64_t value) {
  Shape s;
  for (int i = 0; i < rank; ++i) s.push_back(value);
  return s;
}

void Shape::push_back(int64_t d) { insert(rank_, d); }

void Shape::insert(int at, int64_t d) {
  if (rank_ == kMaxRank) fail(ErrorKind::usage, "shape", "rank 9 is above the limit of ", kMaxRank);
  std::copy_backward(dims_ + at, dims_ + rank_, dims_ + rank_ + 1);
  dims_[at] = d;
  ++rank_;
}

void Shape::erase(int at) {
  std::copy(dims_ + at + 1, dims_ + rank_, dims_ + at);
  --rank_;
}

int64_t Shape::numel() const {
  int64_t n = 1;
  for (int64_t d : *this) n *= d;
  return n;
}

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (int i = 0; i < shape.rank(); ++i) {
    if (i) out += ",";
    out += std::to_string(shape[i]);
  }
  return out + "]";
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << to_string(shape); }

Strides contiguous_strides(const Shape& shape) {
  Strides s = shape;
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    s[i] = step;
    step *= shape[i];
  }
  return s;
}

Strides permuted_strides(const Shape& shape, const std::vector<int>& order) {
  Strides s = shape;
  int64_t step = 1;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    s[*it] = step;
    step *= shape[*it];
  }
  return s;
}

Strides channels_last_strides(const Shape& shape) {
  if (shape.rank() < 3) return contiguous_strides(shape);
  std::vector<int> order{0};
  for (int i = 2; i < shape.rank(); ++i) order.push_back(i);
  order.push_back(1);
  return permuted_strides(shape, order);
}

bool broadcast_shapes(const Shape& a, const Shape& b, Shape& out) {
  const int rank = std::max(a.rank(), b.rank());
  out = Shape::filled(rank, 1);
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const int64_t da = ia < 0 ? 1 : a[ia], db = ib < 0 ? 1 : b[ib];
    if (da != db && da != 1 && db != 1) return false;
    out[i] = da == 1 ? db : da;
  }
  return true;
}

int axis_index(int64_t axis, int rank, const char* op) {
  const int64_t i = axis < 0 ? axis + rank : axis;
  if (i < 0 || i >= rank) {
    fail(ErrorKind::usage, op, "axis out of range: expected -", rank, " to ", rank - 1, " for rank ", rank, ", got ",
         axis);
  }
  return static_cast<int>(i);
}

}  // namespace freight
