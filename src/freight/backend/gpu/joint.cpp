// See joint.h.
#include "freight/backend/gpu/joint.h"

#include <algorithm>

#include "freight/backend/gpu/kernel_text.h"
#include "freight/backend/gpu/lower.h"
#include "freight/ir/builder.h"

namespace freight::gpu {

namespace {

// Launches whose operand i is operand places[i] of the step.
void move_operands(Lowered& lowered, const std::vector<int>& places) {
  for (Launch& launch : lowered.launches) {
    for (Argument& a : launch.arguments) a.operand = places.at(static_cast<size_t>(a.operand));
  }
}

}  // namespace

Joint joint(const StepSpec& spec) {
  const Graph& body = *attrs<FusedAttrs>(*spec.node).body;
  Joint j{.product = spec};
  j.product.graph = &body;
  j.product.node = product_in(*spec.node);
  j.product.in.resize(2);
  j.product.out.resize(1);
  j.masked = spec.in.size() == 3;
  for (const Node& n : body.nodes) {
    if (n.op != Op::sum) continue;
    j.sums = true;
    if (body.def(n.in(0)).op == Op::input) j.summed = n.in(0) == j.product.node->in(0) ? 0 : 1;
  }
  return j;
}

Lowered lower_joint(const StepSpec& spec) {
  const int first = static_cast<int>(spec.in.size()), scratch = first + static_cast<int>(spec.out.size());
  Lowered all = lower_matmul(joint(spec).product);
  move_operands(all, {0, 1, first, scratch});
  Lowered rest = lower_rest_of_joint(spec);
  for (Launch& launch : rest.launches) all.launches.push_back(std::move(launch));
  all.scratch_bytes = std::max(all.scratch_bytes, rest.scratch_bytes);
  return all;
}

Lowered lower_rest_of_joint(const StepSpec& spec) {
  const Joint j = joint(spec);
  const int first = static_cast<int>(spec.in.size());
  Graph g;
  Builder b(g);
  StepSpec rest{&g, nullptr, {}, {}};
  std::vector<int> places;
  const auto input = [&](const Operand& o, int place) {
    rest.in.push_back(o);
    places.push_back(place);
    return b.one(Op::input, LeafAttrs{"", o.type}, {});
  };
  auto body = std::make_shared<Graph>();
  if (j.masked) {  // in place: an element is read before it is written, by the work-item or group of its column
    const Value y = input(spec.in[2], 2), p = input(spec.out[0], first);
    g.outputs = {b.where(b.binary(Op::gt, y, b.constant_like(0, y)), p, b.constant_like(0, p))};
    rest.out.push_back(spec.out[0]);
  }
  if (j.sums) {
    g.outputs.push_back(b.sum(j.masked ? g.outputs[0] : input(spec.in[static_cast<size_t>(j.summed)], j.summed), {0}));
    rest.out.push_back(spec.out[1]);
  }
  *body = std::move(g);
  Node node;
  node.op = Op::fused;
  node.attrs = FusedAttrs{body};
  rest.node = &node;
  Lowered lowered = lower_region(rest);
  // The results that are left, and the scratch memory behind them.
  for (size_t i = j.masked ? 0 : 1; i <= spec.out.size(); ++i) places.push_back(first + static_cast<int>(i));
  move_operands(lowered, places);
  return lowered;
}

Lowered lower_signs(const StepSpec& spec, int y, int64_t row_bytes) {
  const Operand& o = spec.in[static_cast<size_t>(y)];
  const int64_t columns = o.type.shape[1], bytes = o.type.shape[0] * row_bytes;
  KernelText text;
  const Elements from = text.in(spec, static_cast<size_t>(y)), to = text.scratch(spec, DType::u8);
  text.begin_elements(bytes);
  text.line(text.split("e", row_bytes, "row", "byte"), "const idx_t c = byte * 8;");
  text.line("int bits = 0;");
  text.line("for (idx_t k = 0; k < 8 && c + k < ", text.number(columns), "; ++k) {");
  const std::string at =
      cat("row * ", text.number(o.layout.strides[0]), " + (c + k) * ", text.number(o.layout.strides[1]));
  text.line("  if (", from.load(at), " > 0) bits |= 1 << k;");
  text.line("}");
  text.line(to.store("e", "bits"));
  Lowered lowered = text.finish_step("signs", std::max(8 * bytes, span(o)));
  lowered.scratch_bytes = static_cast<size_t>(bytes);
  return lowered;
}

}  // namespace freight::gpu
