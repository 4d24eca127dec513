// Layers of transformers. N batch, T tokens, C numbers per token.
#pragma once
#include "freight/nn/layers.h"
#include "freight/nn/norm.h"

namespace freight::nn {

inline constexpr double kTransformerDeviation = 0.02;  // of initial weights; Radford et al. 2019

struct PositionOptions {
  double deviation = kTransformerDeviation;  // of the initial values, which are normal
};
struct PositionFields : PositionOptions {
  int64_t length = 0, width = 0;  // places at most; C
};
// Adds a learned vector per place: (N, T, C) -> (N, T, C) for T up to `length`; weight (length, C).
class PositionEmbedding : public Module {
 public:
  using Fields = PositionFields;
  explicit PositionEmbedding(const Fields& fields);
  PositionEmbedding(int64_t length, int64_t width, const PositionOptions& options = {})
      : PositionEmbedding(Fields{options, length, width}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;
  Variable weight;

 private:
  Fields fields_;
};

struct MultiheadAttentionOptions {
  bool causal = false;  // a token sees itself and what precedes it
  bool bias = true;     // of both projections
  // The deviation of out_proj's weight.
  double out_deviation =
      0;  // normal initial values of out_proj, and 0.02 of in_proj; 0: PyTorch's (Xavier, zero biases)
};
struct MultiheadAttentionFields : MultiheadAttentionOptions {
  int64_t width = 0, heads = 0;  // C; heads, which divide it
};
// Self-attention (N, T, C) -> (N, T, C) in `heads` heads of C / heads, with PyTorch's parameter names: in_proj_weight
// (3 C, C) makes queries, keys and values. Padding that an Embedding has announced is not looked at. Vaswani et al.
// 2017.
class MultiheadAttention : public Module {
 public:
  using Fields = MultiheadAttentionFields;
  explicit MultiheadAttention(const Fields& fields);
  MultiheadAttention(int64_t width, int64_t heads, const MultiheadAttentionOptions& options = {})
      : MultiheadAttention(Fields{options, width, heads}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;
  // The projections to queries, keys and values: (3 C, C) and (3 C).
  Variable in_proj_weight, in_proj_bias;

 private:
  Fields fields_;
  Linear* out_proj_;
};

struct TransformerBlockOptions {
  bool causal = false;  // a token sees itself and what precedes it
  double dropout = 0;   // of what attention and the perceptron add
  int64_t hidden = 0;   // numbers inside the perceptron; 0: 4 C
  int64_t depth = 1;    // blocks of the net: what they add begins smaller by sqrt(2 depth)
};
struct TransformerBlockFields : TransformerBlockOptions {
  int64_t width = 0, heads = 0;  // C; heads, which divide it
};
// x + attention(norm1(x)), then x + linear2(gelu(linear1(norm2(x)))): the pre-norm block of Radford et al. 2019, with
// their initial values: normal of deviation 0.02, biases zero.
class TransformerBlock : public Module {
 public:
  using Fields = TransformerBlockFields;
  explicit TransformerBlock(const Fields& fields);
  TransformerBlock(int64_t width, int64_t heads, const TransformerBlockOptions& options = {})
      : TransformerBlock(Fields{options, width, heads}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;

 private:
  Fields fields_;
  LayerNorm *norm1_, *norm2_;
  MultiheadAttention* attention_;
  Linear *linear1_, *linear2_;
};

}  // namespace freight::nn
