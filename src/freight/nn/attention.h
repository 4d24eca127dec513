// Layers of transformers. N batch, T tokens, C numbers per token.
#pragma once
#include "freight/nn/layers.h"
#include "freight/nn/norm.h"

namespace freight::nn {

inline constexpr double kTransformerDeviation = 0.02;  // of initial weights; Radford et al. 2019

struct PositionOptions {
  double deviation = kTransformerDeviation;  // of the initial values, which are normal
  bool batch_axis = false;                   // the weight is (1, length, C), as torchvision has it
};
struct PositionFields : PositionOptions {
  int64_t length = 0, width = 0;  // places at most; C
};
// Adds a learned vector per position: (N, T, C) -> (N, T, C) for T up to `length`; weight (length, C), or with
// batch_axis (1, length, C) under the layer's own path.
class PositionEmbedding : public Module {
 public:
  using Fields = PositionFields;
  explicit PositionEmbedding(const Fields& fields);
  PositionEmbedding(WholeNumber length, WholeNumber width, const PositionOptions& options = {})
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
  // Standard deviation of out_proj's initial weight; that of in_proj is then 0.02. 0: PyTorch's initialization (Xavier,
  // zero biases).
  double out_deviation = 0;
  int64_t key_width = 0, value_width = 0;  // numbers per key and per value; 0: C
  double dropout = 0;                      // of the attention weights, in training
};
struct MultiheadAttentionFields : MultiheadAttentionOptions {
  int64_t width = 0, heads = 0;  // C; heads, which divide it
};
// Settings of one call: what it hides and asks for, named as in PyTorch. Both masks are bool, where true HIDES a
// position (in attention() of ops/sequence.h true shows it), or floating, and are then added to the scores.
struct AttentionCall {
  Tensor key_padding_mask = {};      // (N, S): keys that are padding
  Tensor attn_mask = {};             // (T, S), (N H, T, S) or (N, T, S), or rank 4 that broadcasts to (N, H, T, S)
  Tensor lengths = {};               // integers (N): the keys that each sample has, from its first on; at least 1
  bool is_causal = false;            // query i sees the keys 0 to i
  bool need_weights = false;         // also return the attention weights
  bool average_attn_weights = true;  // over the heads
};
// The results of a call on queries, keys and values.
struct AttentionOutput {
  Tensor output;   // (N, T, C)
  Tensor weights;  // (N, T, S), of each head (N, H, T, S); undefined where they were not asked for
};
// Attention in H heads of C / H, with PyTorch's parameter names: in_proj_weight (3 C, C) makes queries, keys and
// values, or q_proj_weight, k_proj_weight and v_proj_weight where keys or values have widths of their own. Batch first.
// A query that sees no key gets zeros from its heads, where PyTorch gives NaN. Vaswani et al. 2017.
class MultiheadAttention : public Module {
 public:
  using Fields = MultiheadAttentionFields;
  explicit MultiheadAttention(const Fields& fields);
  MultiheadAttention(WholeNumber width, WholeNumber heads, const MultiheadAttentionOptions& options = {})
      : MultiheadAttention(Fields{options, width, heads}) {}
  const Fields& fields() const { return fields_; }
  // Self-attention (N, T, C) -> (N, T, C). Padding that an Embedding has announced is masked.
  using Module::operator();
  Tensor forward(const Tensor& x) override;
  // Queries (N, T, C) on keys (N, S, key_width) and values (N, S, value_width): of other tokens, or of the same with
  // masks. Only what `call` hides is hidden: what an Embedding has announced may belong to other tokens than the keys.
  AttentionOutput operator()(const In& query, const In& key, const In& value, const AttentionCall& call = {});
  // The function of that call, without its name and its hooks.
  AttentionOutput forward(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionCall& call);
  // One input, or query, key and value; one result.
  std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs) override;
  // The projections to queries, keys and values: (3 C, C) and (3 C).
  Variable in_proj_weight, in_proj_bias;
  // The projections from widths of their own: (C, C), (C, key_width), (C, value_width).
  Variable q_proj_weight, k_proj_weight, v_proj_weight;

 private:
  int64_t key_width() const { return fields_.key_width > 0 ? fields_.key_width : fields_.width; }
  int64_t value_width() const { return fields_.value_width > 0 ? fields_.value_width : fields_.width; }
  bool own_widths() const;
  // Queries, keys and values (N, H, T or S, D).
  struct Heads {
    Tensor q, k, v;
  };
  Heads heads(const Tensor& query, const Tensor& key, const Tensor& value) const;
  Tensor joined(const Tensor& y) const;  // (N, H, T, D) -> (N, T, C), by out_proj
  Fields fields_;
  Linear* out_proj_;
};

struct TransformerBlockOptions {
  bool causal = false;  // a token sees itself and what precedes it
  double dropout = 0;   // of what attention and the perceptron add
  int64_t hidden = 0;   // hidden size of the MLP; 0: 4 C
  int64_t depth = 1;    // blocks of the net: what they add begins smaller by sqrt(2 depth)
};
struct TransformerBlockFields : TransformerBlockOptions {
  int64_t width = 0, heads = 0;  // C; heads, which divide it
};
// Settings of one call of a block: what its attention hides, as in AttentionCall with S = T.
struct BlockCall {
  Tensor key_padding_mask = {};  // (N, T)
  Tensor attn_mask = {};         // (T, T), (N H, T, T), (N, T, T), or rank 4
  Tensor lengths = {};           // integers (N); undefined: as an Embedding has announced, or T
  bool is_causal = false;        // a token sees itself and what precedes it
};
// x + attention(norm1(x)), then x + linear2(gelu(linear1(norm2(x)))): the pre-norm block of Radford et al. 2019, with
// their initial values: normal of deviation 0.02, biases zero.
class TransformerBlock : public Module {
 public:
  using Fields = TransformerBlockFields;
  explicit TransformerBlock(const Fields& fields);
  TransformerBlock(WholeNumber width, WholeNumber heads, const TransformerBlockOptions& options = {})
      : TransformerBlock(Fields{options, width, heads}) {}
  const Fields& fields() const { return fields_; }
  using Module::operator();
  Tensor forward(const Tensor& x) override;
  // The same with masks: block(x, {.attn_mask = m}).
  Tensor operator()(const In& x, const BlockCall& call);
  // The function of that call, without its name and its hooks.
  Tensor forward(const Tensor& x, const BlockCall& call);

 private:
  Fields fields_;
  LayerNorm *norm1_, *norm2_;
  MultiheadAttention* attention_;
  Linear *linear1_, *linear2_;
};

}  // namespace freight::nn
