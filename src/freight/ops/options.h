// Small argument types of the operations: axes, extents per spatial axis, keep-dimensions. Header only.
#pragma once
#include <initializer_list>

#include "freight/base/shape.h"

namespace freight {

// Axes to reduce: none given means all. Negative axes count from the back.
struct Axes {
  Axes() = default;
  Axes(int64_t axis) : list{axis} {}
  Axes(std::initializer_list<int64_t> axes) : list(axes) {}
  explicit Axes(std::vector<int64_t> axes) : list(std::move(axes)) {}
  std::vector<int64_t> list;
};

// Whether reduced axes stay with extent 1.
enum class Keep { no, yes };

// One number per spatial axis; a single number stands for all of them.
struct Extents {
  Extents(int64_t all) : values{all}, uniform(true) {}
  Extents(std::initializer_list<int64_t> each) : values(each), uniform(false) {}
  explicit Extents(const Shape& each) : values(each), uniform(false) {}
  // The numbers for `rank` spatial axes; throws Error(usage, op) when another count was given.
  Shape expand(int rank, const char* op, const char* what) const;
  friend bool operator==(const Extents& a, const Extents& b) = default;

  Shape values;
  bool uniform;
};

}  // namespace freight
