// See fused_pattern.h.
#include "freight/ir/fused_pattern.h"

#include <algorithm>
#include <iterator>

#include "freight/base/error.h"

namespace freight {

namespace {

using Kind = FusedKind;
constexpr FusedPattern kPatterns[] = {
    {.kind = Kind::region, .name = "region"},
    {.kind = Kind::matmul_mask, .name = "matmul_mask", .product = Op::matmul, .mask = 2},
    {.kind = Kind::matmul_mask_sum, .name = "matmul_mask_sum", .product = Op::matmul, .mask = 2, .sums = 1},
    {.kind = Kind::matmul_lhs_sum, .name = "matmul_lhs_sum", .product = Op::matmul, .sums = 1, .summed = 0},
    {.kind = Kind::matmul_rhs_sum, .name = "matmul_rhs_sum", .product = Op::matmul, .sums = 1, .summed = 1},
    {.kind = Kind::conv_moments, .name = "conv_moments", .product = Op::conv, .mean = 1, .variance = 2},
    {.kind = Kind::norm_conv_moments,
     .name = "norm_conv_moments",
     .product = Op::conv,
     .scale = 2,
     .shift = 3,
     .mean = 1,
     .variance = 2},
    {.kind = Kind::norm_conv_grad_weight,
     .name = "norm_conv_grad_weight",
     .product = Op::conv_grad_weight,
     .scale = 2,
     .shift = 3},
    {.kind = Kind::conv_chain, .name = "conv_chain", .product = Op::conv},
};

const Node* first_product(const Graph& body) {
  const auto is_product = [](const Node& n) {
    return info(n.op).kind == OpKind::contract || info(n.op).kind == OpKind::convolve;
  };
  const auto at = std::find_if(body.nodes.begin(), body.nodes.end(), is_product);
  return at == body.nodes.end() ? nullptr : &*at;
}

// The kernels of a pattern finish the product themselves, so that an activation of its own would be lost; those of
// matrix products know two axes.
bool is_plain(const Graph& body, const Node& product) {
  if (product.op == Op::matmul)
    return !attrs<MatmulAttrs>(product).epilogue.relu && body.type(product.out()).shape.rank() == 2;
  return !attrs<ConvAttrs>(product).epilogue.relu;
}

}  // namespace

std::span<const FusedPattern> fused_patterns() { return kPatterns; }

const FusedPattern& pattern_of(FusedKind kind) {
  return *std::find_if(std::begin(kPatterns), std::end(kPatterns),
                       [&](const FusedPattern& p) { return p.kind == kind; });
}

const FusedPattern& pattern_of(const Node& node) {
  return pattern_of(node.op == Op::fused ? attrs<FusedAttrs>(node).pattern : FusedKind::region);
}

const Node* product_in(const Node& node) {
  return pattern_of(node).product ? first_product(*attrs<FusedAttrs>(node).body) : nullptr;
}

// The order in which nodes are made here must stay: has_pattern() compares bodies node by node, and stored texts have
// it.
std::shared_ptr<const Graph> pattern_body(FusedKind kind, const Attrs& product, const std::vector<Type>& operands) {
  const FusedPattern& p = pattern_of(kind);
  auto body = std::make_shared<Graph>();
  Builder b(*body);
  const auto input = [&](int i) { return b.one(Op::input, LeafAttrs{"", operands.at(static_cast<size_t>(i))}, {}); };
  const Value first = input(0), second = input(1);
  Value read = first;
  if (p.scale) {
    const Value scale = input(*p.scale), shift = input(*p.shift);
    read = norm_relu(b, first, scale, shift);
  }
  Value result = b.one(*p.product, product, {read, second});
  if (p.mask) {
    const Value y = input(*p.mask), zero = b.constant_like(0, result), zero_of_y = b.constant_like(0, y);
    result = b.where(b.binary(Op::gt, y, zero_of_y), result, zero);
  }
  body->outputs = {result};
  if (p.sums) body->outputs.push_back(b.sum(!p.summed ? result : *p.summed == 0 ? first : second, {0}));
  if (p.mean) {
    for (Value v : b.add(Op::moments, NoAttrs{}, {result})) body->outputs.push_back(v);
  }
  return body;
}

Value norm_relu(Builder& b, Value x, Value scale, Value shift) {
  const Ex wide_x{&b, b.cast(x, DType::f32)};
  const auto of_channels = [&](Value v) { return expand({&b, b.cast(v, DType::f32)}, wide_x.shape()); };
  const Ex added = of_channels(shift), factor = of_channels(scale);
  return b.unary(Op::relu, b.cast((wide_x * factor + added).v, b.type(x).dtype));
}

std::shared_ptr<const Graph> chain_body(const Graph& graph, const ConvChainNodes& nodes) {
  auto body = std::make_shared<Graph>();
  Builder b(*body);
  const size_t count = nodes.convs.size();
  std::vector<std::vector<Value>> operands(count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = i == 0 ? 0 : 1; k < nodes.convs[i]->inputs.size(); ++k)
      operands[i].push_back(b.one(Op::input, LeafAttrs{"", graph.type(nodes.convs[i]->inputs[k])}, {}));
  }
  Value result, whole;
  for (size_t i = 0; i < count; ++i) {
    if (nodes.gated && i + 3 == count) {
      whole = result;
      const Value sums = b.sum(whole, {2, 3});
      result = b.binary(Op::mul, sums, b.constant_like(nodes.mean, sums));
    } else if (nodes.gated && i + 1 == count) {
      result = b.binary(Op::mul, whole, b.broadcast(b.unary(Op::sigmoid, result), b.shape(whole)));
    }
    if (i > 0) operands[i].insert(operands[i].begin(), result);
    result = b.one(Op::conv, nodes.convs[i]->attrs, operands[i]);
  }
  body->outputs = {result};
  return body;
}

ConvChainNodes chain_of(const Graph& body) {
  ConvChainNodes nodes;
  for (const Node& n : body.nodes) {
    if (n.op == Op::conv) nodes.convs.push_back(&n);
    if (n.op == Op::sum) nodes.gated = true;
    if (n.op == Op::constant) nodes.mean = attrs<ConstantAttrs>(n).value;
  }
  return nodes;
}

bool has_pattern(const Graph& body, FusedKind kind) {
  const FusedPattern& p = pattern_of(kind);
  if (kind == Kind::conv_chain) {
    const ConvChainNodes nodes = chain_of(body);
    return nodes.convs.size() > (nodes.gated ? 3 : 1) && structurally_equal(body, *chain_body(body, nodes));
  }
  const Node* product = first_product(body);
  if (!p.product) return !product;
  if (!product || product->op != *p.product || !is_plain(body, *product)) return false;
  std::vector<Type> operands;
  for (Value v : body.leaves(Op::input)) operands.push_back(body.type(v));
  if (static_cast<int>(operands.size()) != p.operand_count()) return false;
  try {
    return structurally_equal(body, *pattern_body(kind, product->attrs, operands));
  } catch (const Error&) {  // the operands do not fit together in this way
    return false;
  }
}

std::optional<FusedKind> find_pattern(const Graph& body) {
  const auto found = std::find_if(std::begin(kPatterns), std::end(kPatterns),
                                  [&](const FusedPattern& p) { return has_pattern(body, p.kind); });
  return found == std::end(kPatterns) ? std::nullopt : std::optional(found->kind);
}

}  // namespace freight
