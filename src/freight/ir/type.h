// Type of a value (element type and shape); Value and NodeId, the names of an SSA value and of a node inside one Graph.
#pragma once
#include <compare>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "freight/base/dtype.h"
#include "freight/base/shape.h"

namespace freight {

struct Type {                // Element type and shape.
  DType dtype = DType::f32;  // of its elements
  Shape shape;               // its extents

  int64_t numel() const { return shape.numel(); }                                       // number of elements
  size_t bytes() const { return static_cast<size_t>(shape.numel()) * size_of(dtype); }  // size of all elements
  friend bool operator==(const Type&, const Type&) = default;
};
// "f32[64,784]"; a scalar is "f32[]".
std::string to_string(const Type& type);
std::ostream& operator<<(std::ostream& out, const Type& type);  // the same

struct Value {                                              // Names a value of one Graph.
  int32_t id = -1;                                          // its number in the graph
  bool valid() const { return id >= 0; }                    // false for a default one
  size_t index() const { return static_cast<size_t>(id); }  // as a subscript
  friend bool operator==(Value, Value) = default;
};

// Nodes are numbered in their order: what makes an operand comes before what reads it.
struct NodeId {
  int32_t id = -1;                                          // its number in the graph
  bool valid() const { return id >= 0; }                    // false for a default one
  size_t index() const { return static_cast<size_t>(id); }  // as a subscript
  friend auto operator<=>(NodeId, NodeId) = default;  // NOLINT(modernize-use-nullptr): taken for a comparison with 0
};

}  // namespace freight
