// See batch_parts.h.
#include "freight/passes/batch_parts.h"

#include <algorithm>

#include "freight/base/error.h"
#include "freight/ir/sample_rows.h"
#include "freight/passes/passes.h"

namespace freight::passes {

namespace {

using enum Dependence;

// A step may read and write one part in kCacheParts of the cache: the steps around it and the weights need their share.
constexpr size_t kCacheParts = 2;
// Each part reads the weights again, so it must make so many times their bytes. Two cores of a Zen 4 with a third cache
// of 32 MiB, ms of a batch of 16 as a whole and in parts of 2: mobilenet_v2 (14 MiB of weights) 75 : 66,
// efficientnet_b0 (21) 103 : 99, but 113 : 132 in processes where the cache seems to be shared with other guests of the
// host. Per image, by 16 and by 1 or 2: googlenet (26) 9.4 : 10, resnet18 (45) 8.7 : 11.9, resnet50 (98) 31.3 : 32.8.
constexpr size_t kWeightReads = 3;

// The samples of a batch, and which values have them along axis 0.
struct Samples {
  int64_t n = 1;
  ByValue<Dependence> of;

  bool in(Value v) const { return of[v] == rows || of[v] == uniform; }
  // Returns the shape with `count` of the samples along axis 0.
  Shape part_of(Shape shape, int64_t count) const {
    if (shape.rank() > 0) shape[0] = shape[0] / n * count;
    return shape;
  }
};

bool has_samples(const Graph& graph, Value leaf, int64_t n) {
  const Shape& shape = graph.type(leaf).shape;
  return graph.def(leaf).op == Op::input && shape.rank() > 0 && shape[0] == n;
}

// The result has one sample where the results depend on several, or where a node may refuse an element, which it names
// by its place in the batch.
Samples samples_of(const Graph& graph) {
  const std::vector<Value> inputs = graph.leaves(Op::input);
  if (!graph.updates.empty() || inputs.empty() || graph.type(inputs[0]).shape.rank() == 0) return {};
  const int64_t n = graph.type(inputs[0]).shape[0];
  if (n < 2) return {};
  if (std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return may_refuse(graph, node); }))
    return {};
  Samples s{n, dependences_of(graph, n, [&](Value leaf) { return has_samples(graph, leaf, n) ? rows : constant; })};
  const bool apart = std::all_of(graph.outputs.begin(), graph.outputs.end(), [&](Value v) { return s.of[v] == rows; });
  return apart ? s : Samples{};
}

// Bytes of what products, convolutions and pooling read and make of one sample. Other results are made on the way or
// where they are read.
struct Traffic {
  size_t most = 0;  // of one step
  size_t all = 0;   // of all results
};

Traffic traffic_of(const Graph& graph, const Samples& samples) {
  Traffic t;
  const auto bytes = [&](Value v) {
    return samples.of[v] == rows ? graph.type(v).bytes() / static_cast<size_t>(samples.n) : 0;
  };
  for (const Node& node : graph.nodes) {
    const OpKind kind = info(node.op).kind;
    if (kind != OpKind::contract && kind != OpKind::convolve && kind != OpKind::pool) continue;
    size_t read = 0;
    for (const Value v : node.inputs) read += bytes(v);
    t.most = std::max(t.most, read + bytes(node.out()));
    t.all += bytes(node.out());
  }
  return t;
}

// How many samples a part has.
int64_t samples_per_part(const Graph& graph, const Samples& samples, size_t cache_bytes) {
  const Traffic t = traffic_of(graph, samples);
  size_t weights = 0;
  for (const Value v : graph.leaves(Op::state)) weights += graph.type(v).bytes();
  for (int64_t count = samples.n; count > 0; --count) {
    if (samples.n % count != 0 || static_cast<size_t>(count) * t.most > cache_bytes / kCacheParts) continue;
    return static_cast<size_t>(count) * t.all < kWeightReads * weights ? samples.n : count;
  }
  return samples.n;
}

// The attributes of a node whose result has the samples, for as many of them.
Attrs attributes_of(const Node& node, const Samples& samples, int64_t count) {
  Attrs attributes = node.attrs;
  const auto cut = [&](Shape& shape) { shape = samples.part_of(shape, count); };
  if (auto* a = std::get_if<LeafAttrs>(&attributes)) cut(a->type.shape);
  if (auto* a = std::get_if<ConstantAttrs>(&attributes)) cut(a->type.shape);
  if (auto* a = std::get_if<ShapeAttrs>(&attributes)) cut(a->shape);
  if (auto* a = std::get_if<IotaAttrs>(&attributes)) cut(a->shape);
  if (auto* a = std::get_if<SliceAttrs>(&attributes)) cut(a->limit);
  if (auto* a = std::get_if<ConvAttrs>(&attributes)) cut(a->shape);
  return attributes;
}

// The graph of so many of the samples; false where its types do not fit, because what is the same for all samples is an
// operand that has another meaning than theirs.
bool cut(const Graph& graph, const Samples& samples, int64_t count, Graph& part) {
  Rewriter to(graph);
  try {
    for (const Node& node : graph.nodes) {
      const bool cuts = samples.in(node.out());
      const std::vector<Value> made =
          to.dst.add(node.op, cuts ? attributes_of(node, samples, count) : node.attrs, to(node.inputs), node);
      for (size_t i = 0; i < made.size(); ++i) {
        Type expected = graph.type(node.outputs[i]);
        if (samples.in(node.outputs[i])) expected.shape = samples.part_of(expected.shape, count);
        if (!(to.dst.type(made[i]) == expected)) return false;
        to.replace(node.outputs[i], made[i]);
      }
    }
  } catch (const Error&) {
    return false;
  }
  part = to.finish();
  return true;
}

}  // namespace

BatchParts batch_parts(const Graph& traced, size_t cache_bytes) {
  BatchParts parts;
  const Graph graph = dead_code(traced);
  const Samples samples = cache_bytes > 0 ? samples_of(graph) : Samples{};
  if (samples.n == 1) return parts;
  const int64_t count = samples_per_part(graph, samples, cache_bytes);
  if (count == samples.n || !cut(graph, samples, count, parts.graph)) return parts;
  parts.count = samples.n / count;
  for (const Value v : graph.leaves(Op::input)) parts.inputs.push_back(has_samples(graph, v, samples.n));
  return parts;
}

}  // namespace freight::passes
