// What batch normalisation cannot learn from. Graphs that run are looked through; plans of single samples may be made,
// printed and counted.
#pragma once
#include "freight/base/error.h"
#include "freight/ir/graph.h"

namespace freight::trace {

// The first batch_norm with one value per channel, whose variance is 0 whatever the sample is; null where there is
// none.
inline const Node* norm_without_variance(const Graph& graph) {
  for (const Node& n : graph.nodes) {
    if (n.op != Op::batch_norm) continue;
    const Shape& x = graph.type(n.in(0)).shape;  // (N, C, ...)
    if (x.numel() == x[1]) return &n;
  }
  return nullptr;
}

// Throws Error(usage) where there is one.
inline void need_batch_statistics(const Graph& graph) {
  const Node* const n = norm_without_variance(graph);
  if (!n) return;
  throw Error(ErrorKind::usage, "BatchNorm",
              cat("one value per channel has no variance to train with: got ", graph.type(n->in(0)),
                  ", need more than one sample or place; take larger batches, fewer parts of a batch or larger images, "
                  "or eval(), which uses the running statistics"),
              cat(n->scope, n->scope.empty() || n->where.empty() ? "" : ", ", n->where));
}

}  // namespace freight::trace
