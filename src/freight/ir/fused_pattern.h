// The patterns of fused nodes (FusedKind in attrs.h): which operand and result of a node is what, and the body of each,
// which is its definition. Such nodes are made by backends whose library has a step for them
// (backend/gpu/fused_patterns.cpp, backend/cpu/conv_chain.cpp). The node carries the kind that was found there; type
// inference checks it against the body. A new pattern is a row here, its part of pattern_body(), the place where it is
// found, and its kernels (backend/gpu/pattern_kernels.h).
#pragma once
#include <optional>
#include <span>

#include "freight/ir/builder.h"

namespace freight {

// The operands begin with the two of `product`, a matmul or convolution without an epilogue; the results begin with its
// own, masked where there is a mask. A conv_chain's operands and results are other ones (chain_body). A number below is
// the position of an operand or of a result of the node.
struct FusedPattern {
  FusedKind kind = FusedKind::region;
  const char* name = "";
  std::optional<Op> product = {};
  std::optional<int> mask = {};                 // operand: where it is not above 0, the first result is 0
  std::optional<int> scale = {}, shift = {};    // operands: the product reads relu(x scale + shift), x its first
  std::optional<int> sums = {};                 // result: sums along axis 0, of `summed` or else of the first result
  std::optional<int> summed = {};               // operand that `sums` are of
  std::optional<int> mean = {}, variance = {};  // results: of the channels of the first result

  int operand_count() const { return 2 + mask.has_value() + scale.has_value() + shift.has_value(); }
};

std::span<const FusedPattern> fused_patterns();
const FusedPattern& pattern_of(FusedKind kind);
// The pattern of a fused node; of any other node, the region's, which has no product.
const FusedPattern& pattern_of(const Node& node);
// The matmul or convolution in a node's body; null where its pattern has none.
const Node* product_in(const Node& node);

// The body of a pattern that has a product. `product` are the product's attributes, `operands` the types of all
// operands of the node.
std::shared_ptr<const Graph> pattern_body(FusedKind kind, const Attrs& product, const std::vector<Type>& operands);
// Convolutions, each of which reads the result of the one before. `gated`: the last three are those of a
// squeeze-excitation and one that reads what it makes; `mean` is what it multiplies the sums over the pixels by.
struct ConvChainNodes {
  std::vector<const Node*> convs;
  bool gated = false;
  double mean = 0;
};
// The body of a conv_chain. The operands are those of the first convolution, then all but the image of each further
// one.
std::shared_ptr<const Graph> chain_body(const Graph& graph, const ConvChainNodes& nodes);
ConvChainNodes chain_of(const Graph& body);
// relu(x scale + shift) per channel, computed in f32, in x's type.
Value norm_relu(Builder& b, Value x, Value scale, Value shift);
// Tells whether this is the body of `kind`, node by node; every body without a product is a region's.
bool has_pattern(const Graph& body, FusedKind kind);
// The kind that this is the body of; nothing for a body with a product that is no pattern's.
std::optional<FusedKind> find_pattern(const Graph& body);

}  // namespace freight
