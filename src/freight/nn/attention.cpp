// See attention.h. D numbers per head, H heads.
#include "freight/nn/attention.h"

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

constexpr double kDeviation = 0.02;

void need_tokens(const char* op, const Tensor& x, int64_t width) {
  if (x.rank() != 3 || x.dim(2) != width) {
    trace::fail_here(op, "need (N, T, ", width, "): got ", x.type());
  }
}

LinearOptions begins_normal(double deviation, bool bias = true) {
  return {.bias = bias, .init = WeightInit::normal, .bias_init = BiasInit::zero, .deviation = deviation};
}

}  // namespace

PositionEmbedding::PositionEmbedding(int64_t length, int64_t width, double deviation) : deviation_(deviation) {
  if (length < 1 || width < 1) {
    fail(ErrorKind::usage, "PositionEmbedding", "length and width must be positive: got ", length, " and ", width);
  }
  weight = parameter("weight", {length, width}, init::normal(0, deviation));
}
Tensor PositionEmbedding::forward(const Tensor& x) {
  need_tokens("PositionEmbedding", x, weight.shape()[1]);
  if (x.dim(1) > weight.shape()[0]) {
    trace::fail_here("PositionEmbedding", "more tokens than places: got ", x.type(), ", need at most ",
                     weight.shape()[0]);
  }
  return x + narrow(weight, 0, 0, x.dim(1));
}
Config PositionEmbedding::config() const {
  return Config{"PositionEmbedding"}
      .integer("length", weight.shape()[0])
      .integer("width", weight.shape()[1])
      .number("deviation", deviation_, kDeviation);
}

MultiheadAttention::MultiheadAttention(int64_t width, int64_t heads, const MultiheadAttentionOptions& options)
    : heads_(heads), options_(options) {
  if (width < 1 || heads < 1 || width % heads != 0) {
    fail(ErrorKind::usage, "MultiheadAttention", "the heads must divide the width: got width ", width, " and ", heads,
         " heads");
  }
  const bool normal = options.out_deviation > 0;
  const Shape in{3 * width, width};
  in_proj_weight = parameter("in_proj_weight", in, normal ? init::normal(0, kDeviation) : init::xavier_uniform(in));
  if (options.bias) in_proj_bias = parameter("in_proj_bias", {3 * width}, init::constant(0));
  const LinearOptions usual{.bias = options.bias, .bias_init = BiasInit::zero};
  out_proj_ =
      &add<Linear>("out_proj", width, width, normal ? begins_normal(options.out_deviation, options.bias) : usual);
}

Tensor MultiheadAttention::forward(const Tensor& x) {
  const int64_t width = in_proj_weight.shape()[1];
  need_tokens("MultiheadAttention", x, width);
  const int64_t n = x.dim(0), t = x.dim(1);
  const Tensor qkv =
      options_.bias ? linear(x, in_proj_weight, in_proj_bias) : linear(x, in_proj_weight);  // (N, T, 3 C)
  const auto part = [&](int64_t i) {                                                        // (N, H, T, D)
    return permute(reshape(narrow(qkv, 2, i * width, width), {n, t, heads_, width / heads_}), {0, 2, 1, 3});
  };
  const Tensor y = attention(part(0), part(1), part(2), {.causal = options_.causal, .lengths = token_counts(x)});
  return (*out_proj_)(reshape(permute(y, {0, 2, 1, 3}), {n, t, width}));
}
Config MultiheadAttention::config() const {
  return Config{"MultiheadAttention"}
      .integer("width", in_proj_weight.shape()[1])
      .integer("heads", heads_)
      .flag("causal", options_.causal, false)
      .flag("bias", options_.bias, true)
      .number("out_deviation", options_.out_deviation, 0);
}

TransformerBlock::TransformerBlock(int64_t width, int64_t heads, const TransformerBlockOptions& options)
    : width_(width), heads_(heads), options_(options) {
  if (options.depth < 1) fail(ErrorKind::usage, "TransformerBlock", "depth must be positive: got ", options.depth);
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    fail(ErrorKind::usage, "TransformerBlock", "dropout out of range: got ", options.dropout, ", need 0 <= p < 1");
  }
  const int64_t hidden = options.hidden > 0 ? options.hidden : 4 * width;
  const double adds = kDeviation / std::sqrt(2.0 * static_cast<double>(options.depth));
  norm1_ = &add<LayerNorm>("norm1", Extents(width));
  attention_ = &add<MultiheadAttention>("attention", width, heads,
                                        MultiheadAttentionOptions{.causal = options.causal, .out_deviation = adds});
  norm2_ = &add<LayerNorm>("norm2", Extents(width));
  linear1_ = &add<Linear>("linear1", width, hidden, begins_normal(kDeviation));
  linear2_ = &add<Linear>("linear2", hidden, width, begins_normal(adds));
}

Tensor TransformerBlock::forward(const Tensor& x) {
  const auto drop = [&](const Tensor& t) { return training() ? dropout(t, options_.dropout) : t; };
  const Tensor seen = x + drop((*attention_)((*norm1_)(x)));
  return seen + drop((*linear2_)(gelu((*linear1_)((*norm2_)(seen)))));
}
Config TransformerBlock::config() const {
  return Config{"TransformerBlock"}
      .integer("width", width_)
      .integer("heads", heads_)
      .flag("causal", options_.causal, false)
      .number("dropout", options_.dropout, 0)
      .integer("hidden", options_.hidden, 0)
      .integer("depth", options_.depth, 1);
}

}  // namespace freight::nn
