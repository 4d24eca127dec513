// The layouts that ops without freedom of strides want on the CPU; the layout pass asks through CpuBackend::layouts.
#include "freight/backend/cpu/dnnl_support.h"
#include "freight/backend/cpu/steps.h"

namespace freight::cpu {

namespace {

// Channels-last when the first operand is and could not be row-major as well, for ops that copy elements about and read
// any strides. Steps of a sequence (N, 1, C) are both, and their concatenation must not lie across them.
LayoutPlan follow_first(const Graph& graph, const Node& node, const std::vector<Layout>& given) {
  LayoutPlan plan;
  const Shape& first = graph.type(node.in(0)).shape;
  const bool channels_last = first.rank() >= 3 && same_layout(first, given[0], Layout::channels_last(first)) &&
                             !same_layout(first, given[0], Layout::row_major(first));
  const auto layout = [&](const Shape& s) { return channels_last ? Layout::channels_last(s) : Layout::row_major(s); };
  plan.in = given;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i].blocked) plan.in[i] = layout(graph.type(node.inputs[i]).shape);
  }
  plan.out.push_back(layout(graph.type(node.out()).shape));
  return plan;
}

LayoutPlan all_alike(const Graph& graph, const Node& node, Layout (*layout)(const Shape&)) {
  LayoutPlan plan;
  for (Value v : node.inputs) plan.in.push_back(layout(graph.type(v).shape));
  for (Value v : node.outputs) plan.out.push_back(layout(graph.type(v).shape));
  return plan;
}

}  // namespace

LayoutPlan cpu_layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given,
                       const FrozenInputs& frozen) {
  const DType dtype = graph.type(node.out()).dtype;
  if (info(node.op).kind == OpKind::pool && (dtype == DType::f32 || dtype == DType::bf16)) {
    return all_alike(graph, node, Layout::channels_last);
  }
  if (dnnl_multiplies(dtype)) {
    if (node.op == Op::matmul) return matmul_layouts(graph, node, given, frozen);
    if (node.op == Op::attention || node.op == Op::attention_grad) return attention_layouts(graph, node, given);
    if (info(node.op).kind == OpKind::convolve) return conv_layouts(graph, node, given, frozen);
  }
  if (node.op == Op::concat || node.op == Op::pad) return follow_first(graph, node, given);
  return all_alike(graph, node, Layout::row_major);
}

}  // namespace freight::cpu
