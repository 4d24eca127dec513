// See attention.h. D numbers per head, H heads.
#include "freight/nn/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "freight/base/usage.h"
#include "freight/nn/layers_internal.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/linalg.h"
#include "freight/ops/neural.h"
#include "freight/ops/random.h"
#include "freight/ops/reduce.h"
#include "freight/ops/sequence.h"
#include "freight/ops/shape.h"
#include "freight/trace/tracer.h"

namespace freight::nn {

namespace {

LinearOptions begins_normal(double deviation, bool bias = true) {
  return {.bias = bias, .init = WeightInit::normal, .bias_init = BiasInit::zero, .deviation = deviation};
}

}  // namespace

PositionEmbedding::PositionEmbedding(const Fields& fields) : fields_(checked<PositionEmbedding>(fields)) {
  const Init normal = init::normal(0, fields.deviation);
  weight = fields.batch_axis ? parameter("", {1, fields.length, fields.width}, normal)
                             : parameter("weight", {fields.length, fields.width}, normal);
}
Tensor PositionEmbedding::forward(const Tensor& x) {
  need_tokens("PositionEmbedding", x, fields_.width);
  if (x.dim(1) > fields_.length) {
    trace::fail_here("PositionEmbedding", "more tokens than positions: expected at most ", fields_.length, ", got ",
                     x.type());
  }
  return x + narrow(weight, fields_.batch_axis ? 1 : 0, 0, x.dim(1));
}

MultiheadAttention::MultiheadAttention(const Fields& fields) : fields_(checked<MultiheadAttention>(fields)) {
  const int64_t width = fields.width;
  need_multiple("MultiheadAttention", "width, by heads", width, fields.heads);
  const bool normal = fields.out_deviation > 0;
  const auto weight = [&](const std::string& name, int64_t rows, int64_t columns) {
    const Shape shape{rows, columns};
    return parameter(name, shape, normal ? init::normal(0, kTransformerDeviation) : init::xavier_uniform(shape));
  };
  if (own_widths()) {
    q_proj_weight = weight("q_proj_weight", width, width);
    k_proj_weight = weight("k_proj_weight", width, key_width());
    v_proj_weight = weight("v_proj_weight", width, value_width());
  } else {
    in_proj_weight = weight("in_proj_weight", 3 * width, width);
  }
  if (fields.bias) in_proj_bias = parameter("in_proj_bias", {3 * width}, init::constant(0));
  const LinearOptions usual{.bias = fields.bias, .bias_init = BiasInit::zero};
  out_proj_ = &add<Linear>("out_proj", width, width, normal ? begins_normal(fields.out_deviation, fields.bias) : usual);
}

bool MultiheadAttention::own_widths() const { return key_width() != fields_.width || value_width() != fields_.width; }

MultiheadAttention::Heads MultiheadAttention::heads(const Tensor& query, const Tensor& key, const Tensor& value) const {
  const int64_t width = fields_.width;
  const auto split = [&](const Tensor& x) {  // (N, L, C) -> (N, H, L, D)
    return permute(reshape(x, {x.dim(0), x.dim(1), fields_.heads, width / fields_.heads}), {0, 2, 1, 3});
  };
  const auto same = [](const Tensor& a, const Tensor& b) { return a.impl() == b.impl(); };
  if (!own_widths() && same(query, key) && same(key, value)) {
    const Tensor qkv = fields_.bias ? linear(query, in_proj_weight, in_proj_bias) : linear(query, in_proj_weight);
    const auto part = [&](int64_t i) { return split(narrow(qkv, 2, i * width, width)); };
    return {part(0), part(1), part(2)};
  }
  const auto projected = [&](int64_t i, const Tensor& x, const Variable& own) {
    const Tensor weight = own.defined() ? own.value() : narrow(in_proj_weight, 0, i * width, width);
    return split(fields_.bias ? linear(x, weight, narrow(in_proj_bias, 0, i * width, width)) : linear(x, weight));
  };
  return {projected(0, query, q_proj_weight), projected(1, key, k_proj_weight), projected(2, value, v_proj_weight)};
}

Tensor MultiheadAttention::joined(const Tensor& y) const {
  return (*out_proj_)(reshape(permute(y, {0, 2, 1, 3}), {y.dim(0), y.dim(2), fields_.width}));
}

Tensor MultiheadAttention::forward(const Tensor& x) {
  need_tokens("MultiheadAttention", x, fields_.width);
  if (own_widths()) {
    trace::fail_here("MultiheadAttention", "one input is query, key and value: expected keys of width ", key_width(),
                     " and values of width ", value_width(), ", got ", x.type(), "; call it with three inputs");
  }
  const Heads h = heads(x, x, x);
  const AttentionOptions options{.causal = fields_.causal, .lengths = token_counts(x)};
  if (fields_.dropout == 0 || !training()) return joined(attention(h.q, h.k, h.v, options));
  return joined(matmul(dropout(attention_weights(h.q, h.k, options), fields_.dropout), h.v));
}

namespace {

// One of PyTorch's masks as a bias or as what is seen, of rank 4.
void add_mask(const char* name, const Tensor& mask, const Shape& shape, AttentionOptions& options) {
  const Tensor wide = reshape(mask, shape);
  if (mask.dtype() != DType::boolean && !is_floating(mask.dtype())) {
    trace::fail_here("MultiheadAttention", name, " must be bool (true: hidden) or floating (added): got ", mask.type(),
                     "; compare it first");
  }
  if (mask.dtype() == DType::boolean) {
    const Tensor seen = logical_not(wide);
    if (!options.mask.defined()) {
      options.mask = seen;
    } else if (options.mask.dtype() == DType::boolean) {
      options.mask = logical_and(options.mask, seen);
    } else {
      options.mask = where(seen, options.mask, -std::numeric_limits<double>::infinity());
    }
    return;
  }
  if (!options.mask.defined()) {
    options.mask = wide;
  } else if (options.mask.dtype() == DType::boolean) {
    options.mask = where(options.mask, wide, -std::numeric_limits<double>::infinity());
  } else {
    options.mask = options.mask + cast(wide, options.mask.dtype());
  }
}

// The shape of attn_mask as one that broadcasts to (N, H, T, S).
Shape mask_shape(const Tensor& mask, const Shape& scores) {
  const int64_t samples = scores[0], heads = scores[1], queries = scores[2], keys = scores[3];
  const Shape &m = mask.shape(), own{queries, keys};
  if (m == own) return {1, 1, queries, keys};
  if (m == Shape{samples * heads, queries, keys}) return scores;
  if (m == Shape{samples, queries, keys}) return {samples, 1, queries, keys};
  bool fits = m.rank() == 4;
  for (int i = 0; fits && i < 4; ++i) fits = m[i] == 1 || m[i] == scores[i];
  if (!fits) {
    trace::fail_here("MultiheadAttention", "attn_mask does not fit: expected (T, S) = ", own,
                     ", (N H, T, S) = ", Shape{samples * heads, queries, keys},
                     ", (N, T, S) = ", Shape{samples, queries, keys}, " or what broadcasts to (N, H, T, S) = ", scores,
                     ", got ", mask.type());
  }
  return m;
}

}  // namespace

AttentionOutput MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                            const AttentionCall& call) {
  need_tokens("MultiheadAttention", query, fields_.width);
  const int64_t n = query.dim(0), t = query.dim(1);
  if (key.rank() != 3 || value.rank() != 3 || key.dim(0) != n || value.dim(0) != n || key.dim(1) != value.dim(1) ||
      key.dim(2) != key_width() || value.dim(2) != value_width()) {
    trace::fail_here("MultiheadAttention", "expected key (N, S, ", key_width(), ") and value (N, S, ", value_width(),
                     ") for query ", query.type(), ": got ", key.type(), " and ", value.type());
  }
  const int64_t s = key.dim(1);
  const Shape scores{n, fields_.heads, t, s};
  AttentionOptions options{.causal = fields_.causal || call.is_causal};
  if (call.lengths.defined()) {
    if (call.lengths.shape() != Shape{n} || !is_integer(call.lengths.dtype())) {
      trace::fail_here("MultiheadAttention", "lengths must be integers, one per sample: expected (", n, "), got ",
                       call.lengths.type());
    }
    options.lengths = call.lengths;
  }
  if (call.attn_mask.defined()) {
    add_mask("attn_mask", call.attn_mask, mask_shape(call.attn_mask, scores), options);
  }
  if (call.key_padding_mask.defined()) {
    if (call.key_padding_mask.shape() != Shape{n, s}) {
      trace::fail_here("MultiheadAttention", "key_padding_mask does not fit: expected (N, S) = ", Shape{n, s}, ", got ",
                       call.key_padding_mask.type());
    }
    add_mask("key_padding_mask", call.key_padding_mask, {n, 1, 1, s}, options);
  }
  const Heads h = heads(query, key, value);
  const double drop = training() ? fields_.dropout : 0;
  if (!call.need_weights && drop == 0) return {joined(attention(h.q, h.k, h.v, options)), {}};
  Tensor weights = attention_weights(h.q, h.k, options);
  if (drop > 0) weights = dropout(weights, drop);
  AttentionOutput out{joined(matmul(weights, h.v)), {}};
  if (call.need_weights) out.weights = call.average_attn_weights ? mean(weights, 1) : weights;
  return out;
}

AttentionOutput MultiheadAttention::operator()(const In& query, const In& key, const In& value,
                                               const AttentionCall& call) {
  const Module::Call entered(*this, query.where);
  const std::vector<Tensor> in =
      entered.given({trace::tensor_of(query, "MultiheadAttention"), trace::tensor_of(key, "MultiheadAttention"),
                     trace::tensor_of(value, "MultiheadAttention")});
  const AttentionOutput made = forward(in[0], in[1], in[2], call);
  std::vector<Tensor> out = entered.done(in, {made.output, made.weights});
  return {std::move(out[0]), std::move(out[1])};
}

std::vector<Tensor> MultiheadAttention::forward_all(const std::vector<Tensor>& inputs) {
  if (inputs.size() != 3) return Module::forward_all(inputs);
  return {forward(inputs[0], inputs[1], inputs[2], {}).output};
}

TransformerBlock::TransformerBlock(const Fields& fields) : fields_(checked<TransformerBlock>(fields)) {
  const int64_t width = fields.width;
  const int64_t hidden = fields.hidden > 0 ? fields.hidden : 4 * width;
  const double adds = kTransformerDeviation / std::sqrt(2.0 * static_cast<double>(fields.depth));
  norm1_ = &add<LayerNorm>("norm1", Extents(width));
  attention_ = &add<MultiheadAttention>("attention", width, fields.heads,
                                        MultiheadAttentionOptions{.causal = fields.causal, .out_deviation = adds});
  norm2_ = &add<LayerNorm>("norm2", Extents(width));
  linear1_ = &add<Linear>("linear1", width, hidden, begins_normal(kTransformerDeviation));
  linear2_ = &add<Linear>("linear2", hidden, width, begins_normal(adds));
}

Tensor TransformerBlock::forward(const Tensor& x) { return forward(x, BlockCall{}); }

Tensor TransformerBlock::forward(const Tensor& x, const BlockCall& call) {
  need_tokens("TransformerBlock", x, fields_.width);
  const auto drop = [&](const Tensor& t) { return training() ? dropout(t, fields_.dropout) : t; };
  const bool hides = call.key_padding_mask.defined() || call.attn_mask.defined() || call.lengths.defined();
  const Tensor normed = (*norm1_)(x);
  Tensor attended;
  if (hides || call.is_causal) {
    // Keys are the tokens of x themselves, so that padding which was announced for them is hidden beside the masks.
    const Tensor lengths = call.lengths.defined() ? call.lengths : token_counts(x);
    attended = (*attention_)(normed, normed, normed,
                             {.key_padding_mask = call.key_padding_mask,
                              .attn_mask = call.attn_mask,
                              .lengths = lengths,
                              .is_causal = call.is_causal})
                   .output;
  } else {
    attended = (*attention_)(normed);
  }
  const Tensor seen = x + drop(attended);
  return seen + drop((*linear2_)(gelu((*linear1_)((*norm2_)(seen)))));
}

Tensor TransformerBlock::operator()(const In& x, const BlockCall& call) {
  const Module::Call entered(*this, x.where);
  const std::vector<Tensor> in = entered.given({trace::tensor_of(x, "TransformerBlock")});
  return entered.done(in, {forward(in[0], call)})[0];
}

LayerList attention_layers() {
  return {
      declared(Layer<PositionEmbedding>("PositionEmbedding",
                                        "adds a learned vector per position to (N, T, C), T up to `length`")
                   .size("length", &PositionFields::length, 1, "number of positions")
                   .size("width", &PositionFields::width, 2, "C")
                   .field("deviation", &PositionFields::deviation, "of the initial values", kNotNegative)
                   .field("batch_axis", &PositionFields::batch_axis,
                          "the weight is (1, length, width), under the layer's path")
                   .weight([](const PositionFields& f) {
                     return static_cast<double>(f.length) * static_cast<double>(f.width);
                   })),
      declared(
          Layer<MultiheadAttention>(
              "MultiheadAttention",
              "self-attention on (N, T, C); programs may pass other keys and values; Vaswani et al. 2017")
              .size("width", &MultiheadAttentionFields::width, 2, "C")
              .required("heads", &MultiheadAttentionFields::heads, "how many, a divisor of the width")
              .field("causal", &MultiheadAttentionFields::causal,
                     "a token attends to itself and to earlier tokens only")
              .field("bias", &MultiheadAttentionFields::bias, "of both projections")
              .field("out_deviation", &MultiheadAttentionFields::out_deviation,
                     "of the last projection's initial values; 0: PyTorch's initial values", kNotNegative)
              .field("key_width", &MultiheadAttentionFields::key_width, "numbers per key; 0: C", kNotNegative)
              .field("value_width", &MultiheadAttentionFields::value_width, "numbers per value; 0: C", kNotNegative)
              .field("dropout", &MultiheadAttentionFields::dropout, "of the attention weights, in training",
                     kProbability)
              .weight([](const MultiheadAttentionFields& f) {
                const int64_t rows = std::max({3 * f.width, f.key_width, f.value_width});
                return static_cast<double>(f.width) * static_cast<double>(rows);
              })),
      declared(
          Layer<TransformerBlock>("TransformerBlock",
                                  "attention and an MLP with GELU, each after a LayerNorm; Radford et al. 2019")
              .size("width", &TransformerBlockFields::width, 2, "C")
              .required("heads", &TransformerBlockFields::heads, "how many, a divisor of the width")
              .field("causal", &TransformerBlockFields::causal, "a token attends to itself and to earlier tokens only")
              .field("dropout", &TransformerBlockFields::dropout, "of what both add, in training", kProbability)
              .field("hidden", &TransformerBlockFields::hidden, "hidden size of the MLP; 0: 4 C", kNotNegative)
              .field("depth", &TransformerBlockFields::depth, "blocks of the network, for the initialization",
                     kPositive)
              .weight([](const TransformerBlockFields& f) {
                return static_cast<double>(std::max(f.hidden, 4 * f.width)) * static_cast<double>(f.width);
              })),
  };
}

}  // namespace freight::nn
