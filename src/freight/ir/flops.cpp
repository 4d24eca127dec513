// FLOP counts of the op table; a multiply-add counts two. Composites and fused nodes count what their definition does.
#include "freight/ir/builder.h"

#include <algorithm>
#include <optional>

#include "freight/ir/infer.h"

namespace freight {

namespace flops {

double zero(const Node&, const Types&, const Types&) { return 0; }
double heavy(const Node&, const Types&, const Types& out) { return kHeavy * static_cast<double>(out[0].numel()); }
double per_input(const Node&, const Types& in, const Types&) { return static_cast<double>(in[0].numel()); }

namespace {
double epilogue(const Epilogue& e, const Type& out) {
  const int one_each = int(e.bias) + int(e.residual) + int(e.relu) + int(e.bounded()) + int(e.silu);
  return static_cast<double>(out.numel()) * (one_each + (e.silu ? kHeavy : 0));
}
// Multiply-adds of a convolution with result y (N, O, ...) and weight w (O, C/groups, ...).
double conv_flops(const Shape& y, const Shape& w) {
  double per_result = 2.0;
  for (int i = 1; i < w.rank(); ++i) per_result *= static_cast<double>(w[i]);
  return per_result * static_cast<double>(y.numel());
}
}  // namespace

double matmul(const Node& node, const Types& in, const Types& out) {
  const auto& a = attrs<MatmulAttrs>(node);
  const int rank = in[0].shape.rank();
  const int64_t k = in[0].shape[a.trans_a ? rank - 2 : rank - 1];
  return 2.0 * static_cast<double>(k) * static_cast<double>(out[0].numel()) + epilogue(a.epilogue, out[0]);
}
double conv(const Node& node, const Types& in, const Types& out) {
  return conv_flops(out[0].shape, in[1].shape) + epilogue(attrs<ConvAttrs>(node).epilogue, out[0]);
}
double conv_grad_input(const Node&, const Types& in, const Types&) { return conv_flops(in[0].shape, in[1].shape); }
double conv_grad_weight(const Node&, const Types& in, const Types& out) {
  return conv_flops(in[1].shape, out[0].shape);
}

double pool(const Node& node, const Types& in, const Types& out) {
  return static_cast<double>(std::min(in[0].numel(), out[0].numel())) *
         static_cast<double>(attrs<PoolAttrs>(node).kernel.numel());
}

namespace {
// The rows and columns of the operand's matrices, and how many matrices there are.
struct Matrices {
  double rows, columns, count, least;
  explicit Matrices(const Type& t) {
    const int rank = t.shape.rank();
    rows = static_cast<double>(t.shape[rank - 2]);
    columns = static_cast<double>(t.shape[rank - 1]);
    least = std::min(rows, columns);
    count = 1;
    for (int i = 0; i < rank - 2; ++i) count *= static_cast<double>(t.shape[i]);
  }
};
// Sum over k steps of what is left of m rows times what is left of n columns.
double shrinking(double m, double n, double k) { return m * n * k - (m + n) * k * k / 2 + k * k * k / 3; }
double cubes(const Type& t, double factor) {
  const Matrices a(t);
  return factor * a.count * a.rows * a.rows * a.rows;
}
}  // namespace

double lu_factor(const Node&, const Types& in, const Types&) {
  const Matrices a(in[0]);
  return 2 * a.count * shrinking(a.rows, a.columns, a.least);
}
double cholesky(const Node&, const Types& in, const Types&) { return cubes(in[0], 1.0 / 3); }
// The reflections, and q made of them.
double qr(const Node&, const Types& in, const Types& out) {
  const Matrices a(in[0]), q(out[0]);
  return 4 * a.count * (shrinking(a.rows, a.columns, a.least) + shrinking(a.rows, q.columns, a.least));
}
double solve_triangular(const Node&, const Types& in, const Types&) {
  return static_cast<double>(in[1].numel()) * Matrices(in[0]).rows;
}
// Golub and Van Loan, Matrix Computations, 4th edition, 8.3, 8.6.4 and 7.5.6: with vectors.
double eigh(const Node&, const Types& in, const Types&) { return cubes(in[0], 9); }
double eig(const Node&, const Types& in, const Types&) { return cubes(in[0], 25); }
// The lesser count of two algorithms: bidiagonalization, and a QR factorization before it, which tall matrices go by.
double svd(const Node& node, const Types& in, const Types&) {
  const Matrices a(in[0]);
  const double m = std::max(a.rows, a.columns), n = a.least;
  if (attrs<SvdAttrs>(node).full) return a.count * (4 * m * m * n + std::min(8 * m + 9 * n, 22 * n) * n * n);
  return a.count * std::min(14 * m + 8 * n, 6 * m + 20 * n) * n * n;
}

namespace {
// The FLOPs of eigenvalues or singular values where nothing reads their vectors, as the same pages say; else none.
std::optional<double> values_alone(const Graph& graph, const Node& node, const Types& in) {
  if (node.op != Op::eigh && node.op != Op::svd && node.op != Op::eig) return {};
  const ByValue<int> uses = graph.use_counts();
  const size_t values = node.op == Op::svd ? 1 : 0, more = node.op == Op::eig ? 1 : 0;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if ((i < values || i > values + more) && uses[node.outputs[i]] > 0) return {};
  }
  if (node.op == Op::eigh) return cubes(in[0], 4.0 / 3);
  if (node.op == Op::eig) return cubes(in[0], 10);
  const Matrices a(in[0]);
  const double m = std::max(a.rows, a.columns), n = a.least;
  return a.count * std::min(4 * m - 4 * n / 3, 2 * m + 2 * n) * n * n;
}

double graph_flops(const Graph& graph) {
  double total = 0;
  for (const Node& n : graph.nodes) total += cost(graph, n).flops;
  return total;
}
}  // namespace

double decomposed(const Node& node, const Types& in, const Types&) { return graph_flops(definition(node, in)); }

// The weights again, and two products for each of the op's two.
double attention_grad(const Node& node, const Types& in, const Types&) {
  Node forward = node;
  forward.op = Op::attention;
  return 2.5 * decomposed(forward, {in.begin(), in.begin() + attrs<AttentionAttrs>(node).inputs()}, {});
}

// Products by the weights, in the gradient two, and a function per gate.
double recurrent(const Node& node, const Types& in, const Types&) {
  const bool gradient = node.op == Op::recurrent_grad;
  const auto width = static_cast<double>(in[gradient ? 0 : 1].shape[1]);
  return static_cast<double>(in[gradient ? 3 : 0].numel()) * ((gradient ? 4 : 2) * width + kHeavy);
}

double recurrent_layer(const Node& node, const Types& in, const Types&) {
  const bool gradient = node.op == Op::recurrent_layer_grad;
  const Shape &x = in[0].shape, &weight = in[3].shape;  // (N, T, D), (G H, H)
  const auto gates = static_cast<double>(x[0] * x[1] * weight[0]), reads = static_cast<double>(x[2] + weight[1]);
  return gates * ((gradient ? 4 : 2) * reads + kHeavy);
}

double fused(const Node& node, const Types&, const Types&) { return graph_flops(*attrs<FusedAttrs>(node).body); }

}  // namespace flops

Cost cost(const Graph& graph, const Node& node) {
  const std::vector<Type> in = input_types(graph, node), out = output_types(graph, node);
  Cost c;
  const std::optional<double> alone = flops::values_alone(graph, node, in);
  c.flops = alone ? *alone : info(node.op).flops(node, in, out);
  const OpKind kind = info(node.op).kind;
  // A sum over ranks is made in place, beside the steps.
  if (kind == OpKind::leaf || kind == OpKind::view || kind == OpKind::collective) return c;
  for (const Type& t : in) c.bytes += static_cast<double>(t.bytes());
  for (const Type& t : out) c.bytes += static_cast<double>(t.bytes());
  // A gather reads only the rows it takes.
  if (node.op == Op::gather || node.op == Op::gather_elements) {
    c.bytes -= static_cast<double>(in[0].bytes()) - static_cast<double>(out[0].bytes());
  }
  return c;
}

}  // namespace freight
