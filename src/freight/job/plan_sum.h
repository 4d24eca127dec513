// Sums over ranks that devices make within the step which computes the summands: the plan hands each over when it is
// made, and pieces of them, the same on all ranks, travel beside the steps of the backward half, as part of the
// recording where the step is one. Sums that the plan reads itself (statistics of BatchNorm over the whole batch) are
// made where they stand. How pieces are cut is passes/pieces.h.
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
  // A step as a rank is about to run it.
  struct Intention {
    bool recordable;
    int64_t kept;  // number of the recording that it has; 0: none
    uint64_t hash, hash_within;
  };
  // Everybody's, by rank.
  using Gather = std::function<std::vector<Intention>(const Intention&)>;
  // `devices` outlives it.
  PlanSum(DeviceCollectives& devices, Gather gather) : devices_(devices), gather_(std::move(gather)) {}

  // The summands, f32, in the order in which plans make them; each piece ends in front of the one of that number. The
  // same on all ranks. Unless it is called there are sums within the plan alone.
  void lay(std::vector<Variable> summands, std::vector<size_t> ends);
  // `prepare` makes of each, by its number, what this rank brings to the sum, in the kernels' queue.
  void prepare_by(std::function<void(size_t summand)> prepare) { prepare_ = std::move(prepare); }
  // True where a run leaves the summands summed.
  bool sums_all() const { return pieces_.count() > 0; }

  // In the place of a run, of a rank that computes nothing in this step: its summands are zeros by now, and so is what
  // it brings to the sums within the others' plans, which are those of `order`.
  void run_empty(const SumOrder& order);

  DeviceMemory* memory() const override { return devices_.memory().get(); }
  // A run is recorded where all ranks can record theirs, and a recording repeated where all made it together. Ranks
  // whose plans make sums within and others in unlike orders make the latter when the run ends, and record nothing. Nor
  // is the first run recorded, in which libraries make what they need.
  // Throws Error(usage) where sums within differ.
  int64_t agree(const SumOrder& order, bool recordable, int64_t kept) override;
  void ready(void* data) override;
  bool sum_within(std::span<void* const> parts, const Type& type) override;
  void run_ends() override;
  void enqueued() override { devices_.enqueued(); }

 private:
  struct PendingGradient {
    Variable variable;
    void* at = nullptr;  // on the device, in this run
  };
  void start();
  void give_complete();

  DeviceCollectives& devices_;
  Gather gather_;
  std::function<void(size_t summand)> prepare_ = {};
  std::vector<PendingGradient> parts_;  // in the order of pieces
  PieceOrder pieces_;
  size_t given_ = 0;           // pieces of this run, in order
  bool has_summed_ = false;    // in a run
  int64_t recordings_ = 0;     // that the ranks have made together
  bool in_plan_order_ = true;  // pieces of this run travel as soon as they are complete
  std::vector<Array> zeros_;   // that the last empty run brought
};

}  // namespace freight::job
