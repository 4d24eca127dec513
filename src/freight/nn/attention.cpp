// See attention.h. D numbers per head, H heads.
#include "freight/nn/attention.h"

#include <algorithm>
#include <cmath>

#include "freight/base/error.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/linalg.h"
#include "freight/ops/neural.h"
#include "freight/ops/random.h"
#include "freight/ops/sequence.h"
#include "freight/ops/shape.h"
#include "freight/trace/tracer.h"

namespace freight::nn {

namespace {

void need_tokens(const char* op, const Tensor& x, int64_t width) {
  if (x.rank() != 3 || x.dim(2) != width) {
    trace::fail_here(op, "need (N, T, ", width, "): got ", x.type());
  }
}

LinearOptions begins_normal(double deviation, bool bias = true) {
  return {.bias = bias, .init = WeightInit::normal, .bias_init = BiasInit::zero, .deviation = deviation};
}

}  // namespace

PositionEmbedding::PositionEmbedding(const Fields& fields) : fields_(checked<PositionEmbedding>(fields)) {
  weight = parameter("weight", {fields.length, fields.width}, init::normal(0, fields.deviation));
}
Tensor PositionEmbedding::forward(const Tensor& x) {
  need_tokens("PositionEmbedding", x, weight.shape()[1]);
  if (x.dim(1) > weight.shape()[0]) {
    trace::fail_here("PositionEmbedding", "more tokens than places: got ", x.type(), ", need at most ",
                     weight.shape()[0]);
  }
  return x + narrow(weight, 0, 0, x.dim(1));
}

MultiheadAttention::MultiheadAttention(const Fields& fields) : fields_(checked<MultiheadAttention>(fields)) {
  const int64_t width = fields.width;
  if (width % fields.heads != 0) {
    fail(ErrorKind::usage, "MultiheadAttention", "the heads must divide the width: got width ", width, " and ",
         fields.heads, " heads");
  }
  const bool normal = fields.out_deviation > 0;
  const Shape in{3 * width, width};
  in_proj_weight =
      parameter("in_proj_weight", in, normal ? init::normal(0, kTransformerDeviation) : init::xavier_uniform(in));
  if (fields.bias) in_proj_bias = parameter("in_proj_bias", {3 * width}, init::constant(0));
  const LinearOptions usual{.bias = fields.bias, .bias_init = BiasInit::zero};
  out_proj_ = &add<Linear>("out_proj", width, width, normal ? begins_normal(fields.out_deviation, fields.bias) : usual);
}

Tensor MultiheadAttention::forward(const Tensor& x) {
  const int64_t width = in_proj_weight.shape()[1];
  need_tokens("MultiheadAttention", x, width);
  const int64_t n = x.dim(0), t = x.dim(1);
  const Tensor qkv = fields_.bias ? linear(x, in_proj_weight, in_proj_bias) : linear(x, in_proj_weight);  // (N, T, 3 C)
  const auto part = [&](int64_t i) {  // (N, H, T, D)
    return permute(reshape(narrow(qkv, 2, i * width, width), {n, t, fields_.heads, width / fields_.heads}),
                   {0, 2, 1, 3});
  };
  const Tensor y = attention(part(0), part(1), part(2), {.causal = fields_.causal, .lengths = token_counts(x)});
  return (*out_proj_)(reshape(permute(y, {0, 2, 1, 3}), {n, t, width}));
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

Tensor TransformerBlock::forward(const Tensor& x) {
  const auto drop = [&](const Tensor& t) { return training() ? dropout(t, fields_.dropout) : t; };
  const Tensor seen = x + drop((*attention_)((*norm1_)(x)));
  return seen + drop((*linear2_)(gelu((*linear1_)((*norm2_)(seen)))));
}

LayerList attention_layers() {
  return {
      declared(Layer<PositionEmbedding>("PositionEmbedding",
                                        "adds a learned vector per place to (N, T, C), T up to `length`")
                   .size("length", &PositionFields::length, 1, "places that there are")
                   .size("width", &PositionFields::width, 2, "C")
                   .field("deviation", &PositionFields::deviation, "of the initial values", kNotNegative)
                   .weight([](const PositionFields& f) {
                     return static_cast<double>(f.length) * static_cast<double>(f.width);
                   })),
      declared(Layer<MultiheadAttention>("MultiheadAttention", "self-attention on (N, T, C); Vaswani et al. 2017")
                   .size("width", &MultiheadAttentionFields::width, 2, "C")
                   .required("heads", &MultiheadAttentionFields::heads, "how many, a divisor of the width")
                   .field("causal", &MultiheadAttentionFields::causal, "a token sees itself and what precedes it")
                   .field("bias", &MultiheadAttentionFields::bias, "of both projections")
                   .field("out_deviation", &MultiheadAttentionFields::out_deviation,
                          "of the last projection's initial values; 0: PyTorch's initial values", kNotNegative)
                   .weight([](const MultiheadAttentionFields& f) {
                     return 3.0 * static_cast<double>(f.width) * static_cast<double>(f.width);
                   })),
      declared(
          Layer<TransformerBlock>("TransformerBlock",
                                  "attention and a perceptron with GELU, each behind a LayerNorm; Radford et al. 2019")
              .size("width", &TransformerBlockFields::width, 2, "C")
              .required("heads", &TransformerBlockFields::heads, "how many, a divisor of the width")
              .field("causal", &TransformerBlockFields::causal, "a token sees itself and what precedes it")
              .field("dropout", &TransformerBlockFields::dropout, "of what both add, in training", kProbability)
              .field("hidden", &TransformerBlockFields::hidden, "numbers inside the perceptron; 0: 4 C", kNotNegative)
              .field("depth", &TransformerBlockFields::depth, "blocks of the net, for the initial values", kPositive)
              .weight([](const TransformerBlockFields& f) {
                return static_cast<double>(std::max(f.hidden, 4 * f.width)) * static_cast<double>(f.width);
              })),
  };
}

}  // namespace freight::nn
