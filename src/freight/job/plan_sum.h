// The all-reduce that devices run within the step that computes the summands. The plan passes each summand on when it
// is computed, and pieces of them, the same on all ranks, are summed while the backward pass continues; if the step is
// a CUDA graph, the sums are part of it. Sums that the plan itself reads (BatchNorm statistics of the whole batch) are
// made at their place in the plan. passes/pieces.h cuts the pieces.
#pragma once
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "freight/base/array.h"
#include "freight/base/device_collectives.h"
#include "freight/job/pieces_internal.h"
#include "freight/run/collectives.h"
#include "freight/trace/variable.h"

namespace freight::job {

class PlanSum final : public Collectives {
 public:
  // A rank's description of the step that it is about to run.
  struct Intention {
    bool recordable;
    int64_t kept;  // the number of the recording (CUDA graph) that it has; 0: none
    uint64_t hash, hash_within;
  };
  // Returns the intentions of all ranks, by rank.
  using Gather = std::function<std::vector<Intention>(const Intention&)>;
  // `devices` outlives it.
  PlanSum(DeviceCollectives& devices, Gather gather) : devices_(devices), gather_(std::move(gather)) {}

  // Sets the summands, f32, in the order in which plans compute them, and the pieces: each ends before the summand with
  // that index. Both are the same on all ranks. Without this call only sums that the plan itself reads are made.
  void lay(std::vector<Variable> summands, std::vector<size_t> ends);
  // `prepare` computes this rank's contribution to the sum of a summand, given by its index, in the kernels' queue.
  void prepare_by(std::function<void(size_t summand)> prepare) { prepare_ = std::move(prepare); }
  // True if the summands are sums over all ranks when a run has ended.
  bool sums_all() const { return pieces_.count() > 0; }

  // Replaces the run of a rank that computes nothing in this step. Its summands must be zeros already; it contributes
  // zeros to the sums within the other ranks' plans, which `order` lists.
  void run_empty(const SumOrder& order);

  DeviceMemory* memory() const override { return devices_.memory().get(); }
  // A run is recorded only if all ranks can record theirs, and a recording is replayed only if all ranks made it
  // together. If the plans of ranks order the two kinds of sums differently, the summands are summed when the run ends,
  // and nothing is recorded. The first run is not recorded either, since libraries allocate in it.
  // Throws Error(usage) if the sums within the plans differ.
  int64_t agree(const SumOrder& order, bool recordable, int64_t kept) override;
  void ready(void* data) override;
  bool sum_within(std::span<void* const> parts, const Type& type) override;
  void run_ends() override;
  void enqueued() override { devices_.enqueued(); }

 private:
  struct PendingGradient {
    Variable variable;
    void* at = nullptr;  // its address on the device in this run
  };
  void start();
  void give_complete();

  DeviceCollectives& devices_;
  Gather gather_;
  std::function<void(size_t summand)> prepare_ = {};
  std::vector<PendingGradient> summands_;  // in the order of pieces
  PieceOrder pieces_;
  size_t given_ = 0;           // the number of pieces whose sum was enqueued in this run
  bool has_summed_ = false;    // a run has made sums
  int64_t recordings_ = 0;     // the number of recordings that the ranks made together
  bool in_plan_order_ = true;  // pieces of this run are summed as soon as they are complete
  std::vector<Array> zeros_;   // the contribution of the last empty run
};

}  // namespace freight::job
