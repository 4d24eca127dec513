// See reads_whole.h.
#include "freight/ir/reads_whole.h"

#include <algorithm>

namespace freight {

bool reads_whole(const Node& node, int input) {
  if (node.op != Op::fused) return info(node.op).kind == OpKind::generator;
  const Graph& body = *attrs<FusedAttrs>(node).body;
  const Value leaf = body.leaves(Op::input)[static_cast<size_t>(input)];
  return std::any_of(body.nodes.begin(), body.nodes.end(), [&](const Node& n) {
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (n.inputs[i] == leaf && reads_whole(n, static_cast<int>(i))) return true;
    }
    return false;
  });
}

}  // namespace freight
