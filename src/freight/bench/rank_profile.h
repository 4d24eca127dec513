// A training step that several ranks share, as one of them sees it: the plan of its part step by step, the sums over
// ranks with what of them compute hides, and what it waits for the others. `freight profile --devices` prints it.
#pragma once
#include <memory>
#include <vector>

#include "freight/bench/workload.h"
#include "freight/run/profile.h"
#include "freight/train/config.h"
#include "freight/train/net_training.h"
#include "freight/train/ranks.h"

namespace freight::bench {

// A sum over ranks within the fastest step, in seconds. What compute does not hide the rank waits for.
struct ProfiledSum {
  double begin = 0, end = 0;  // since the step's beginning
  double bytes = 0;
  double hidden = 0;
  double seconds() const { return end - begin; }
  double waited() const { return seconds() - hidden; }
};

struct RankProfile {
  Profile plan;                    // of the largest part that the rank computes at once
  int64_t devices = 1, steps = 0;  // that share a batch; that were measured
  double step = 0;                 // seconds, the mean
  // The fastest step: seconds in all, and until this rank's parts are computed.
  double fastest = 0, computed = 0;
  std::vector<ProfiledSum> sums;  // of the fastest step, in order
  std::vector<double> waited;     // seconds of a step, the mean, that the rank waited in collectives for each other
};

// All ranks make one together, on the same model and options, and call profile() together.
class RankWorkload {
 public:
  // `ranks` must outlive it. Throws what tracing and planning throw.
  RankWorkload(models::Model model, const WorkloadOptions& options, train::Ranks& ranks);
  RankWorkload(const RankWorkload&) = delete;
  RankWorkload& operator=(const RankWorkload&) = delete;

  const models::Model& model() const { return net_->model; }
  // The plan of the largest part that this rank computes at once; its gradients go to all_reduce steps.
  std::shared_ptr<const Plan> plan() const;
  // Measures for about so many seconds, half of them steps that all make, half of them the plan of each by itself.
  RankProfile profile(double seconds);

 private:
  void step();

  train::Ranks& ranks_;
  train::Config config_;
  Array inputs_, targets_;  // (N, ...), of all ranks
  std::unique_ptr<train::NetTraining> net_;
};

}  // namespace freight::bench
