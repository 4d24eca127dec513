// Type rules of what works on sequences: attention and recurrent layers. See infer.h; the other rules are in infer.cpp.
#include <algorithm>

#include "freight/ir/infer_internal.h"

namespace freight::infer {

Types attention(const Node& node, const Types& in) {
  const Shape &q = in[0].shape, &k = in[1].shape;
  if (q.rank() != 4 || k.rank() != 4 || k[2] < 1 || !(in[1] == Type{in[0].dtype, {q[0], q[1], k[2], q[3]}}) ||
      !(in[1] == in[2])) {
    bad(node, "expected q (B, H, T, D) and k, v (B, H, S, D), got ", in[0], ", ", in[1], " and ", in[2]);
  }
  const auto& a = attrs<AttentionAttrs>(node);
  const auto count = static_cast<size_t>(a.inputs());
  if (in.size() != count) bad(node, "expected ", count, " inputs with its lengths and mask, got ", in.size());
  const Type lengths{DType::i32, {q[0]}}, lse{wide(in[0].dtype), {q[0], q[1], q[2]}};
  if (a.lengths && !(in[3] == lengths) && !(in[3] == Type{DType::i64, {q[0]}})) {
    bad(node, "lengths must be integers, one per sample: expected ", lengths, ", got ", in[3]);
  }
  if (a.mask) {
    const Type& mask = in.back();
    const Shape need{(a.mask_samples ? q[0] : 1) * (a.mask_heads ? q[1] : 1), q[2], k[2]};
    const bool fits = mask.shape == need || mask.shape == Shape{need[0], 1, k[2]};
    if (!fits || (mask.dtype != DType::boolean && mask.dtype != lse.dtype))
      bad(node, "expected a mask of bool or ", Type{lse.dtype, need}, ", or with 1 for axis 1, got ", mask);
  }
  return {in[0], lse};
}

Types attention_grad(const Node& node, const Types& in) {
  const auto& a = attrs<AttentionAttrs>(node);
  Types need(in.begin(), in.begin() + a.inputs());
  const Types results = attention(node, need);
  need.insert(need.end(), results.begin(), results.end());
  need.insert(need.end(), results.begin(), results.begin() + (a.second ? 2 : 1));
  if (in != need) bad(node, "y, lse and their cotangents do not belong to q, k and v: got ", in[0], " and ", in.back());
  return {in.begin(), in.begin() + 3};
}

Types recurrent(const Node& node, const Types& in) {
  const auto& a = attrs<RecurrentAttrs>(node);
  const Shape& x = in[0].shape;
  const int64_t gates = a.gru ? 3 : 4, width = x.rank() == 3 ? x[2] / gates : 0;
  const DType t = in[0].dtype;
  Types need{in[0], {wide(t), {gates * width, width}}};
  if (a.gru) need.push_back({wide(t), {width}});
  if (a.lengths) need.push_back({DType::i32, {x[0]}});
  if (width < 1 || x[1] < 1 || in != need) {
    bad(node, "expected x (N, T, ", gates, " H), w (", gates, " H, H) ", wide(t), a.gru ? ", inside (H)" : "",
        a.lengths ? " and counts i32 (N)" : "", ": got ", in[0], ", ", in[1], in.size() > 2 ? " and others" : "");
  }
  const Type state{t, {x[0], x[1], width}};
  return {state, state, in[0]};
}

Types recurrent_grad(const Node& node, const Types& in) {
  const auto& a = attrs<RecurrentAttrs>(node);
  if (a.lengths != (in.size() == 6)) bad(node, "expected ", a.lengths ? 6 : 5, ", got ", in.size(), " inputs");
  Types need{in[3], in[0]};
  if (a.gru) need.push_back({in[0].dtype, {in[0].shape.rank() == 2 ? in[0].shape[1] : 0}});
  Types out = need;
  if (a.lengths) need.push_back(in[5]);
  const Type state = recurrent(node, need)[0];
  if (!(in[1] == state) || !(in[2] == state) || !(in[4] == state)) {
    bad(node, "y, the saved tensors and dy must be ", state, ": got ", in[1], ", ", in[2], " and ", in[4]);
  }
  return out;
}

Types recurrent_layer(const Node& node, const Types& in) {
  const auto& a = attrs<RecurrentLayerAttrs>(node);
  const Shape &x = in[0].shape, &bias = in[2].shape;
  const DType t = wide(in[0].dtype);
  if (x.rank() != 3 || bias.rank() != 1 || !(in[1] == Type{t, {bias[0], x[2]}}) || in[2].dtype != t) {
    bad(node, "expected x (N, T, D), w_ih (G H, D) and bias (G H) ", t, ": got ", in[0], ", ", in[1], " and ", in[2]);
  }
  Node steps = node;
  steps.attrs = a.steps;
  Types of_steps{{in[0].dtype, {x[0], x[1], bias[0]}}};
  of_steps.insert(of_steps.end(), in.begin() + 3, in.end());
  return recurrent(steps, of_steps);
}

Types recurrent_layer_grad(const Node& node, const Types& in) {
  const auto& a = attrs<RecurrentLayerAttrs>(node);
  const int weights = 4 + a.steps.gru;
  Types need(in.begin(), in.begin() + std::min<int>(static_cast<int>(in.size()), weights + a.steps.lengths));
  const Types results = recurrent_layer(node, need);
  need.insert(need.end(), results.begin(), results.end());
  need.push_back(results[0]);
  if (in != need) bad(node, "results and dy do not belong to the layer: got ", in[0], " and ", in.back());
  return {in.begin(), in.begin() + weights};
}

}  // namespace freight::infer
