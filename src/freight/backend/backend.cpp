// Layout arithmetic and the defaults of the backend interface; see backend.h.
#include "freight/backend/backend.h"

#include <algorithm>

#include "freight/base/strings.h"

namespace freight {

bool Layout::operator==(const Layout& other) const {
  if (static_cast<bool>(blocked) != static_cast<bool>(other.blocked)) return false;
  if (!blocked) return strides == other.strides;
  return blocked == other.blocked || blocked->descriptor == other.blocked->descriptor;
}

bool same_layout(const Shape& shape, const Layout& a, const Layout& b) {
  if (a.blocked || b.blocked) return a == b;
  if (shape.numel() == 0) return true;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] != 1 && a.strides[i] != b.strides[i]) return false;
  }
  return true;
}

size_t layout_bytes(const Type& type, const Layout& layout) {
  if (layout.blocked) return layout.blocked->bytes;
  if (type.numel() == 0) return 0;
  int64_t last = 0;
  for (int i = 0; i < type.shape.rank(); ++i) last += (type.shape[i] - 1) * layout.strides[i];
  return static_cast<size_t>(last + 1) * size_of(type.dtype);
}

bool is_dense(const Shape& shape, const Layout& layout) {
  if (layout.blocked) return false;
  if (shape.numel() == 0) return true;
  std::vector<std::pair<int64_t, int64_t>> axes;  // (stride, extent), fastest first
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] != 1) axes.emplace_back(layout.strides[i], shape[i]);
  }
  std::sort(axes.begin(), axes.end());
  int64_t step = 1;
  for (const auto& [stride, extent] : axes) {
    if (stride != step) return false;
    step *= extent;
  }
  return true;
}

std::vector<int> memory_order(const Shape& shape, const Strides& strides) {
  std::vector<int> order;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] != 1) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return strides[a] > strides[b]; });
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] == 1) order.insert(i == 0 ? order.begin() : std::find(order.begin(), order.end(), i + 1), i);
  }
  return order;
}

std::string to_string(const Layout& layout) {
  return layout.blocked ? layout.blocked->name : to_string(layout.strides);
}

bool batch_stride(const Operand& operand, int64_t& stride) {
  int64_t inner = 1;
  stride = 0;
  for (int i = operand.type.shape.rank() - 3; i >= 0; --i) {
    if (operand.type.shape[i] == 1) continue;
    if (inner == 1) {
      stride = operand.layout.strides[i];
    } else if (operand.layout.strides[i] != stride * inner) {
      return false;
    }
    inner *= operand.type.shape[i];
  }
  return true;
}

std::string Backend::why_unsupported(DType dtype) const {
  return wide(dtype) == dtype ? std::string() : cat("the ", name(), " backend has no ", dtype, " kernels");
}

LayoutPlan Backend::layouts(const Graph& graph, const Node& node, const std::vector<Layout>&) const {
  LayoutPlan plan;
  for (Value v : node.inputs) plan.in.push_back(Layout::row_major(graph.type(v).shape));
  for (Value v : node.outputs) plan.out.push_back(Layout::row_major(graph.type(v).shape));
  return plan;
}

bool Backend::in_place(const Graph& graph, const Node& node, int input, int output) const {
  const OpKind kind = info(node.op).kind;
  const bool elementwise =
      kind == OpKind::unary || kind == OpKind::binary || kind == OpKind::ternary || info(node.op).in_place;
  return elementwise && graph.type(node.in(input)) == graph.type(node.out(output));
}

}  // namespace freight
