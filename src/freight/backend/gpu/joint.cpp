// See joint.h.
#include "freight/backend/gpu/joint.h"

#include <algorithm>

#include "freight/backend/gpu/kernel_text.h"
#include "freight/backend/gpu/lower.h"

namespace freight::gpu {

namespace {

// Launches whose operand i is operand places[i] of the step.
void move_operands(Lowered& lowered, const std::vector<int>& places) {
  for (Launch& launch : lowered.launches) {
    for (Argument& a : launch.arguments) a.operand = places.at(static_cast<size_t>(a.operand));
  }
}

// A region over operands of a step, which are named by their places.
struct Region {
  const StepSpec& step;
  std::shared_ptr<Graph> body = std::make_shared<Graph>();
  Builder b{*body};
  StepSpec spec = {};
  std::vector<int> places = {}, results = {};

  const Operand& operand(int place) const {
    const auto i = static_cast<size_t>(place), first = step.in.size();
    if (i == first + step.out.size()) return step.in[0];  // scratch memory holds what is made of it
    return i < first ? step.in[i] : step.out[i - first];
  }
  Value input(int place) {
    places.push_back(place);
    spec.in.push_back(operand(place));
    return b.one(Op::input, LeafAttrs{"", operand(place).type}, {});
  }
  void output(Value v, int place) {
    body->outputs.push_back(v);
    results.push_back(place);
    spec.out.push_back(operand(place));
  }
  Lowered lower() {
    const Node node{Op::fused, FusedAttrs{body}, {}, {}, {}, {}};
    spec.node = &node;
    Lowered lowered = lower_region(spec);
    places.insert(places.end(), results.begin(), results.end());
    places.push_back(static_cast<int>(step.in.size() + step.out.size()));  // scratch memory
    move_operands(lowered, places);
    return lowered;
  }
};

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
  if (spec.out.size() == 3) return lower_moments(spec, MomentsOf::result);
  if (product_in(*spec.node)->op != Op::matmul) return {};
  const Joint j = joint(spec);
  const int first = static_cast<int>(spec.in.size());
  Region region{spec};
  Builder& b = region.b;
  Value p;
  if (j.masked) {  // in place: an element is read before it is written, by the work-item or group of its column
    const Value y = region.input(2), product = region.input(first);
    p = b.where(b.binary(Op::gt, y, b.constant_like(0, y)), product, b.constant_like(0, product));
    region.output(p, first);
  }
  if (j.sums) region.output(b.sum(j.masked ? p : region.input(j.summed), {0}), first + 1);
  return region.lower();
}

// About zero, unlike the definition's: as y is rounded to 16 bits, by up to 2^-11 of itself, its variance is not known
// to better than about 2^-24 of the square of its mean, which is what the difference loses in f32.
Lowered lower_moments(const StepSpec& spec, MomentsOf what) {
  const int y = static_cast<int>(spec.in.size()), mean = y + 1, variance = y + 2;
  const Shape& shape = spec.out[0].type.shape;
  Region region{spec};
  Builder& b = region.b;
  Ex sum{&b, {}}, squares = sum;
  if (what == MomentsOf::sums) {
    sum.v = region.input(mean);
    squares.v = region.input(variance);
  } else {
    const Ex x{&b, b.cast(region.input(y), DType::f32)};
    Shape axes{0};
    for (int i = 2; i < shape.rank(); ++i) axes.push_back(i);
    sum = freight::sum(x, axes);
    squares = freight::sum(apply(Op::square, x), axes);
  }
  const double share = static_cast<double>(shape[1]) / static_cast<double>(shape.numel());
  const Ex m = sum * share;
  region.output(m.v, mean);
  region.output(apply(Op::relu, squares * share - m * m).v, variance);
  return region.lower();
}

Value normed_channels(Builder& b, Value x, Value scale, Value shift) {
  const Ex wide_x{&b, b.cast(x, DType::f32)};
  const auto spread_over = [&](Value v) { return expand({&b, b.cast(v, DType::f32)}, wide_x.shape()); };
  const Ex z = wide_x * spread_over(scale) + spread_over(shift);
  return b.unary(Op::relu, b.cast(z.v, b.type(x).dtype));
}

Lowered lower_normed(const StepSpec& spec) {
  Region region{spec};
  const Value x = region.input(0), scale = region.input(2), shift = region.input(3);
  region.output(normed_channels(region.b, x, scale, shift), static_cast<int>(spec.in.size() + spec.out.size()));
  Lowered lowered = region.lower();
  lowered.scratch_bytes = layout_bytes(spec.in[0].type, spec.in[0].layout);
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
