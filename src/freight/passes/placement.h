// Where values lie: the layout pass gives every value strides within a root buffer, the memory pass gives roots
// addresses. A view shares its input's root. Used by run/plan.
#pragma once
#include <cstdint>
#include <vector>

#include "freight/backend/backend.h"
#include "freight/ir/graph.h"
#include "freight/passes/options.h"

namespace freight {

struct Place {
  Layout layout;
  Value root;          // the value whose buffer this one lies in; itself unless it is a view
  int64_t offset = 0;  // elements from the root's first
};

struct PlacedGraph {
  Graph graph;  // with the copies (reorders) that the layouts need
  ByValue<Place> places;
  const Place& place(Value v) const { return places[v]; }
  // Leaves and views that alias their input are no steps.
  bool is_step(const Node& n) const {
    const OpKind kind = info(n.op).kind;
    return kind != OpKind::leaf && (kind != OpKind::view || place(n.out()).root == n.out());
  }
};

struct LayoutOptions {
  States states = States::change;
  bool deterministic = false;  // no choice of packed layouts by measurement
  ChoiceRule* rule = nullptr;  // of choices that are made by measurement (StepSpec)
};

namespace passes {
// Chooses layouts by asking the backend, turns views into aliases where it can, and inserts a copy wherever a wish is
// not met. Outputs of the graph become row-major values of their own.
PlacedGraph layout(const Graph& graph, const Backend& backend, const LayoutOptions& options = {});
// Which steps depend on frozen states and constants alone and make no output. Their results stay for the plan's life:
// they run once.
ByNode<bool> once_steps(const PlacedGraph& placed, States states);
}  // namespace passes

// Where a root's memory comes from.
enum class MemoryKind : uint8_t { none, input, state, output, constant, arena, kept, host };

struct Buffer {
  MemoryKind kind = MemoryKind::none;
  int32_t index = 0;  // which input, state, output or constant
  size_t offset = 0;  // arena, kept, host: bytes from the start of it
  size_t bytes = 0;
  int32_t first = 0, last = 0;  // steps during which it is alive (arena, host)
};

struct MemoryPlan {
  ByValue<Buffer> buffers;           // meaningful for roots
  ByNode<Buffer> scratch;            // of steps
  std::vector<Update> late_updates;  // states that could not be overwritten in place: copied after the last step
  size_t arena_bytes = 0;
  size_t kept_bytes = 0;         // of results of steps that run once, which no other result may overwrite
  size_t host_bytes = 0;         // of the arena in host memory, for values that were offloaded
  size_t lower_bound_bytes = 0;  // the largest sum of live buffers at any step
};

struct MemoryOptions {
  ByNode<size_t> scratch_bytes;  // that the kernel of a step needs while it runs
  ByNode<bool> once;             // once_steps()
  ArenaLimit limit = {};
};

namespace passes {
// Lifetimes, in-place reuse and offsets. Steps that run once run before all others, in their order; what only they read
// lies in the arena. Copies to the host and from it run beside the kernels: what they need on the device is kept for
// them longer, as far as the limit leaves room.
MemoryPlan memory(const PlacedGraph& placed, const Backend& backend, const MemoryOptions& options);
}  // namespace passes

}  // namespace freight
