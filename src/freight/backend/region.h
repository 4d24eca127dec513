// A fused region as its lowerings see it, once its operands have layouts: what it walks over, in which order, and what
// it reduces. Made once per step; cpu/lowering.cpp and gpu/region.cpp both read it and know nothing of the body's shape
// beside it.
#pragma once
#include <memory>
#include <vector>

#include "freight/backend/backend.h"

namespace freight {

struct RegionAnalysis {
  enum class Form {
    pointwise,   // reduces nothing
    same_axes,   // all reductions remove the same axes
    other_axes,  // some remove others than the first one
  };

  std::shared_ptr<const Graph> body;           // of the fused node, or made of the single op
  Shape space;                                 // extents; axis i of every value is axis i of the space
  std::vector<int> order;                      // axes, slowest first in the memory of the leading operand
  std::vector<int> level;                      // by value: how many reductions, each behind another, lead to it
  std::vector<std::vector<Value>> reductions;  // those of level 1, 2 ...
  std::vector<bool> reduced;                   // by axis: whether the first reduction removes it
  Form form = Form::pointwise;
  bool reads_reductions = false;  // some node reads what another reduces

  int level_of(Value v) const { return level[v.index()]; }
  // Whether a node reduces more than one element: along axes where its operand has one and the space more, the operand
  // is the result.
  bool reduces(const Node& n) const;
  // By axis: whether this reduction removes it.
  std::vector<bool> axes_removed_by(const Node& reduction) const;
  // The axes along which a shape of the space is longer than 1, in the order above.
  std::vector<int> long_axes(const Shape& shape) const;
};

// Analyzes the step of a fused node or of a pointwise, broadcasting or reducing op.
RegionAnalysis analyze_region(const StepSpec& spec);

}  // namespace freight
