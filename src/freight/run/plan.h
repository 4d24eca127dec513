// Plan: a traced graph, fully lowered: ordered steps with prepared kernels, layouts, addresses, FLOPs and bytes.
// Immutable and shared by all Executables of equal graphs. Its text form is stable enough for golden tests.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "freight/backend/backend.h"
#include "freight/base/device_memory.h"
#include "freight/passes/batch_parts.h"
#include "freight/passes/passes.h"
#include "freight/passes/placement.h"
#include "freight/run/executable.h"

namespace freight {

struct PlanStep {
  NodeId node;  // of plan.graph()
  std::unique_ptr<Kernel> kernel;
  Cost cost;
  bool once = false;  // depends on frozen states alone: runs before all others, at an Executable's first run
  Queue queue = Queue::kernels;
  // Steps of other queues that must be done before it begins, by number (run/queues.cpp); kRunBegins: what was enqueued
  // before the run.
  std::vector<int32_t> after = {};
};

inline constexpr int32_t kRunBegins = -1;

class Plan {
 public:
  // Runs all passes, asks the backend for kernels and lays out memory.
  Plan(const Graph& graph, const RunOptions& options, Measure measure = Measure::now);

  const Graph& source() const { return source_; }       // the graph as traced
  const Graph& graph() const { return placed_.graph; }  // as lowered; of one part of the batch
  // A run replays the steps for each of these parts of the batch. Costs of steps are those of a run.
  const passes::BatchParts& parts() const { return parts_; }
  const PlacedGraph& placed() const { return placed_; }
  const MemoryPlan& memory() const { return memory_; }
  // Those that run once come first.
  const std::vector<PlanStep>& steps() const { return steps_; }
  size_t once_steps() const { return once_steps_; }
  // The last steps of the copy queues; the kernels' queue waits for them at the end of a run.
  const std::vector<int32_t>& last_copies() const { return last_copies_; }
  const RunOptions& options() const { return options_; }
  size_t arena_bytes() const { return memory_.arena_bytes; }
  size_t host_bytes() const { return memory_.host_bytes; }  // of the arena in host memory
  size_t kept_bytes() const { return memory_.kept_bytes; }  // of what the steps that run once leave
  size_t lower_bound_bytes() const { return memory_.lower_bound_bytes; }
  // The copies of states that lie in memory of the executable, or of several, their bytes, and the plan that makes them
  // anew: its states are the copied one and the copy, for each. Null where there are none.
  const std::vector<passes::KeptCast>& kept_casts() const { return kept_casts_; }
  size_t copy_bytes() const;
  const std::shared_ptr<const Plan>& copying() const { return copying_; }
  // The number of kernels chosen without measuring that measuring might change, and of runs after which it pays.
  size_t guesses() const { return guesses_; }
  int64_t runs_to_measure() const { return runs_to_measure_; }
  // Sum over all steps of a replay.
  Cost total_cost() const;
  // Kernels keep no addresses but may keep scratch of their own: one run at a time.
  std::mutex& run_mutex() const { return run_mutex_; }

 private:
  // Does all the work of the constructor, with the activations' live bytes within `limit` if the options require it.
  void lower(Backend& device, size_t limit, ChoiceRule& rule);
  void plan_copying();
  Graph source_;
  RunOptions options_;
  passes::BatchParts parts_;
  PlacedGraph placed_;
  MemoryPlan memory_;
  std::vector<PlanStep> steps_;
  std::vector<passes::KeptCast> kept_casts_;
  std::shared_ptr<const Plan> copying_;
  size_t once_steps_ = 0, guesses_ = 0;
  int64_t runs_to_measure_ = 0;
  std::vector<int32_t> last_copies_;
  mutable std::mutex run_mutex_;
};

// After how many runs of about so many seconds it pays to measure so many choices.
int64_t runs_to_measure(size_t choices, double seconds);

// Fills `after` of the steps that are not run once; returns the last steps of the queues of copies that no other step
// waits for.
std::vector<int32_t> order_queues(std::vector<PlanStep>& steps, const PlacedGraph& placed, const MemoryPlan& memory);

// "enc.fc1 matmul f32[64,784] f32[128,784] -> f32[64,128]": what a step does, for listings.
std::string describe(const Plan& plan, const PlanStep& step);
// One line per step: number, op, scope, operand types, layouts, addresses. Kernel names are left out: they are
// measured.
std::string print(const Plan& plan);

}  // namespace freight
