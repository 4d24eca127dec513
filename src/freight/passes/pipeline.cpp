// The graph passes in order; see passes.h. FREIGHT_VERIFY=1 verifies the graph behind each, FREIGHT_DUMP=DIR writes it.
#include <cstdio>

#include "freight/backend/backend.h"
#include "freight/base/env.h"
#include "freight/base/strings.h"
#include "freight/passes/passes.h"

namespace freight {

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

Graph run_pipeline(Graph graph, const Backend& backend, const PipelineOptions& options) {
  const bool check = env::get("FREIGHT_VERIFY") == "1", write = env::is_set("FREIGHT_DUMP");
  int number = 0;
  const auto pass = [&](const char* pass_name, auto&& f) {
    graph = f(graph);
    if (check) verify(graph, pass_name);
    if (write) dump(graph, number++, pass_name);
  };
  verify(graph);
  if (write) dump(graph, number++, "traced");
  pass("dead_code", [](const Graph& g) { return passes::dead_code(g); });
  // Before mixed precision, which knows the parts of a layer that the backend does not take whole.
  pass("decompose_layers", [&](const Graph& g) {
    return passes::dead_code(passes::decompose_unless(g, [&](const Graph& all, const Node& n) {
      const bool layer = n.op == Op::recurrent_layer || n.op == Op::recurrent_layer_grad;
      return !layer || backend.has_kernel(all, n);
    }));
  });
  if (options.states == States::frozen) pass("fold", [](const Graph& g) { return passes::fold(g); });
  if (options.compute != DType::f32) {
    pass("autocast", [&](const Graph& g) { return passes::autocast(g, options.compute, &backend); });
  }
  pass("decompose", [&](const Graph& g) { return passes::decompose(g, &backend); });
  pass("simplify", [](const Graph& g) { return passes::simplify(g); });
  if (backend.fuses()) {
    pass("fuse", [&](const Graph& g) { return passes::fuse(g, backend, options.states); });
    pass("duplicate_cheap", [](const Graph& g) { return passes::duplicate_cheap(g); });
  }
  if (options.recompute != Recompute::none) {
    pass("remat", [&](const Graph& g) { return passes::remat(g, backend, options.recompute); });
  }
  const Offload offload = options.limit.offload;
  const bool chooses = offload == Offload::automatic || offload == Offload::all;
  if (chooses) pass("remat_within", [&](const Graph& g) { return passes::remat_within(g, backend, options.limit); });
  if (backend.fuses()) {
    pass("fuse_patterns", [&](const Graph& g) { return passes::dead_code(backend.fuse_patterns(g)); });
  }
  pass("schedule", [](const Graph& g) { return passes::schedule(g); });
  if (!options.host_states.empty()) {
    pass("host_states", [&](const Graph& g) { return passes::host_states(g, options.host_states); });
  }
  if (chooses || offload == Offload::activations) {
    pass("offload", [&](const Graph& g) { return passes::offload(g, backend, options.limit.bytes); });
  }
  return graph;
}

}  // namespace freight
