// dead_code and decompose, and the pipeline that runs all graph passes in order with a verifier in between.
#include <algorithm>
#include <cstdio>

#include "freight/backend/backend.h"
#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/ir/builder.h"
#include "freight/passes/passes.h"

namespace freight {

namespace passes {

std::vector<Value> memory_roots(const Graph& graph) {
  std::vector<Value> root(graph.values.size());
  for (const Node& n : graph.nodes) {
    for (Value v : n.outputs) root[v.index()] = info(n.op).kind == OpKind::view ? root[n.in(0).index()] : v;
  }
  return root;
}

Graph dead_code(const Graph& graph) {
  std::vector<bool> live(graph.values.size());
  for (Value v : graph.results()) live[v.index()] = true;
  std::vector<bool> keep(graph.nodes.size());
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& n = graph.nodes[i];
    keep[i] = n.op == Op::input || n.op == Op::state;  // the signature stays
    for (Value v : n.outputs) keep[i] = keep[i] || live[v.index()];
    if (!keep[i]) continue;
    for (Value v : n.inputs) live[v.index()] = true;
  }
  if (std::all_of(keep.begin(), keep.end(), [](bool k) { return k; })) return graph;
  Rewriter r(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (keep[i]) r.copy(graph.nodes[i]);
  }
  return r.finish();
}

Graph decompose(const Graph& graph, const Backend* backend) {
  return decompose_unless(graph, [&](const Graph& g, const Node& n) { return backend && backend->has_kernel(g, n); });
}

Graph decompose_unless(Graph graph, const std::function<bool(const Graph&, const Node&)>& keep) {
  const auto stays = [&](const Node& n) { return info(n.op).kind != OpKind::composite || keep(graph, n); };
  if (std::all_of(graph.nodes.begin(), graph.nodes.end(), stays)) return graph;
  Rewriter r(graph);
  Builder b(r.dst);
  for (const Node& n : graph.nodes) {
    if (stays(n)) {
      r.copy(n);
      continue;
    }
    b.set_location(n.scope, n.where);
    const std::vector<Value> out = info(n.op).decompose(b, n, r(n.inputs));
    for (size_t i = 0; i < out.size(); ++i) r.replace(n.outputs[i], out[i]);
  }
  return decompose_unless(r.finish(), keep);  // definitions may use composites
}

}  // namespace passes

namespace {
void dump(const Graph& graph, int number, const char* pass) {
  const std::string dir = env::get("FREIGHT_DUMP");
  const std::string path = cat(dir, "/", number < 10 ? "0" : "", number, "-", pass, ".graph");
  if (std::FILE* f = std::fopen(path.c_str(), "w")) {
    const std::string text = print(graph);
    std::fwrite(text.data(), 1, text.size(), f);
    std::fclose(f);
  }
}
}  // namespace

Graph run_pipeline(Graph graph, const Backend& backend, Recompute recompute, DType compute, States states,
                   const ArenaLimit& limit, const std::vector<int32_t>& host) {
  const bool check = env::get("FREIGHT_VERIFY") == "1", write = env::is_set("FREIGHT_DUMP");
  int number = 0;
  const auto pass = [&](const char* pass_name, auto&& f) {
    graph = f(graph);
    if (check) verify(graph, pass_name);
    if (write) dump(graph, number++, pass_name);
  };
  verify(graph);
  if (write) dump(graph, number++, "traced");
  // Mixed precision knows the parts of a layer that the backend does not take whole.
  pass("dead_code", [&](const Graph& g) {
    return passes::dead_code(passes::decompose_unless(passes::dead_code(g), [&](const Graph& all, const Node& n) {
      const bool layer = n.op == Op::recurrent_layer || n.op == Op::recurrent_layer_grad;
      return !layer || backend.has_kernel(all, n);
    }));
  });
  if (states == States::frozen) pass("fold", [](const Graph& g) { return passes::fold(g); });
  if (compute != DType::f32) pass("autocast", [&](const Graph& g) { return passes::autocast(g, compute, &backend); });
  pass("decompose", [&](const Graph& g) { return passes::decompose(g, &backend); });
  pass("simplify", [](const Graph& g) { return passes::simplify(g); });
  if (backend.fuses()) pass("fuse", [&](const Graph& g) { return passes::fuse(g, backend, states); });
  if (backend.fuses()) pass("duplicate_cheap", [](const Graph& g) { return passes::duplicate_cheap(g); });
  if (recompute != Recompute::none) pass("remat", [&](const Graph& g) { return passes::remat(g, backend, recompute); });
  const bool chooses = limit.offload == Offload::automatic || limit.offload == Offload::all;
  if (chooses) pass("remat_within", [&](const Graph& g) { return passes::remat_within(g, backend, limit); });
  if (backend.fuses()) {
    pass("fuse_patterns", [&](const Graph& g) { return passes::dead_code(backend.fuse_patterns(g)); });
  }
  pass("schedule", [](const Graph& g) { return passes::schedule(g); });
  if (!host.empty()) pass("host_states", [&](const Graph& g) { return passes::host_states(g, host); });
  if (chooses || limit.offload == Offload::activations) {
    pass("offload", [&](const Graph& g) { return passes::offload(g, backend, limit.bytes); });
  }
  return graph;
}

}  // namespace freight
