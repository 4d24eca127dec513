// Batch normalization: statistics over parts of a batch, and of a batch of any size, and batches that it cannot learn
// from, since it needs more than one value per channel. Only graphs that run are checked; plans of single samples may
// be made, printed and counted.
#pragma once
#include <utility>

#include "freight/base/error.h"
#include "freight/ir/graph.h"
#include "freight/trace/thread_context.h"

namespace freight::trace {

// BatchNorm layers, as this thread traces them until the end of the scope, take their statistics over all parts of a
// batch that are computed apart, by sums over these (all_reduce).
class SharedStatistics {
 public:
  explicit SharedStatistics(bool shared) : before_(std::exchange(thread_context().shared_statistics, shared)) {}
  ~SharedStatistics() { thread_context().shared_statistics = before_; }
  SharedStatistics(const SharedStatistics&) = delete;
  SharedStatistics& operator=(const SharedStatistics&) = delete;
  static bool asked() { return thread_context().shared_statistics; }

 private:
  bool before_;
};

// What this thread traces until the end of the scope counts samples in the graph, in place of baking their number in:
// so that the traces for two batches differ in sizes alone.
class AnyBatch {
 public:
  AnyBatch() : before_(std::exchange(thread_context().any_batch, true)) {}
  ~AnyBatch() { thread_context().any_batch = before_; }
  AnyBatch(const AnyBatch&) = delete;
  AnyBatch& operator=(const AnyBatch&) = delete;
  static bool asked() { return thread_context().any_batch; }

 private:
  bool before_;
};

// True if the node is a batch_norm with one value per channel, whose variance is 0 for every sample.
inline bool lacks_variance(const Graph& graph, const Node& n) {
  if (n.op != Op::batch_norm) return false;
  const Shape& x = graph.type(n.in(0)).shape;  // (N, C, ...)
  return x.numel() == x[1];
}

// The first such node; null if there is none.
inline const Node* norm_without_variance(const Graph& graph) {
  for (const Node& n : graph.nodes) {
    if (lacks_variance(graph, n)) return &n;
  }
  return nullptr;
}

// Throw Error(usage) if the node, or a node of the graph, is one.
inline void need_batch_statistics(const Graph& graph, const Node& n) {
  if (!lacks_variance(graph, n)) return;
  throw Error(ErrorKind::usage, "BatchNorm",
              cat("one value per channel has no variance to train with: expected more than one sample or place, got ",
                  graph.type(n.in(0)),
                  "; use larger batches, fewer micro-batches or larger images, or eval() of a layer that has running "
                  "statistics"),
              n.location());
}
inline void need_batch_statistics(const Graph& graph) {
  if (const Node* const n = norm_without_variance(graph)) need_batch_statistics(graph, *n);
}

}  // namespace freight::trace
