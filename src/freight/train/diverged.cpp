// See diverged.h. Every floating result becomes an output of a copy of the graph, which runs once; the step as it was
// planned reuses memory and would have overwritten the evidence.
#include "freight/train/diverged.h"

#include "freight/base/error.h"
#include "freight/base/finite.h"
#include "freight/nn/sound.h"
#include "freight/passes/passes.h"
#include "freight/train/step.h"

namespace freight::train {

namespace {

std::string say(const std::string& what, int64_t bad, int64_t all) {
  return cat(what, ": ", with_commas(bad), " of ", with_commas(all), " elements are NaN or infinite");
}

}  // namespace

std::string first_nonfinite(const std::vector<nn::NamedVariable>& variables) {
  for (const nn::NamedVariable& v : variables) {
    if (!is_floating(v.variable.type().dtype)) continue;  // spares a copy from a device
    const Array a = v.variable.array();
    if (const int64_t bad = nn::count_invalid(a, v.variable.role())) return say(v.name, bad, a.numel());
  }
  return "";
}

std::string first_nonfinite(const Graph& graph, const std::vector<Array>& inputs, const std::vector<Array>& states,
                            const RunOptions& options) {
  const std::vector<Value> leaves = graph.leaves(Op::state);
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!is_floating(states[i].dtype())) continue;
    if (const int64_t bad = count_nonfinite(states[i])) return say(leaf_name(graph, leaves[i]), bad, states[i].numel());
  }
  Graph all = passes::dead_code(graph);
  all.updates.clear();
  all.outputs.clear();
  for (const Node& n : all.nodes) {
    if (info(n.op).kind == OpKind::leaf) continue;
    for (Value v : n.outputs) {
      if (is_floating(all.type(v).dtype)) all.outputs.push_back(v);
    }
  }
  std::vector<std::shared_ptr<Storage>> storages;
  for (const Array& a : states) storages.push_back(a.clone().storage());
  std::vector<Array> results;
  for (Value v : all.outputs) results.emplace_back(all.type(v).dtype, all.type(v).shape);
  const std::vector<Value> order = all.outputs;
  Executable(
      plan_for(all,
               {.backend = options.backend, .deterministic = true, .compute = options.compute, .tf32 = options.tf32}),
      storages)
      .run(inputs, results);
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t bad = count_nonfinite(results[i]);
    if (!bad) continue;
    const Node& n = all.def(order[i]);
    const std::string scope = n.scope.empty() ? std::string("the loss") : n.scope;
    return say(cat(scope, " (", name(n.op), n.where.empty() ? "" : ", " + n.where, ")"), bad, results[i].numel());
  }
  return "";
}

std::string first_nonfinite(const data::Feed& feed, const data::FeedBatch& batch) {
  for (const auto& [what, all] : {std::pair("input", &batch.inputs), std::pair("target", &batch.targets)}) {
    if (!is_floating(all->dtype()) || count_nonfinite(*all) == 0) continue;
    for (int64_t row = 0; row < all->shape()[0]; ++row) {
      const Array one = batch_rows(*all, row, 1);
      if (const int64_t bad = count_nonfinite(one)) {
        return say(cat("the ", what, " of ", feed.sample_name(row)), bad, one.numel());
      }
    }
  }
  return "";
}

}  // namespace freight::train
