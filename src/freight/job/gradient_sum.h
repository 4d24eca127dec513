// The sum of a step's gradients over the parts of its batch: the parts that this rank computes, one after the other or
// interleaved, and those of the other ranks. Host memory (host_sum.h) and devices (device_sum.h) each have an
// implementation; the step (train/part_step.h) knows only this interface.
//
// Parts are added in the tree of comm/tree_sum.h, and so are the ranks' sums in host memory. Where the sum is to be
// exact (Sharding::exact), both form one tree over all parts, so that it is bitwise the same whichever ranks computed
// them.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "freight/job/parts.h"
#include "freight/job/step_timeline.h"
#include "freight/run/collectives.h"
#include "freight/trace/compile.h"
#include "freight/trace/variable.h"

namespace freight::job {

// The collectives of a part's run (begin_part) receive each summand when it is ready. Summands that a plan does not
// pass to them are taken when the part ends.
class GradientSum {
 public:
  virtual ~GradientSum() = default;
  // Begins a step. This rank's parts follow in order: begin_part(), a run and end_part(), or else skip_part().
  virtual void start() = 0;
  // Returns the collectives for the part's run; null if the run only writes its gradients to the summands.
  virtual Collectives* begin_part(int64_t number) = 0;
  // Takes the summands, which now have the part's gradients.
  virtual void end_part(int64_t number) = 0;
  // Adds zeros for a part without samples. `order` lists the sums that other ranks make within the plans of their
  // parts, in which this rank must take part.
  virtual void skip_part(int64_t number, const SumOrder& order) = 0;
  // Is called after all parts. The summands become the sums over all parts of all ranks: when it returns, or, on a
  // device, in the order of its queue. Throws Error(peer_lost).
  virtual void finish() = 0;

  // The times of the last step's sums over ranks, in seconds since start(); empty if only the device knows them.
  virtual std::span<const SumTime> sum_times() const { return {}; }
  // True if the next step overlaps its sums with the last part, where the host makes them.
  virtual bool overlaps_next_step() const { return false; }
};

struct GradientSumOptions {
  Sharding sharding;
  CompileOptions compile;  // of the parts
  // The plan of this rank's first part, from which rank 0 takes the order in which summands become ready; null if the
  // part has no samples.
  std::function<std::shared_ptr<const Plan>()> first_plan;
};
// Sums f32 summands, the same on all ranks: on devices with NCCL (Ranks::devices()), unless parts are interleaved.
std::unique_ptr<GradientSum> make_gradient_sum(const std::vector<Variable>& summands,
                                               const GradientSumOptions& options);
// The memory that a GradientSum for summands of `bytes` needs in addition to the variables and the plans' arenas.
size_t kept_bytes(size_t bytes, const Sharding& sharding);

// True if devices add among themselves while the plan of a rank's last part runs, unless --overlap no.
bool may_sum_within_plan(const Sharding& sharding);
// True if the parts of a rank run in turns, each up to its next sum, because they exchange statistics in host memory
// (shared_statistics).
bool interleaves_parts(const Sharding& sharding);

// Summands in the order in which rank 0's plan computes them, the same on all ranks, and cut into pieces. Summands that
// the plan does not pass on come last, so that only the last piece waits for them.
struct SumPieces {
  std::vector<Variable> summands;
  std::vector<size_t> numbers;  // the index that each had in the given order
  std::vector<size_t> ends;     // each piece ends before the summand at this index
};
SumPieces pieces_of(const std::vector<Variable>& summands, const Plan* plan, Ranks& ranks);

}  // namespace freight::job
