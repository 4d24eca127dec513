// Sums over ranks travel in pieces, beside the steps. A piece costs start + per_byte * bytes: many small ones pay the
// start often, one large one waits for the last gradient of the step. The plan knows when each gradient is ready.
#include <algorithm>
#include <limits>

#include "freight/passes/passes.h"
#include "freight/passes/pieces.h"

namespace freight {

Pieces cut_pieces(const std::vector<Summand>& summands, const SumCost& cost) {
  const size_t n = summands.size();
  std::vector<double> done(n + 1, 0);
  std::vector<size_t> begins(n + 1, 0);  // of the last piece of the best cut that ends here
  for (size_t j = 1; j <= n; ++j) {
    done[j] = std::numeric_limits<double>::infinity();
    double bytes = 0;
    for (size_t i = j; i-- > 0;) {
      bytes += summands[i].bytes;
      const double d = std::max(done[i], summands[j - 1].ready) + cost.of(bytes);
      if (d >= done[j]) continue;
      done[j] = d;
      begins[j] = i;
    }
  }
  Pieces p{{}, done[n]};
  for (size_t j = n; j > 0; j = begins[j]) p.ends.push_back(j);
  std::reverse(p.ends.begin(), p.ends.end());
  return p;
}

bool pays_beside(double beside, double behind) {
  constexpr double kLeastGain = 0.1;
  return behind - beside > kLeastGain * behind;
}

namespace passes {

ByNode<bool> sums_read_within(const Graph& graph) {
  const ByValue<int> uses = graph.use_counts();
  ByValue<bool> updates(graph);
  for (const Update& u : graph.updates) updates[u.next] = true;
  ByNode<bool> within(graph);
  for (const NodeId i : graph.node_ids()) {
    const Node& n = graph.node(i);
    within[i] = n.op == Op::all_reduce && uses[n.out()] > (updates[n.out()] ? 1 : 0);
  }
  return within;
}

Graph distribute(const Graph& graph, const DeviceSpeed& speed, const SumCost& cost) {
  const ByNode<bool> within = sums_read_within(graph);  // these are made where they stand
  std::vector<Summand> summands;
  double time = 0;
  for (const NodeId i : graph.node_ids()) {
    const Node& n = graph.node(i);
    time += step_seconds(graph, n, speed);
    if (n.op == Op::all_reduce && !within[i])
      summands.push_back({time, static_cast<double>(graph.type(n.out()).bytes())});
  }
  const Pieces pieces = cut_pieces(summands, cost);
  Rewriter r(graph);
  size_t number = 0, piece = 0;
  for (const NodeId i : graph.node_ids()) {
    const Node& n = graph.node(i);
    if (n.op != Op::all_reduce || within[i]) {
      r.copy(n);
      continue;
    }
    if (number++ == pieces.ends[piece]) ++piece;
    const PieceAttrs of{static_cast<int64_t>(piece)};
    r.replace(n.out(), r.dst.add(n.op, of, r(n.inputs), n)[0]);
  }
  return r.finish();
}

}  // namespace passes

}  // namespace freight
