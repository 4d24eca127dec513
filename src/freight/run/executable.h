// Plans are made from graphs (cached by structure) and replayed by an Executable: fixed addresses, one loop, no
// allocation. Sees graphs and host arrays only; Tensors live above, in trace.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "freight/base/array.h"
#include "freight/ir/graph.h"
#include "freight/passes/options.h"
#include "freight/run/context.h"

namespace freight {

class Plan;

struct RunOptions {
  std::string backend = "cpu";
  bool deterministic = false;  // no plan-time measurement: fixed kernel choices
  Recompute recompute = Recompute::none;
  DType compute = DType::f32;  // bf16 or f16: mixed precision (passes/autocast.cpp)
  bool tf32 = false;           // products of f32 may round their operands to TF32, where the device gains by it
  // Pointwise results are rounded as if each node had a step of its own, though they share one: no product goes
  // unrounded into a sum. Where a graph is cut into plans then changes no bit.
  bool round_each = false;
  // States never change: what depends only on them (folded or packed weights) is computed in the first run. See thaw().
  bool frozen = false;
  // The ways to keep the arena within a limit, as far as that is possible: check Plan::arena_bytes().
  ArenaLimit limit = {};
  std::vector<int32_t> host_states = {};  // numbers of the states that lie in host memory
  SumCost sums = {};                      // the cost of a sum over ranks, by which gradients are cut into pieces
  // Weights that the graph updates stay in 16 bits, too, from one run to the next (passes/keep_casts.cpp). See thaw().
  bool keep_casts = false;
  friend bool operator==(const RunOptions&, const RunOptions&) = default;
};

// When the kernels that a plan may choose from are measured, as far as nobody has measured them yet. Graphs that differ
// in extents alone are shapes of one graph.
enum class Measure : uint8_t {
  now,           // before the plan is there
  when_it_pays,  // the first shape of a graph now, but for small products; others take what is fastest for near shapes
                 // (backend/choices.h), and are measured when they have been asked for, or have run,
                 // Plan::runs_to_measure() times
  first_shape,   // the first shape of a graph now, never others: each step keeps its kernel in all such plans
};

// The plan for a graph: from the bounded cache (key: structure, options, and the places of nodes that may refuse their
// elements), or made now. Throws what the passes throw; a failure leaves nothing in the cache.
std::shared_ptr<const Plan> plan_for(const Graph& graph, const RunOptions& options = {},
                                     Measure measure = Measure::now);

struct PlanCacheStats {
  int64_t hits = 0, misses = 0, evictions = 0, size = 0;
};
PlanCacheStats plan_cache_stats();
void clear_plan_cache();

// Memory for executables of one device and of equal options that never run at once: as much for their intermediate
// values as the largest needs, and one copy of each result of steps that run once which several of them compute alike.
class SharedArena;
std::shared_ptr<SharedArena> make_shared_arena();

class Executable {
 public:
  struct Options {
    std::shared_ptr<SharedArena> arena = nullptr;  // null for one of its own
    std::optional<size_t> random_state = {};       // the index of the program's random state, if there is one
    // For Plan::kept_casts(), in their order; several executables may share them. Empty: memory of its own.
    std::vector<std::shared_ptr<Storage>> copies = {};
  };
  // `states` in the order of graph.leaves(Op::state): storage whose address stays bound.
  Executable(std::shared_ptr<const Plan> plan, std::vector<std::shared_ptr<Storage>> states)
      : Executable(std::move(plan), std::move(states), Options()) {}
  Executable(std::shared_ptr<const Plan> plan, std::vector<std::shared_ptr<Storage>> states, Options options);
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  // Runs once. `inputs` in the order of graph.leaves(Op::input), `outputs` in that of graph.outputs: dense row-major
  // memory of the right type (checked once per address change, not per element), read and written in place.
  void run(const std::vector<Array>& inputs, const std::vector<Array>& outputs, const Context& context = {});
  // The same with a timer around every step: seconds per step of the plan, of all parts of the batch, 0 for those that
  // run once.
  std::vector<double> run_timed(const std::vector<Array>& inputs, const std::vector<Array>& outputs);
  // Runs the parts of a batch side by side, each up to its next sum over ranks that its plan reads (all_reduce).
  // `collectives` then adds the values of all parts in host memory (sum_within), and all continue. All plans must have
  // the same sums in the same order, and each executable its own arena. Sums that no step reads are left to the caller:
  // their tensors keep the values of the part.
  struct Joint {
    Executable* executable;
    std::vector<Array> inputs, outputs;
    std::optional<RandomState> random = {};  // Context
  };
  static void run_together(const std::vector<Joint>& all, Collectives& collectives);
  // Call after others have changed frozen states, or states of which the plan keeps copies: the next run recomputes
  // what depends on them.
  void thaw() {
    prepared_ = false;
    thawed_ = true;
  }
  const Plan& plan() const { return *plan_; }

 private:
  void bind(const std::vector<Array>& inputs, const std::vector<Array>& outputs,
            const std::optional<RandomState>& random);
  // Appends the copies to the states, and prepares what makes them.
  void add_copies(std::vector<std::shared_ptr<Storage>>& states, const std::vector<std::shared_ptr<Storage>>& copies);
  void run_once_steps();  // unless they have run
  static void sum_together(const std::vector<Joint>& all, size_t number, Collectives& collectives);
  // Binds, runs the steps that run once, then work().
  template <class F>
  void replay(const std::vector<Array>& inputs, const std::vector<Array>& outputs,
              const std::optional<RandomState>& random, F&& work);
  struct Bound;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Bound> bound_;
  std::unique_ptr<Executable> make_copies_;  // of Plan::copying(); null where there are none
  bool prepared_ = false;                    // that has run, and the steps that run once
  bool thawed_ = false;                      // their results of before do not count
};

}  // namespace freight
