// See work.h.
#include "freight/plan/work.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "freight/base/strings.h"
#include "freight/ir/fused_pattern.h"
#include "freight/ir/signature.h"
#include "freight/run/plan.h"

namespace freight::plan {

namespace {

// The number of channels in a block, for kernels that work on blocks of channels.
constexpr int64_t kBlock = 16;

// Fills in the product that a convolution, or one of its gradients, amounts to.
void fill_conv(Work& w, const Graph& g, const Node& n) {
  const auto& a = attrs<ConvAttrs>(n);
  const bool dx = n.op == Op::conv_grad_input, dw = n.op == Op::conv_grad_weight;
  const Shape &weight = g.type(dw ? n.out() : n.in(1)).shape, &y = g.type(dx ? n.in(0) : dw ? n.in(1) : n.out()).shape;
  int64_t taps = 1, strides = 1;
  for (int i = 2; i < weight.rank(); ++i) taps *= weight[i];
  for (const int64_t s : a.stride) strides *= s;
  w.m = static_cast<double>(y.numel()) / static_cast<double>(y[1]);
  w.n = static_cast<double>(weight[0]);
  w.k = static_cast<double>(weight[1] * taps);
  w.whole = weight[0] % kBlock == 0 && weight[1] % kBlock == 0;
  const char* shape = a.groups > 1                ? "grouped"
                      : taps == 1 && strides == 1 ? "1x1"
                      : taps == 9 && strides == 1 ? "3x3"
                                                  : "";
  w.kind = cat("conv", shape, dx ? ".dx" : dw ? ".dw" : "");
}

void fill_matmul(Work& w, const Graph& g, const Node& n) {
  const auto& a = attrs<MatmulAttrs>(n);
  const Shape &lhs = g.type(n.in(0)).shape, &out = g.type(n.out()).shape;
  const int r = out.rank();
  w.kind = "matmul";
  w.n = static_cast<double>(out[r - 1]);
  w.m = w.n > 0 ? static_cast<double>(out.numel()) / w.n : 0;
  w.k = static_cast<double>(lhs[a.trans_a ? r - 2 : r - 1]);
}

// Large factorizations reach a share of the product's rate, by the FLOPs of the op table. Elimination is mostly
// products. Those of vectors are the books' counts, of which divide and conquer leaves some out; half of the reduction
// before it is products of a matrix and a vector, which memory bounds. Measured on one core, n = 200 to 1000: ours in
// LU, Cholesky and QR, OpenBLAS's LAPACK in the others (docs/tour/time.md).
void fill_linalg(Work& w, const Graph& g, const Node& n) {
  const Shape& matrix = g.type(n.in(0)).shape;
  // A triangular solve has its work in the right sides; others that take some factorize the matrix first.
  const bool solves_alone = info(n.op).kind == OpKind::linalg && n.inputs.size() > 1;
  const Shape& of = solves_alone ? g.type(n.in(1)).shape : matrix;
  const int r = matrix.rank();
  w.kind = name(n.op);
  w.n = static_cast<double>(of[r - 1]);
  w.m = w.n > 0 ? static_cast<double>(of.numel()) / w.n : 0;
  w.k = static_cast<double>(std::min(matrix[r - 2], matrix[r - 1]));
  w.share = info(n.op).product_share;
}

// Fills in the products of the hidden states and the weights, one per time step.
void fill_recurrent(Work& w, const Graph& g, const Node& n) {
  const int at = operand_of(n.op, "x");  // -1 of a gradient, whose result is that of x
  const Shape &weight = g.type(n.in(operand_of(n.op, "w"))).shape, &x = g.type(at < 0 ? n.out() : n.in(at)).shape;
  w.kind = name(n.op);
  w.m = static_cast<double>(x[0]);
  w.n = static_cast<double>(weight[0]);
  w.k = static_cast<double>(weight[1]);
  w.launches = static_cast<double>(x[1]);
}

bool reduces(const Node& n) {
  if (is_reduce(n.op)) return true;
  if (n.op != Op::fused) return false;
  for (const Node& inner : attrs<FusedAttrs>(n).body->nodes) {
    if (is_reduce(inner.op)) return true;
  }
  return false;
}

const char* kind_of(const Node& n) {
  switch (info(n.op).kind) {
    case OpKind::pool: return "pool";
    case OpKind::index: return "index";
    case OpKind::movement: return n.op == Op::offload || n.op == Op::fetch ? kTransfer : name(n.op);
    case OpKind::view: return name(Op::copy);
    case OpKind::composite: return name(n.op);
    default: return reduces(n) ? "reduce" : "map";
  }
}

// Pools work along the channels of a pixel, copies along the axes after the channels.
double run_of(const Graph& g, const Node& n) {
  const OpKind kind = info(n.op).kind;
  if (kind != OpKind::pool && kind != OpKind::movement) return 0;
  const Shape& shape = g.type(n.in(0)).shape;
  if (kind == OpKind::pool) return static_cast<double>(shape[1]);
  double run = 1;
  for (int i = 2; i < shape.rank(); ++i) run *= static_cast<double>(shape[i]);
  return run;
}

// When each part of a plan's memory was last used, on a clock that counts moved bytes.
class Recency {
 public:
  explicit Recency(const Plan& plan)
      : plan_(plan),
        cell_(std::max<size_t>(64, plan.arena_bytes() / 4096)),
        arena_(plan.arena_bytes() / cell_ + 1),
        others_(plan.graph()) {}

  // Moves the clock past the step. Returns Work::distance.
  double use(const PlanStep& step) {
    const Node& n = plan_.graph().node(step.node);
    double sum = 0, bytes = 0;
    const auto each = [&](auto f) {
      for (Value v : n.inputs) f(v);
      for (Value v : n.outputs) f(v);
    };
    each([&](Value v) {
      const auto size = static_cast<double>(plan_.graph().type(v).bytes());
      double logs = 0;
      const std::span<double> cells = cells_of(v);
      // Large values leave the cache while they are being used.
      for (const double last : cells) logs += std::log2(now_ - last + size + 1);
      sum += size * logs / static_cast<double>(cells.size());
      bytes += size;
    });
    now_ += step.cost.bytes;
    each([&](Value v) {
      const std::span<double> cells = cells_of(v);
      std::fill(cells.begin(), cells.end(), now_);
    });
    return bytes > 0 ? std::exp2(sum / bytes) : 0;
  }

 private:
  std::span<double> cells_of(Value v) {
    const Place& place = plan_.placed().place(v);
    const Buffer& buffer = plan_.memory().buffers[place.root];
    if (buffer.kind != MemoryKind::arena) return {&others_[place.root], 1};
    const Type& type = plan_.graph().type(v);
    const size_t from = buffer.offset + static_cast<size_t>(place.offset) * size_of(type.dtype);
    const size_t first = std::min(from / cell_, arena_.size() - 1);
    const size_t last = std::min((from + std::max<size_t>(type.bytes(), 1) - 1) / cell_, arena_.size() - 1);
    return {&arena_[first], last - first + 1};
  }

  const Plan& plan_;
  size_t cell_;                // bytes of a cell
  std::vector<double> arena_;  // the last use, by cell
  ByValue<double> others_;     // the last use of values outside the arena
  double now_ = 0;
};

}  // namespace

ByNode<bool> forward_nodes(const Graph& g) {
  ByNode<bool> forward(g);
  ByValue<bool> live(g);
  if (!g.outputs.empty()) live[g.outputs[0]] = true;
  for (const NodeId i : g.node_ids().reversed()) {
    const Node& n = g.node(i);
    for (Value v : n.outputs) forward[i] = forward[i] || live[v];
    if (!forward[i]) continue;
    for (Value v : n.inputs) live[v] = true;
  }
  return forward;
}

ByValue<bool> weight_gradients(const Plan& plan) {
  const Graph& g = plan.graph();
  ByValue<bool> is(g);
  for (const Update& u : g.updates) {
    for (Value v : g.def(u.next).inputs) {
      const Value root = plan.placed().place(v).root;
      if (g.type(v).numel() == g.type(u.state).numel() && g.type(v).numel() > 1) is[root] = true;
    }
  }
  // A value that becomes a state may also be an operand of another state: the average of a weight reads its new value.
  for (const Update& u : g.updates) is[plan.placed().place(u.next).root] = false;
  return is;
}

std::vector<Work> work_of(const Plan& plan) {
  const Graph& g = plan.graph();
  const ByNode<bool> forward = forward_nodes(g);
  const ByValue<bool> gradient = weight_gradients(plan);
  ByValue<bool> writes_state(g);
  for (const Update& u : g.updates) writes_state[u.next] = true;
  std::vector<Work> all;
  all.reserve(plan.steps().size());
  for (const PlanStep& step : plan.steps()) {
    const Node& n = g.node(step.node);
    Work w{.kind = {},
           .path = n.scope,
           .dtype = g.type(n.out()).dtype,
           .flops = step.cost.flops,
           .bytes = step.cost.bytes,
           .backward = !forward[step.node],
           .queue = step.queue,
           .after = step.after};
    for (Value v : n.outputs) {
      if (w.backward && gradient[v]) w.gradients += 4 * static_cast<double>(g.type(v).numel());
    }
    const Node* inner = product_in(n);
    const Graph& around = inner ? *attrs<FusedAttrs>(n).body : g;
    const Node& product = inner ? *inner : n;
    if (product.op == Op::matmul) {
      fill_matmul(w, around, product);
    } else if (info(product.op).kind == OpKind::convolve) {
      fill_conv(w, around, product);
    } else if (info(n.op).product_share > 0) {
      fill_linalg(w, g, n);
    } else if (std::holds_alternative<RecurrentAttrs>(n.attrs) ||
               std::holds_alternative<RecurrentLayerAttrs>(n.attrs)) {
      fill_recurrent(w, g, n);
    } else {
      w.kind = kind_of(n);
      w.n = run_of(g, n);
      // Flat arrays are read side by side; other maps involve padding, broadcasts and permuted channels.
      if (w.kind == "map" && writes_state[n.out()]) w.kind = "update";
    }
    all.push_back(std::move(w));
  }
  Recency recency(plan);
  for (const PlanStep& step : plan.steps()) recency.use(step);
  for (size_t i = 0; i < all.size(); ++i) all[i].distance = recency.use(plan.steps()[i]);
  return all;
}

}  // namespace freight::plan
