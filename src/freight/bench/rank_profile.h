// Profiles a training step that several ranks share, from the view of one of them: the plan of its part step by step,
// the sums over ranks and how much of them the computation hides, and the waits for other ranks. `freight profile
// --devices` prints it.
#pragma once
#include <memory>
#include <vector>

#include "freight/bench/workload.h"
#include "freight/job/ranks.h"
#include "freight/run/profile.h"
#include "freight/train/config.h"
#include "freight/train/net_training.h"

namespace freight::bench {

// A sum over ranks within the fastest step, in seconds. The rank waits for what the computation does not hide.
struct ProfiledSum {
  double begin = 0, end = 0;  // since the step's beginning
  double bytes = 0;
  double hidden = 0;
  double seconds() const { return end - begin; }
  double waited() const { return seconds() - hidden; }
};

struct RankProfile {
  Profile plan;                    // of the largest part that the rank computes at once
  int64_t devices = 1, steps = 0;  // `devices` share a batch; `steps` were measured
  double step = 0;                 // the mean, in seconds
  // The seconds of the fastest step, and until this rank's parts of it were computed.
  double fastest = 0, computed = 0;
  std::vector<ProfiledSum> sums;  // of the fastest step, in order
  std::vector<double> waited;     // mean seconds per step that the rank waited in collectives, by rank
};

// All ranks construct it together, with the same model and options, and call profile() together.
class RankWorkload {
 public:
  // `ranks` must outlive it. Throws the errors of tracing and planning.
  RankWorkload(models::Model model, const WorkloadOptions& options, job::Ranks& ranks);
  RankWorkload(const RankWorkload&) = delete;
  RankWorkload& operator=(const RankWorkload&) = delete;

  const models::Model& model() const { return net_->model; }
  // The plan of the largest part that this rank computes at once; its gradients go to all_reduce steps.
  std::shared_ptr<const Plan> plan() const;
  // Measures for about `seconds`: half of the time steps of all ranks, half of it each rank's plan by itself.
  RankProfile profile(double seconds);

 private:
  void step();

  job::Ranks& ranks_;
  train::Config config_;
  Array inputs_, targets_;  // (N, ...), of all ranks
  std::unique_ptr<train::NetTraining> net_;
};

}  // namespace freight::bench
