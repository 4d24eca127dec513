// The passes: graph to graph, in the order of `run_pipeline`. Each is a plain function; the pipeline verifies after
// each.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "freight/ir/graph.h"
#include "freight/passes/options.h"

namespace freight {

class Backend;

// Appends the gradients of the scalar (or seeded) `loss` with respect to `wrt` to the graph and returns them, one per
// entry; an invalid Value where `loss` does not depend on the entry differentiably. `seed`: cotangent of loss,
// default 1.
// A leaf may stand for a value of the same graph that has been evaluated: what reaches the leaf goes on to the value,
// whose rule reads the leaf.
struct Alias {
  Value leaf, definition;
};
std::vector<Value> grad(Graph& graph, Value loss, const std::vector<Value>& wrt, Value seed = {},
                        const std::vector<Alias>& aliases = {});

namespace passes {
// What one fused region may hold: inputs plus outputs (fuse() counts four of these at most), and nodes, each of which
// may leave a result or need a constant.
inline constexpr size_t kMaxOperands = 24, kMaxNodes = 48;

// By value: the value whose memory it is, itself unless it is a view. (The layout pass may yet copy a view.)
std::vector<Value> memory_roots(const Graph& graph);

// What a step takes, by figures of a device: a kernel, or a copy to host memory or back.
double step_seconds(const Graph& graph, const Node& node, const DeviceSpeed& speed);

// By value: it depends on constants and on states that nobody updates alone, and these are frozen.
std::vector<bool> frozen_values(const Graph& graph, States states);
// (C) behind reshape and broadcast along `axis` of `shape`; invalid where v is something else.
Value channel_vector(const Graph& graph, Value v, int axis, const Shape& shape);

// Removes nodes whose results nobody uses.
Graph dead_code(const Graph& graph);
// Mixed precision: f32 values in `low` (bf16 or f16) where the op table says so, and the backend where it leaves that
// to it (null: nowhere), with the casts in between.
Graph autocast(const Graph& graph, DType low, const Backend* backend = nullptr);
// Frozen factors and terms per channel behind a contraction (BatchNorm in evaluation) into its weight and bias.
Graph fold(const Graph& graph);
// Constant folding of splats, algebraic identities, view cleanup, transposes into matmuls, common subexpressions.
Graph simplify(const Graph& graph);
// Replaces composites for which the backend has no kernel by their decomposition (backend null: all of them).
Graph decompose(const Graph& graph, const Backend* backend);
// Those that `keep` does not want.
Graph decompose_unless(Graph graph, const std::function<bool(const Graph&, const Node&)>& keep);
// Epilogues into contractions and convolutions; pointwise and reduce nodes into fused regions.
Graph fuse(const Graph& graph, const Backend& backend, States states = States::change);
// Regions make cheap results of earlier regions again instead of reading them, where that saves memory.
Graph duplicate_cheap(const Graph& graph);
// Activations that backward reads are made again there where that lowers the peak of live bytes.
Graph remat(const Graph& graph, const Backend& backend, Recompute mode);
// The same, but only as far as computing again is cheaper, for the limit, than offload() is.
Graph remat_within(const Graph& graph, const Backend& backend, const ArenaLimit& limit);
// Orders nodes so that states are read before they are overwritten and little memory is alive.
Graph schedule(const Graph& graph);
// Activations go to host memory and come back until the live bytes of the scheduled graph are within `limit`, or none
// is left that would help. 0: no limit.
Graph offload(const Graph& graph, const Backend& backend, size_t limit);
// The states of these numbers (in the order of leaves) lie in host memory: they come for their readers, and their next
// values go back.
Graph host_states(const Graph& graph, const std::vector<int32_t>& states);
// By node: the sum of live bytes as the memory plan will count it before it sees layouts: leaves, outputs of the graph
// and next values of states have memory elsewhere, and results may take a dying input's.
std::vector<size_t> live_bytes(const Graph& graph, const Backend& backend);
}  // namespace passes

// All graph passes for one backend, with verification after each when FREIGHT_VERIFY=1. `compute`: f32, or what
// autocast computes in. `host`: the numbers of the states that lie in host memory.
Graph run_pipeline(Graph graph, const Backend& backend, Recompute recompute = Recompute::none,
                   DType compute = DType::f32, States states = States::change, const ArenaLimit& limit = {},
                   const std::vector<int32_t>& host = {});

}  // namespace freight
