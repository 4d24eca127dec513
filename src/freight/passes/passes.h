// The passes: plain functions from graph to graph, and the pipeline that runs them in order. Each says what it does to
// the graph; that the graph computes the same afterwards holds for all (tests/passes/fuzz_graphs_test.cpp).
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
// The gradient that arrives at the result of a node goes on as `change` of it, which may append to the graph.
struct GradientChange {
  Value value;  // the only result of its node
  std::function<Value(Value gradient)> change;
};
std::vector<Value> grad(Graph& graph, Value loss, const std::vector<Value>& wrt, Value seed = {},
                        const std::vector<Alias>& aliases = {}, const std::vector<GradientChange>& changes = {});

namespace passes {
// How large a region is made: its inputs plus outputs, and its nodes. fuse() counts four outputs at most, since it does
// not know them yet; a lowering must have room for a result and a constant of each node.
inline constexpr size_t kMaxOperands = 24, kMaxNodes = 48;

// The value whose memory each value is, itself unless it is a view. (The layout pass may yet copy a view.)
ByValue<Value> memory_roots(const Graph& graph);

// The time of a step by figures of a device: of a kernel, or of a copy to host memory or back.
double step_seconds(const Graph& graph, const Node& node, const DeviceSpeed& speed);

// The sums over ranks that another node reads; the others are there behind the run.
ByNode<bool> sums_read_within(const Graph& graph);

// Which values depend on constants and on frozen states that nobody updates alone; none where states change.
ByValue<bool> frozen_values(const Graph& graph, States states);
// (C) behind reshape and broadcast along `axis` of `shape`; invalid where v is something else.
Value channel_vector(const Graph& graph, Value v, int axis, const Shape& shape);

// Removes nodes whose results nobody uses.
Graph dead_code(Graph graph);
// Mixed precision: f32 values in `low` (bf16 or f16) where the op table says so, and the backend where it leaves that
// to it (null: nowhere), with the casts in between.
Graph autocast(const Graph& graph, DType low, const Backend* backend = nullptr, States states = States::change);
// Frozen factors and terms per channel behind a contraction (BatchNorm in evaluation) into its weight and bias.
Graph fold(const Graph& graph);
// Constant folding of splats, algebraic identities, view cleanup, transposes into matmuls, common subexpressions.
Graph simplify(Graph graph);
// Replaces composites for which the backend has no kernel by their decomposition (backend null: all of them), and those
// whose rows say so of the node (OpInfo::decompose_if).
Graph decompose(Graph graph, const Backend* backend);
// Those that `keep` does not want.
Graph decompose_unless(Graph graph, const std::function<bool(const Graph&, const Node&)>& keep);
// Casts to 16 bits of states that the graph updates become states themselves, whose next values are casts of the
// others' next values. They are the last states; the update of each stands right behind that of the state it is a copy
// of.
Graph keep_casts(const Graph& graph);
// Says which state each of the copies is a copy of, in their order, and of which type. `states`: the number without
// them.
struct KeptCast {
  size_t state = 0;
  DType dtype = DType::bf16;
};
std::vector<KeptCast> kept_casts_of(const Graph& lowered, size_t states);
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
// Gives the sums over ranks of the scheduled graph their pieces: those that cost least time, by figures of a device and
// of the sums, where each runs beside the steps behind it (pieces.h).
Graph distribute(const Graph& graph, const DeviceSpeed& speed, const SumCost& cost);
// The sum of live bytes at each node as the memory plan will count it before it sees layouts: leaves, outputs of the
// graph and next values of states have memory elsewhere, and results may take a dying input's.
ByNode<size_t> live_bytes(const Graph& graph, const Backend& backend);
}  // namespace passes

struct PipelineOptions {
  Recompute recompute = Recompute::none;
  DType compute = DType::f32;  // bf16 or f16: mixed precision
  States states = States::change;
  ArenaLimit limit = {};
  std::vector<int32_t> host_states = {};  // numbers of the states that lie in host memory
  SumCost sums = {};                      // over ranks
  bool keep_casts = false;                // of states that the graph updates (keep_casts), where the backend fuses
};
// All graph passes for one backend in this order, those in brackets only where the options, or the backend, ask for
// them: dead_code, decompose_layers, (fold), (autocast), decompose, simplify, (keep_casts), (fuse, duplicate_cheap),
// (remat), (remat_within), (fuse_patterns), schedule, (host_states), (offload), (distribute). Behind them come layout
// and memory (placement.h), which no longer make a graph alone. What the first ones, up to fuse, make of a shape is
// often known from others (shape_family.h).
Graph run_pipeline(const Graph& traced, const Backend& backend, const PipelineOptions& options = {});

}  // namespace freight
