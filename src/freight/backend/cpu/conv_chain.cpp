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

// The convolutions of a chain: the depthwise one, and the others where they exist.
struct Chain {
  const Node *expand = nullptr, *depthwise = nullptr, *squeeze = nullptr, *excite = nullptr, *project = nullptr;
  double mean = 0;

  ConvChainNodes nodes() const {
    ConvChainNodes all{.convs = {}, .gated = squeeze != nullptr, .mean = mean};
    for (const Node* n : {expand, depthwise, squeeze, excite, project}) {
      if (n) all.convs.push_back(n);
    }
    return all;
  }
};

Chain chain_in(const Graph& body) {
  Chain c;
  const ConvChainNodes all = chain_of(body);
  c.mean = all.mean;
  for (const Node* n : all.convs) {
    const Node*& role = !c.depthwise              ? (is_depthwise(body, *n) ? c.depthwise : c.expand)
                        : all.gated && !c.squeeze ? c.squeeze
                        : all.gated && !c.excite  ? c.excite
                                                  : c.project;
    role = n;
  }
  return c;
}

// Each of them in the order in which the step has them, and where its operands, but for its image, lie among those of
// the step: its weight at `first` + 1.
template <class F>
void each_conv(const Node& fused, F f) {
  size_t next = 0;
  for (const Node* n : chain_of(*attrs<FusedAttrs>(fused).body).convs) {
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
          .depthwise_silu = attrs<ConvAttrs>(*c.depthwise).epilogue.silu,
          .mean = static_cast<float>(c.mean),
          .squeeze = product_of(c.squeeze, c.squeeze ? g.type(c.squeeze->out()).shape[1] : 0)};
}

class ChainKernel final : public Kernel {
 public:
  explicit ChainKernel(const Node& fused)
      : chain_(problem_of(*attrs<FusedAttrs>(fused).body, chain_in(*attrs<FusedAttrs>(fused).body))) {
    const Chain c = chain_in(*attrs<FusedAttrs>(fused).body);
    each_conv(fused, [&](const Node& n, size_t first) {
      Part& part = &n == c.expand      ? expand_
                   : &n == c.depthwise ? depthwise_
                   : &n == c.squeeze   ? squeeze_
                   : &n == c.excite    ? excite_
                                       : project_;
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
                .squeeze = in(squeeze_.weight),
                .squeeze_bias = in(squeeze_.bias),
                .excite = in(excite_.weight),
                .excite_bias = in(excite_.bias),
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
  Part expand_, depthwise_, squeeze_, excite_, project_;
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
    const Type& w = body.type(n.in(1));
    plan.in.push_back(&n == depthwise ? taps_first(w.shape) : panel_layout(w, 0));
    for (size_t i = 2; i < n.inputs.size(); ++i) {
      const Shape& s = body.type(n.inputs[i]).shape;
      plan.in.push_back(s.rank() == 1 ? Layout::row_major(s) : Layout::channels_last(s));
    }
  });
  plan.out = {Layout::channels_last(graph.type(node.out()).shape)};
  return plan;
}

std::unique_ptr<Kernel> make_conv_chain(const StepSpec& spec) { return std::make_unique<ChainKernel>(*spec.node); }

namespace {

// Finds chains in a graph whose regions fuse() has made.
class ChainFinder {
 public:
  explicit ChainFinder(const Graph& graph) : g_(graph), uses_(graph.use_counts()), readers_(graph.values.size()) {
    for (const Node& n : g_.nodes) {
      for (const Value v : n.inputs) readers_[v.index()].push_back(&n);
    }
  }

  Graph run() {
    for (const Node& n : g_.nodes) {
      if (is_depthwise(g_, n)) find(n);
    }
    if (chains_.empty()) return g_;
    Rewriter r(g_);
    for (const Node& n : g_.nodes) {
      const auto it = chains_.find(&n);
      if (it == chains_.end()) {
        if (!taken_.contains(&n)) r.copy(n);
        continue;
      }
      const ConvChainNodes nodes = it->second.nodes();
      std::vector<Value> in;
      for (const Node* conv : nodes.convs)
        in.insert(in.end(), conv->inputs.begin() + (in.empty() ? 0 : 1), conv->inputs.end());
      const FusedAttrs attrs{chain_body(g_, nodes), FusedKind::conv_chain};
      r.replace(n.out(), r.dst.add(Op::fused, attrs, r(in), n)[0]);
    }
    return r.finish();
  }

 private:
  // The only node that reads v; null where there are others, or none.
  const Node* only_reader(Value v) const {
    return uses_[v] == 1 && !readers_[v.index()].empty() ? readers_[v.index()][0] : nullptr;
  }
  const Node* product_behind(Value v) const {
    const Node* const n = only_reader(v);
    return n && is_product(g_, *n) && n->in(0) == v ? n : nullptr;
  }

  void find(const Node& depthwise) {
    Chain c{.depthwise = &depthwise};
    const Node& before = g_.def(depthwise.in(0));
    if (uses_[depthwise.in(0)] == 1 && !taken_.contains(&before) && is_product(g_, before) &&
        !attrs<ConvAttrs>(before).epilogue.residual)
      c.expand = &before;
    std::vector<const Node*> between;
    c.project = product_behind(depthwise.out());
    if (!c.project) between = find_gate(c);
    const ConvChainNodes nodes = c.nodes();
    if (nodes.convs.size() < 2) return;
    taken_.insert(nodes.convs.begin(), nodes.convs.end());
    taken_.insert(between.begin(), between.end());
    chains_.emplace(nodes.convs.back(), c);
  }

  // The body of a region that does nothing but `op` with `operands` inputs, and perhaps constants and broadcasts; null
  // where n is none.
  static const Graph* region_of(const Node* n, Op op, size_t operands) {
    if (!n || n->op != Op::fused || n->inputs.size() != operands) return nullptr;
    const Graph& body = *attrs<FusedAttrs>(*n).body;
    int found = 0;
    for (const Node& inner : body.nodes) {
      if (inner.op == op) {
        ++found;
      } else if (inner.op != Op::input && inner.op != Op::constant && inner.op != Op::broadcast) {
        return nullptr;
      }
    }
    return found == 1 && body.outputs.size() == 1 && body.def(body.outputs[0]).op == op ? &body : nullptr;
  }

  // Squeeze-excitation of the depthwise result: x sigmoid(conv(conv(mean(x)))) that a 1x1 convolution reads. Notes its
  // convolutions in the chain; returns the regions between them, none where there is none.
  std::vector<const Node*> find_gate(Chain& c) const {
    const Value x = c.depthwise->out();
    const Shape& shape = g_.type(x).shape;
    if (uses_[x] != 2 || readers_[x.index()].size() != 2) return {};
    const Node *sum = readers_[x.index()][0], *scaled = readers_[x.index()][1];
    if (!region_of(sum, Op::sum, 1)) std::swap(sum, scaled);
    const Graph* const sums = region_of(sum, Op::sum, 1);
    const Graph* const products = region_of(scaled, Op::mul, 2);
    if (!sums || !products || attrs<AxesAttrs>(sums->def(sums->outputs[0])).axes != Shape{2, 3}) return {};
    const Node* const mean = only_reader(sum->out());
    const Graph* const mean_body = region_of(mean, Op::mul, 1);
    if (!mean_body) return {};
    const Node& by_number = mean_body->def(mean_body->outputs[0]);
    if (!splat_value(*mean_body, by_number.in(0), c.mean) && !splat_value(*mean_body, by_number.in(1), c.mean))
      return {};
    const Node* const squeeze = product_behind(mean->out());
    const Node* const excite = squeeze ? product_behind(squeeze->out()) : nullptr;
    const Node* const gate = excite ? only_reader(excite->out()) : nullptr;
    if (!region_of(gate, Op::sigmoid, 1) || only_reader(gate->out()) != scaled) return {};
    for (const Node* n : {squeeze, excite}) {
      if (attrs<ConvAttrs>(*n).epilogue.residual || taken_.contains(n)) return {};
    }
    if (attrs<ConvAttrs>(*excite).epilogue.activates()) return {};
    // x times the gate, one number of which holds for a channel of a sample.
    const Node& product = products->def(products->outputs[0]);
    for (const Value v : product.inputs) {
      const Node& d = products->def(v);
      const Value leaf = d.op == Op::broadcast ? d.in(0) : v;
      if (products->type(leaf).shape != (d.op == Op::broadcast ? Shape{shape[0], shape[1], 1, 1} : shape)) return {};
    }
    if (product.in(0) == product.in(1)) return {};
    const Node* const project = product_behind(scaled->out());
    if (!project || shape[2] * shape[3] == 1) return {};
    c.squeeze = squeeze;
    c.excite = excite;
    c.project = project;
    return {sum, mean, gate, scaled};
  }

  const Graph& g_;
  ByValue<int> uses_;
  std::vector<std::vector<const Node*>> readers_;  // of values
  std::set<const Node*> taken_;
  std::map<const Node*, Chain> chains_;  // by the last convolution
};

}  // namespace

Graph fuse_conv_chains(const Graph& graph) { return ChainFinder(graph).run(); }

}  // namespace freight::cpu
