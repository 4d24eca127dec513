// The sum of a step's gradients over the parts of its batch: those that this rank computes one after the other or side
// by side, and those of the other ranks. Host memory (host_sum.h) and devices (device_sum.h) have an implementation
// each; the step (train/part_step.h) knows this interface alone.
//
// The sum over parts is added in the tree of comm/tree_sum.h, and so is the sum over ranks in host memory. Where it is
// to be exact (Sharding::exact), both together are one tree over all parts, so that it has the same bits whichever
// ranks computed them.
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

// The collectives of a part's run (begin_part) get each summand when it is ready; summands that a plan does not hand
// over are taken when the part ends.
class GradientSum {
 public:
  virtual ~GradientSum() = default;
  // A step begins. The parts of this rank follow in order: begin_part(), a run, end_part(); or skip_part().
  virtual void start() = 0;
  // The collectives of the part's run; null where it only leaves its gradients in the summands.
  virtual Collectives* begin_part(int64_t number) = 0;
  // The summands are those of the part.
  virtual void end_part(int64_t number) = 0;
  // The part has no samples: its gradients are zeros. `order` has the sums within the plans of other ranks' parts,
  // which wait for this rank.
  virtual void skip_part(int64_t number, const SumOrder& order) = 0;
  // After all parts: the summands become the sums over all parts of all ranks, when it returns or in the order of the
  // device. Throws Error(peer_lost).
  virtual void finish() = 0;

  // The sums over ranks of the last step, in seconds from start() on; empty where only the device knows.
  virtual std::span<const SumTime> sum_times() const { return {}; }
  // The next step makes its sums beside the last part, as far as the host does.
  virtual bool beside() const { return false; }
};

struct GradientSumOptions {
  Sharding sharding;
  CompileOptions compile;  // of the parts
  // The plan of this rank's first part, by whose order rank 0 says when summands are ready; null where it has no
  // samples.
  std::function<std::shared_ptr<const Plan>()> first_plan;
};
// The summands are f32: gradients and what else the parts of a step add up to. All ranks have the same.
std::unique_ptr<GradientSum> make_gradient_sum(const std::vector<Variable>& summands,
                                               const GradientSumOptions& options);
// The bytes that an object for summands of so many bytes keeps besides the variables and the arenas of plans.
size_t kept_bytes(size_t bytes, const Sharding& sharding);

// Devices sum among themselves while the plan of a rank's last part runs.
bool sums_within_plan(const Sharding& sharding);
// The parts of a rank run side by side, since they exchange statistics in host memory (shared_statistics).
bool side_by_side(const Sharding& sharding);

// Summands in the order in which rank 0's plan makes them, the same on all ranks, and cut into pieces. What the plan
// does not sum comes last, and keeps no piece waiting but the last one.
struct SumPieces {
  std::vector<Variable> summands;
  std::vector<size_t> numbers;  // of these, as they were given
  std::vector<size_t> ends;     // each piece ends in front of the summand at this place
};
SumPieces pieces_of(const std::vector<Variable>& summands, const Plan* plan, Ranks& ranks);

}  // namespace freight::job
