// The graph passes in order; see passes.h. FREIGHT_VERIFY=1 verifies the graph behind each, FREIGHT_DUMP=DIR writes it.
#include <algorithm>
#include <cstdio>

#include "freight/backend/backend.h"
#include "freight/base/env.h"
#include "freight/base/strings.h"
#include "freight/passes/passes.h"
#include "freight/passes/shape_family.h"

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

// A graph and the passes that it went through so far.
class Passes {
 public:
  explicit Passes(Graph graph) : graph_(std::move(graph)) {}
  template <class F>
  void run(const char* name, const F& pass) {
    graph_ = pass(std::move(graph_));
    note(name);
  }
  void note(const char* name) {
    if (check_) verify(graph_, name);
    if (write_) dump(graph_, number_++, name);
  }
  Graph& graph() { return graph_; }

 private:
  Graph graph_;
  const bool check_ = env::get("FREIGHT_VERIFY") == "1", write_ = env::is_set("FREIGHT_DUMP");
  int number_ = 0;
};

// Runs the passes that make regions of the traced graph. How many bytes something takes matters to none of them.
void make_regions(Passes& passes, const Backend& backend, const PipelineOptions& options) {
  verify(passes.graph());
  passes.note("traced");
  passes.run("dead_code", [](Graph g) { return passes::dead_code(std::move(g)); });
  // Before mixed precision, which knows the parts of a layer that the backend does not take whole.
  passes.run("decompose_layers", [&](Graph g) {
    return passes::dead_code(passes::decompose_unless(std::move(g), [&](const Graph& all, const Node& n) {
      return info(n.op).decomposes != Decomposes::before_precision || backend.has_kernel(all, n);
    }));
  });
  if (options.states == States::frozen) passes.run("fold", [](const Graph& g) { return passes::fold(g); });
  if (options.compute != DType::f32) {
    passes.run("autocast",
               [&](const Graph& g) { return passes::autocast(g, options.compute, &backend, options.states); });
  }
  passes.run("decompose", [&](Graph g) { return passes::decompose(std::move(g), &backend); });
  passes.run("simplify", [](Graph g) { return passes::simplify(std::move(g)); });
  if (backend.fuses() && options.keep_casts) {
    passes.run("keep_casts", [](const Graph& g) { return passes::keep_casts(g); });
  }
  if (backend.fuses()) passes.run("fuse", [&](const Graph& g) { return passes::fuse(g, backend, options.states); });
}

// The same for a shape of a graph that may be known.
Graph regions_of(const Graph& traced, const Backend& backend, const PipelineOptions& options) {
  const auto lower = [&](const Graph& g) {
    Passes passes(g);
    make_regions(passes, backend, options);
    return std::move(passes.graph());
  };
  const auto by_extents = [&](const Node& n) { return backend.decides_by_extents(n); };
  if (std::any_of(traced.nodes.begin(), traced.nodes.end(), by_extents)) return lower(traced);
  const std::string circumstances =
      cat(backend.name(), " ", options.compute, options.states == States::frozen ? " frozen" : "",
          options.keep_casts ? " keeps casts" : "");
  return passes::shape_families().lowered(traced, circumstances, lower);
}

}  // namespace

Graph run_pipeline(const Graph& traced, const Backend& backend, const PipelineOptions& options) {
  const bool write = env::is_set("FREIGHT_DUMP");
  Passes passes(write ? traced : regions_of(traced, backend, options));
  if (write) make_regions(passes, backend, options);
  if (backend.fuses()) {
    passes.run("duplicate_cheap", [](const Graph& g) { return passes::duplicate_cheap(g); });
  }
  if (options.recompute != Recompute::none) {
    passes.run("remat", [&](const Graph& g) { return passes::remat(g, backend, options.recompute); });
  }
  const Offload offload = options.limit.offload;
  const bool chooses = offload == Offload::automatic || offload == Offload::all;
  if (chooses) {
    passes.run("remat_within", [&](const Graph& g) { return passes::remat_within(g, backend, options.limit); });
  }
  if (backend.fuses()) {
    passes.run("fuse_patterns", [&](const Graph& g) { return passes::dead_code(backend.fuse_patterns(g)); });
  }
  passes.run("schedule", [](const Graph& g) { return passes::schedule(g); });
  if (!options.host_states.empty()) {
    passes.run("host_states", [&](const Graph& g) { return passes::host_states(g, options.host_states); });
  }
  if (chooses || offload == Offload::activations) {
    passes.run("offload", [&](const Graph& g) { return passes::offload(g, backend, options.limit.bytes); });
  }
  const auto is_sum = [](const Node& n) { return n.op == Op::all_reduce; };
  if (std::any_of(passes.graph().nodes.begin(), passes.graph().nodes.end(), is_sum)) {
    passes.run("distribute", [&](const Graph& g) { return passes::distribute(g, options.limit.speed, options.sums); });
  }
  return std::move(passes.graph());
}

}  // namespace freight
