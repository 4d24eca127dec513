// Small argument types of the operations: axes, extents per spatial axis, keep-dimensions. Header only.
#pragma once
#include <initializer_list>
#include <type_traits>

#include "freight/base/shape.h"

namespace freight {

// A number that counts or names something, or a plain enum: neither a number with a decimal point nor a truth value.
// max(x, 0.0), meant as maximum(x, 0.0), and softmax(x, 0.5), meant as a temperature, do not compile.
template <class T>
concept Whole = (std::is_integral_v<T> && !std::is_same_v<T, bool>) ||
                (std::is_enum_v<T> && std::is_convertible_v<T, int64_t>);

// One axis; negative values count from the end.
struct Axis {
  // Takes a whole number.
  template <Whole T>
  Axis(T axis) : value(static_cast<int64_t>(axis)) {}
  operator int64_t() const { return value; }  // the number
  int64_t value;                              // as given
};

// A count, a size, a place or an offset. topk(x, 2.5) and select(x, 0, i / 2.0) do not compile.
struct WholeNumber {
  // Takes a whole number.
  template <Whole T>
  WholeNumber(T number) : value(static_cast<int64_t>(number)) {}
  operator int64_t() const { return value; }  // the number
  int64_t value;                              // as given
};

// Axes to reduce: none given means all. Negative axes count from the back.
struct Axes {
  Axes() = default;
  // Takes a whole number.
  template <Whole T>
  Axes(T axis) : list{static_cast<int64_t>(axis)} {}
  Axes(std::initializer_list<int64_t> axes) : list(axes) {}            // several axes
  explicit Axes(std::vector<int64_t> axes) : list(std::move(axes)) {}  // several axes
  std::vector<int64_t> list;                                           // as given; empty: all
};

// Decides if reduced axes stay with extent 1.
enum class Keep { no, yes };

// One number per spatial axis; a single number stands for all of them.
struct Extents {
  // Takes a whole number.
  template <Whole T>
  Extents(T all) : values{static_cast<int64_t>(all)}, uniform(true) {}
  Extents(std::initializer_list<int64_t> each) : values(each), uniform(false) {}  // one per axis
  explicit Extents(const Shape& each) : values(each), uniform(false) {}           // one per axis
  // The numbers for `rank` spatial axes; throws Error(usage, op) when another count was given.
  Shape expand(int rank, const char* op, const char* what) const;
  friend bool operator==(const Extents& a, const Extents& b) = default;

  Shape values;  // as given
  bool uniform;  // one number stands for all axes
};

}  // namespace freight
