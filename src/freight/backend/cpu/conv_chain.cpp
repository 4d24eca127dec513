// Chains of convolutions as one step (kernels/conv_chain.h): a depthwise one and the 1x1 ones before and behind it,
// where nobody else reads what lies between.
#include <algorithm>
#include <map>
#include <set>

#include "freight/backend/cpu/conv_op.h"
#include "freight/backend/cpu/families.h"
#include "freight/backend/cpu/kernels/conv_chain.h"
#include "freight/backend/cpu/steps.h"
#include "freight/ir/fused_pattern.h"

namespace freight::cpu {

namespace {

ConvOp op_of(const Graph& g, const Node& n) { return {n, g.type(n.in(0)), g.type(n.in(1)), g.type(n.out())}; }

bool is_plain(const Graph& g, const Node& n) {
  if (n.op != Op::conv || g.type(n.out()).dtype != DType::f32) return false;
  const ConvOp p = op_of(g, n);
  return p.x.shape.rank() == 4 && !p.empty() && !p.dilated();
}
bool is_depthwise(const Graph& g, const Node& n) {
  if (!is_plain(g, n)) return false;
  const ConvOp p = op_of(g, n);
  return p.a.groups > 1 && p.a.groups == p.x.shape[1] && p.a.groups == p.y.shape[1] && !p.a.epilogue.residual &&
         depthwise_conv_fits(plain_problem(p));
}
bool is_product(const Graph& g, const Node& n) {
  if (!is_plain(g, n)) return false;
  const ConvOp p = op_of(g, n);
  const ConvProblem c = plain_problem(p);
  return p.a.groups == 1 && c.kh == 1 && c.kw == 1 && c.stride_h == 1 && c.stride_w == 1 && c.oh == c.h && c.ow == c.w;
}

// The convolutions of a chain: depthwise_, and the others where they exist.
struct Chain {
  const Node *expand = nullptr, *depthwise = nullptr, *project = nullptr;
  std::vector<const Node*> nodes() const {
    std::vector<const Node*> all;
    for (const Node* n : {expand, depthwise, project}) {
      if (n) all.push_back(n);
    }
    return all;
  }
};

Chain chain_in(const Graph& body) {
  Chain c;
  for (const Node* n : chain_of(body)) (is_depthwise(body, *n) ? c.depthwise : c.depthwise ? c.project : c.expand) = n;
  return c;
}

// Each of them in the order in which the step has them, with the operands that it adds to the step.
template <class F>
void each_conv(const Node& fused, F f) {
  size_t next = 0;
  for (const Node* n : chain_of(*attrs<FusedAttrs>(fused).body)) {
    const size_t first = next == 0 ? 0 : next - 1;  // where its image would be
    f(*n, first);
    next = first + n->inputs.size();
  }
}

ChainProduct product_of(const Node* n, int64_t channels) {
  if (!n) return {};
  const Epilogue& e = attrs<ConvAttrs>(*n).epilogue;
  return {.channels = channels, .relu = e.relu, .most = static_cast<float>(e.most), .silu = e.silu};
}

ConvChainProblem problem_of(const Graph& g, const Chain& c) {
  return {.expand = product_of(c.expand, c.expand ? g.type(c.expand->in(0)).shape[1] : 0),
          .depthwise = plain_problem(op_of(g, *c.depthwise)),
          .project = product_of(c.project, c.project ? g.type(c.project->out()).shape[1] : 0),
          .depthwise_silu = attrs<ConvAttrs>(*c.depthwise).epilogue.silu};
}

class ChainKernel final : public Kernel {
 public:
  explicit ChainKernel(const Node& fused)
      : chain_(problem_of(*attrs<FusedAttrs>(fused).body, chain_in(*attrs<FusedAttrs>(fused).body))) {
    const Chain c = chain_in(*attrs<FusedAttrs>(fused).body);
    each_conv(fused, [&](const Node& n, size_t first) {
      Part& part = &n == c.expand ? expand_ : &n == c.depthwise ? depthwise_ : project_;
      const Epilogue& e = attrs<ConvAttrs>(n).epilogue;
      part.weight = first + 1;
      if (e.bias) part.bias = first + 2;
      if (e.residual) residual_ = first + (e.bias ? 3 : 2);
    });
    result_ = fused.inputs.size();
  }
  void run(void* const* o) override {
    const auto in = [&](size_t i) { return i == kNone ? nullptr : static_cast<const float*>(o[i]); };
    chain_.run({.x = in(0),
                .expand = in(expand_.weight),
                .expand_bias = in(expand_.bias),
                .depthwise = in(depthwise_.weight),
                .depthwise_bias = in(depthwise_.bias),
                .project = in(project_.weight),
                .project_bias = in(project_.bias),
                .residual = in(residual_),
                .y = static_cast<float*>(o[result_])},
               o[result_ + 1]);
  }
  std::string name() const override { return "chain"; }
  size_t scratch_bytes() const override { return chain_.scratch_bytes(); }

 private:
  static constexpr size_t kNone = SIZE_MAX;
  struct Part {  // numbers of operands
    size_t weight = kNone, bias = kNone;
  };
  ConvChain chain_;
  Part expand_, depthwise_, project_;
  size_t residual_ = kNone, result_ = 0;
};

}  // namespace

bool joins_conv_chains(const Graph& graph, const Node& conv) {
  return is_depthwise(graph, conv) || is_product(graph, conv);
}

bool takes_conv_chain(const Graph&, const Node& node) {
  const auto* a = std::get_if<FusedAttrs>(&node.attrs);
  return a && a->pattern == FusedKind::conv_chain && chain_in(*a->body).depthwise;
}

LayoutPlan conv_chain_layouts(const Graph& graph, const Node& node, const std::vector<Layout>&, const FrozenInputs&) {
  LayoutPlan plan;
  const Graph& body = *attrs<FusedAttrs>(node).body;
  const Node* const depthwise = chain_in(body).depthwise;
  each_conv(node, [&](const Node& n, size_t first) {
    if (first == 0) plan.in.push_back(Layout::channels_last(graph.type(node.in(0)).shape));
    const Shape& w = body.type(n.in(1)).shape;
    plan.in.push_back(&n == depthwise ? taps_first(w) : panel_layout(w, 0));
    for (size_t i = 2; i < n.inputs.size(); ++i) {
      const Shape& s = body.type(n.inputs[i]).shape;
      plan.in.push_back(s.rank() == 1 ? Layout::row_major(s) : Layout::channels_last(s));
    }
  });
  plan.out = {Layout::channels_last(graph.type(node.out()).shape)};
  return plan;
}

std::unique_ptr<Kernel> make_conv_chain(const StepSpec& spec) { return std::make_unique<ChainKernel>(*spec.node); }

Graph fuse_conv_chains(const Graph& graph) {
  const ByValue<int> uses = graph.use_counts();
  std::vector<const Node*> reader(graph.values.size());
  for (const Node& n : graph.nodes) {
    for (const Value v : n.inputs) reader[v.index()] = &n;
  }
  std::set<const Node*> taken;
  std::map<const Node*, Chain> chains;  // by the last convolution
  for (const Node& n : graph.nodes) {
    if (!is_depthwise(graph, n)) continue;
    Chain c{.depthwise = &n};
    const Node& before = graph.def(n.in(0));
    if (uses[n.in(0)] == 1 && !taken.contains(&before) && is_product(graph, before) &&
        !attrs<ConvAttrs>(before).epilogue.residual)
      c.expand = &before;
    const Node* const behind = uses[n.out()] == 1 ? reader[n.out().index()] : nullptr;
    if (behind && is_product(graph, *behind) && behind->in(0) == n.out()) c.project = behind;
    const std::vector<const Node*> nodes = c.nodes();
    if (nodes.size() < 2) continue;
    taken.insert(nodes.begin(), nodes.end());
    chains.emplace(nodes.back(), c);
  }
  if (chains.empty()) return graph;
  Rewriter r(graph);
  for (const Node& n : graph.nodes) {
    const auto it = chains.find(&n);
    if (it == chains.end()) {
      if (!taken.contains(&n)) r.copy(n);
      continue;
    }
    std::vector<Value> in;
    for (const Node* conv : it->second.nodes())
      in.insert(in.end(), conv->inputs.begin() + (in.empty() ? 0 : 1), conv->inputs.end());
    const FusedAttrs attrs{chain_body(graph, it->second.nodes()), FusedKind::conv_chain};
    r.replace(n.out(), r.dst.add(Op::fused, attrs, r(in), n)[0]);
  }
  return r.finish();
}

}  // namespace freight::cpu
