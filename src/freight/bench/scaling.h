// Scaling: the time of a training step by the number of devices, and why it does not decrease further. Each rank
// reports where its time goes; the loss compared with linear scaling is attributed to causes. N devices; F is the first
// measured number.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "freight/bench/comm.h"
#include "freight/bench/output.h"
#include "freight/comm/comm.h"
#include "freight/job/ranks.h"
#include "freight/plan/estimate.h"
#include "freight/train/prepare.h"

namespace freight::bench {

// Forwards all calls to another transport, and measures the seconds that this rank spends in its collectives.
class TimedComm final : public comm::Comm {
 public:
  explicit TimedComm(std::unique_ptr<comm::Comm> timed) : timed_(std::move(timed)) {}

  int rank() const override { return timed_->rank(); }
  int world() const override { return timed_->world(); }
  bool over_network() const override { return timed_->over_network(); }
  void all_reduce(void* data, int64_t count, DType dtype) override;
  void all_gather(const void* from, void* to, int64_t count, DType dtype) override;
  void broadcast(void* data, int64_t count, DType dtype, int root) override;
  void barrier() override;
  void abort(const std::string& reason) noexcept override { timed_->abort(reason); }
  void at_step(int64_t step) override { timed_->at_step(step); }
  std::vector<double> waited() const override { return timed_->waited(); }

  struct Spent {
    double sums = 0;  // in collectives of f32, which carry gradients
    // In all other collectives: each step has one before its sums, in which ranks wait for the slowest.
    double meetings = 0;
    double beside = 0;  // in collectives of another thread, which overlap with this one's work
  };
  const Spent& spent() const { return spent_; }

 private:
  template <class F>
  void timed(DType dtype, F call);
  std::unique_ptr<comm::Comm> timed_;
  const std::thread::id owner_ = std::this_thread::get_id();
  Spent spent_;
};

// The time that a rank spends on each task, in seconds per step. The rest of the step is computation.
struct RankTimes {
  double compute = 0, sums = 0, waiting = 0, data = 0;
  double beside = 0;  // sums that overlap with the computation
};
// The steps of one number of devices.
struct ScalingPoint {
  int64_t devices = 1;
  int64_t batch = 0;                               // of each, at most
  int64_t threads = 1;                             // of each
  int64_t steps = 0;                               // number of measured steps
  double step_seconds = 0;                         // mean
  std::vector<RankTimes> ranks;                    // by rank
  CommCost cost = {};                              // of a sum over these ranks; zeros for one rank
  std::optional<plan::BesideCompute> beside = {};  // set if there is a prediction
  plan::Range predicted = {};  // seconds per step, as freight plan --world predicts them; zeros without a prediction
  RankTimes mean() const;      // over the ranks
};
// Trains until `seconds` of steps have been measured, without the first steps; the time between epochs does not count.
// The run must have more max_steps than that takes. All ranks call it together. `comm`: what `ranks` use; if both are
// null, this process trains alone. The result has neither its cost nor a prediction.
ScalingPoint time_training(train::PreparedRun run, job::Ranks* ranks, const TimedComm* comm, double seconds);

struct Scaling {
  std::string machine, transport, model, data;
  int64_t processors = 1;  // shared by all ranks
  int64_t batch = 0, shards = 0;
  std::string why_not_predicted = {};
  std::vector<ScalingPoint> points;  // ascending
};

// The rate of a point as a fraction of linear scaling from the first point.
double efficiency(const Scaling& scaling, const ScalingPoint& point);
// A cause, and the seconds per step that it costs, compared with F / N of the first point's step.
struct LostTime {
  std::string cause;
  double seconds = 0;
};
// The largest first. They add up to the whole loss; a negative one is a gain.
std::vector<LostTime> lost_times(const Scaling& scaling, const ScalingPoint& point);

Listing figures_of(const Scaling& scaling);
// A sentence for each number of devices but the first: the speedup, and why it is not larger.
std::vector<std::string> findings(const Scaling& scaling);
// A warning if ranks share cores, with their numbers; empty if each has its own.
std::vector<std::string> warnings(const Scaling& scaling);
std::string to_json(const Scaling& scaling);
// A point as JSON, for the process that started the ranks. read_point throws Error(data) that names `source`.
std::string to_json(const ScalingPoint& point);
ScalingPoint read_point(const std::string& text, const std::string& source);

}  // namespace freight::bench
