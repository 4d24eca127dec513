// What stands between the brackets of x[...]: as in NumPy and PyTorch. x[0], x[{0, -1}], x[{Slice{1, 3}, ellipsis}],
// x[{ellipsis, newaxis}], x[rows] with integers, x[{rows, columns}] (one element for each pair), x[mask] with bool.
// The result is a tensor of its own: elements of x are not assigned through it (x[0] = y does not compile).
#pragma once
#include <optional>
#include <variant>

#include "freight/ops/options.h"
#include "freight/trace/tensor.h"

namespace freight {

// start:stop:step; negative ends count from the back, ends beyond the axis are clamped, none is the whole axis.
struct Slice {
  std::optional<int64_t> start = std::nullopt, stop = std::nullopt;  // the first element, and that behind the last
  int64_t step = 1;                                                  // above 0
};
// As many whole axes as the other indices leave.
struct Ellipsis {};
inline constexpr Ellipsis ellipsis;  // for x[{ellipsis, 0}]
// An axis of extent 1 that x does not have.
struct NewAxis {};
inline constexpr NewAxis newaxis;  // for x[{newaxis, ellipsis}]

// One of the indices in x[...].
struct Index {
  // One element of an axis, which the result lacks; negative numbers count from the back.
  template <Whole T>
  Index(T at, SourceLine line = SourceLine::current()) : Index(At{static_cast<int64_t>(at)}, line) {}
  // A part of an axis.
  Index(const Slice& s, SourceLine line = SourceLine::current());
  // All axes that no other index names.
  Index(Ellipsis e, SourceLine line = SourceLine::current());
  // A new axis of extent 1.
  Index(NewAxis n, SourceLine line = SourceLine::current());
  // Integers name elements of one axis, from the back where negative; bool, of the shape of one axis or several, takes
  // those where it is true. How many those are is known only outside of compiled steps: there use where().
  Index(const Tensor& t, SourceLine line = SourceLine::current());
  Index(const Index& other);
  Index& operator=(const Index& other);
  ~Index();
  // The index.
  std::variant<int64_t, Slice, Ellipsis, NewAxis, Tensor> is;
  SourceLine where;  // the user's line, which errors and profiles tell

 private:
  struct At {
    int64_t element;
  };
  Index(At at, SourceLine line);
};

}  // namespace freight
