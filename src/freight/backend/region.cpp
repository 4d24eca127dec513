// See region.h.
#include "freight/backend/region.h"

#include <algorithm>
#include <numeric>

#include "freight/base/error.h"

namespace freight {

namespace {

std::shared_ptr<const Graph> body_of(const StepSpec& spec) {
  if (spec.node->op == Op::fused) return attrs<FusedAttrs>(*spec.node).body;
  auto body = std::make_shared<Graph>();
  std::vector<Value> in;
  for (const Operand& o : spec.in) in.push_back(body->add(Op::input, LeafAttrs{"", o.type}, {})[0]);
  body->outputs = body->add(spec.node->op, spec.node->attrs, in);
  return body;
}

// The outputs and what is reduced tell the space. Other values need not: the key of random numbers has a shape of its
// own.
Shape space_of(const Graph& body) {
  std::vector<Value> longest = body.outputs;  // along each axis one of these is as long as all that is walked over
  for (const Node& n : body.nodes) {
    if (is_reduce(n.op)) longest.push_back(n.in(0));
  }
  Shape space;
  for (Value v : longest) {
    const Shape before = space;
    broadcast_shapes(before, body.type(v).shape, space);
  }
  return space;
}

// True where no axis of the operand is broadcast or reversed: its elements may lie apart, as in part of a
// concatenation.
bool is_spread(const Operand& o) {
  bool spread = !o.layout.blocked && !o.layout.strides.empty();
  for (int i = 0; spread && i < o.type.shape.rank(); ++i) spread = o.type.shape[i] == 1 || o.layout.strides[i] > 0;
  return spread;
}

// The leading operand is the first result, or else the first operand, that fills the space densely; where there is
// none, the first that fills it at all.
std::vector<int> order_of(const Shape& space, const StepSpec& spec) {
  for (const bool dense : {true, false}) {
    for (const auto* list : {&spec.out, &spec.in}) {
      for (const Operand& o : *list) {
        if (o.type.shape != space || !(dense ? is_dense(space, o.layout) : is_spread(o))) continue;
        return memory_order(space, o.layout.strides);
      }
    }
  }
  std::vector<int> order(static_cast<size_t>(space.rank()));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

void find_reductions(RegionAnalysis& r) {
  using Form = RegionAnalysis::Form;
  r.level.assign(r.body->values.size(), 0);
  for (const Node& n : r.body->nodes) {
    // Loops and kernels have these three, each of which leaves a single element as it is; another would run as one of
    // them.
    const bool known = n.op == Op::sum || n.op == Op::reduce_max || n.op == Op::reduce_min;
    FREIGHT_CHECK(known || !is_reduce(n.op), name(n.op), " is of a closed kind; see docs/extend/op.md");
    size_t level = 0;
    for (Value v : n.inputs) level = std::max(level, r.level_of(v));
    r.reads_reductions = r.reads_reductions || level > 0;
    if (r.reduces(n)) {
      ++level;
      const AxisSet removed = r.axes_removed_by(n);
      if (r.form == Form::pointwise) {
        r.form = Form::same_axes;
        r.reduced = removed;
      }
      for (int a : r.long_axes(r.space)) {
        if (removed.has(a) != r.reduced.has(a)) r.form = Form::other_axes;
      }
      r.reductions.resize(std::max(r.reductions.size(), level));
      r.reductions[level - 1].push_back(n.out());
    }
    for (Value v : n.outputs) r.level[v.index()] = level;
  }
}

}  // namespace

bool RegionAnalysis::reduces(const Node& n) const {
  if (!is_reduce(n.op)) return false;
  const Shape &axes = attrs<AxesAttrs>(n).axes, &shape = body->type(n.in(0)).shape;
  return !std::all_of(axes.begin(), axes.end(), [&](int64_t axis) {
    const int a = static_cast<int>(axis);
    return shape[a] == 1 && space[a] != 1;
  });
}

AxisSet RegionAnalysis::axes_removed_by(const Node& reduction) {
  AxisSet removed;
  for (int64_t a : attrs<AxesAttrs>(reduction).axes) removed.add(a);
  return removed;
}

std::vector<int> RegionAnalysis::long_axes(const Shape& shape) const {
  std::vector<int> axes;
  std::copy_if(order.begin(), order.end(), std::back_inserter(axes), [&](int a) { return shape[a] != 1; });
  return axes;
}

RegionAnalysis analyze_region(const StepSpec& spec) {
  RegionAnalysis r;
  r.body = body_of(spec);
  r.space = space_of(*r.body);
  r.order = order_of(r.space, spec);
  find_reductions(r);
  return r;
}

}  // namespace freight
