// A fused region as its lowerings see it, once its operands have layouts: what it walks over, in which order, and what
// it reduces. It is made once per step; cpu/lowering.cpp and gpu/region.cpp both choose their kernels by it, so that
// neither looks for reductions or an order of axes itself.
#pragma once
#include <memory>
#include <vector>

#include "freight/backend/backend.h"

namespace freight {

// Some axes of a space.
class AxisSet {
 public:
  bool has(int64_t axis) const { return (bits_ >> axis & 1) != 0; }
  void add(int64_t axis) { bits_ |= uint64_t{1} << axis; }

 private:
  uint64_t bits_ = 0;
};

struct RegionAnalysis {
  enum class Form {
    pointwise,   // reduces nothing
    same_axes,   // all reductions remove the same axes
    other_axes,  // some remove others than the first one
  };

  std::shared_ptr<const Graph> body;           // of the fused node, or made of the single op
  Shape space;                                 // extents; axis i of every value is axis i of the space
  std::vector<int> order;                      // axes, slowest first in the memory of the leading operand
  std::vector<size_t> level;                   // by value: the most reductions, one behind another, on a way to it
  std::vector<std::vector<Value>> reductions;  // those of level 1, 2 ...
  AxisSet reduced;                             // those that the first reduction removes
  Form form = Form::pointwise;
  bool reads_reductions = false;  // some node of the body reads the result of a reduction

  size_t level_of(Value v) const { return level[v.index()]; }
  // Tells whether a node must be executed as a reduction. It need not where its operand is its result: where the
  // operand has one element along all axes that are removed, and the space more. Where the space has one, too, it
  // counts as a reduction, of rows of one element.
  bool reduces(const Node& n) const;
  static AxisSet axes_removed_by(const Node& reduction);
  // The axes along which a shape of the space is longer than 1, in the order above.
  std::vector<int> long_axes(const Shape& shape) const;
};

// Analyzes the step of a fused node or of a pointwise, broadcasting or reducing op.
RegionAnalysis analyze_region(const StepSpec& spec);

}  // namespace freight
