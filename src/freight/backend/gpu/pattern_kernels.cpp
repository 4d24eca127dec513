// See pattern_kernels.h.
#include "freight/backend/gpu/pattern_kernels.h"

#include <algorithm>

#include "freight/backend/gpu/kernel_text.h"
#include "freight/backend/gpu/lower.h"
#include "freight/base/error.h"

namespace freight::gpu {

namespace {

// Renumbers the operands of launches: operand i of theirs is operand places[i] of the step.
void move_operands(Lowered& lowered, const std::vector<int>& places) {
  for (Launch& launch : lowered.launches) {
    for (Argument& a : launch.arguments) a.operand = places.at(static_cast<size_t>(a.operand));
  }
}

// Builds a region over some operands of a step and lowers it. Operands are named by their places in the step: its
// inputs, its results, then the scratch memory.
struct Region {
  const StepSpec& step;
  std::shared_ptr<Graph> body = std::make_shared<Graph>();
  Builder b{*body};
  StepSpec spec = {};
  std::vector<int> places = {}, results = {};

  const Operand& operand(int place) const {
    const auto i = static_cast<size_t>(place), first = step.in.size();
    if (i == first + step.out.size()) return step.in[0];  // scratch memory, typed for lower_norm()
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

StepSpec matmul_alone(const StepSpec& spec) {
  StepSpec alone = spec;
  alone.graph = attrs<FusedAttrs>(*spec.node).body.get();
  alone.node = product_in(*spec.node);
  alone.in.resize(2);
  alone.out.resize(1);
  return alone;
}

Lowered lower_pattern(const StepSpec& spec) {
  const FusedPattern& pattern = pattern_of(*spec.node);
  FREIGHT_CHECK(pattern.product == Op::matmul, pattern.name, ": the library computes its product, no generated kernel");
  const int first = static_cast<int>(spec.in.size()), scratch = first + static_cast<int>(spec.out.size());
  Lowered all = lower_matmul(matmul_alone(spec));
  move_operands(all, {0, 1, first, scratch});
  Lowered rest = lower_rest_of_pattern(spec);
  for (Launch& launch : rest.launches) all.launches.push_back(std::move(launch));
  all.scratch_bytes = std::max(all.scratch_bytes, rest.scratch_bytes);
  return all;
}

namespace {

// Masks a matmul's result, or sums it or an operand up, or both.
Lowered lower_rest_of_matmul(const StepSpec& spec, const FusedPattern& pattern) {
  const int first = static_cast<int>(spec.in.size());
  Region region{spec};
  Builder& b = region.b;
  Value addends;       // of the sums
  if (pattern.mask) {  // in place: an element is read before it is written, by the work-item or group of its column
    const Value y = region.input(*pattern.mask), product = region.input(first);
    addends = b.where(b.binary(Op::gt, y, b.constant_like(0, y)), product, b.constant_like(0, product));
    region.output(addends, first);
  } else {
    addends = region.input(*pattern.summed);
  }
  if (pattern.sums) region.output(b.sum(addends, {0}), first + *pattern.sums);
  return region.lower();
}

}  // namespace

Lowered lower_rest_of_pattern(const StepSpec& spec) {
  const FusedPattern& pattern = pattern_of(*spec.node);
  switch (pattern.kind) {
    case FusedKind::matmul_mask:
    case FusedKind::matmul_mask_sum:
    case FusedKind::matmul_lhs_sum:
    case FusedKind::matmul_rhs_sum: return lower_rest_of_matmul(spec, pattern);
    case FusedKind::conv_moments:
    case FusedKind::norm_conv_moments: return lower_moments(spec, MomentsOf::result);
    case FusedKind::norm_conv_grad_weight:
    case FusedKind::conv_chain:     // of the CPU alone
    case FusedKind::region: break;  // nothing is done behind the product
  }
  return {};
}

// The moments are taken about zero, unlike the definition's: as y is rounded to 16 bits, by up to 2^-11 of itself, its
// variance is not known to better than about 2^-24 of the square of its mean, which is what the difference loses in
// f32.
Lowered lower_moments(const StepSpec& spec, MomentsOf what) {
  const FusedPattern& pattern = pattern_of(*spec.node);
  const int y = static_cast<int>(spec.in.size()), mean = y + *pattern.mean, variance = y + *pattern.variance;
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

Lowered lower_norm(const StepSpec& spec) {
  const FusedPattern& pattern = pattern_of(*spec.node);
  Region region{spec};
  const Value x = region.input(0), scale = region.input(*pattern.scale), shift = region.input(*pattern.shift);
  region.output(norm_relu(region.b, x, scale, shift), static_cast<int>(spec.in.size() + spec.out.size()));
  Lowered lowered = region.lower();
  lowered.scratch_bytes = layout_bytes(spec.in[0].type, spec.in[0].layout);
  return lowered;
}

Lowered lower_mask_bits(const StepSpec& spec, int64_t row_bytes) {
  const auto mask = static_cast<size_t>(*pattern_of(*spec.node).mask);
  const Operand& o = spec.in[mask];
  const int64_t columns = o.type.shape[1], bytes = o.type.shape[0] * row_bytes;
  KernelText text;
  const Elements from = text.in(spec, mask), to = text.scratch(spec, DType::u8);
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
