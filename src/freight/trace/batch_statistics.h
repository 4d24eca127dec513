// What batch normalisation cannot learn from. Graphs that run are looked through; plans of single samples may be made,
// printed and counted.
#pragma once
#include "freight/base/error.h"
#include "freight/ir/graph.h"

namespace freight::trace {

// Throws Error(usage) where a batch_norm has one value per channel: whose variance is 0 whatever the sample is.
inline void need_batch_statistics(const Graph& graph) {
  for (const Node& n : graph.nodes) {
    if (n.op != Op::batch_norm) continue;
    const Type& x = graph.type(n.in(0));  // (N, C, ...)
    if (x.shape.numel() != x.shape[1]) continue;
    throw Error(ErrorKind::usage, "BatchNorm",
                cat("one value per channel has no variance to train with: got ", x,
                    ", need more than one sample or place; take larger batches, fewer parts of a batch or larger "
                    "images, or eval(), which uses the running statistics"),
                cat(n.scope, n.scope.empty() || n.where.empty() ? "" : ", ", n.where));
  }
}

}  // namespace freight::trace
