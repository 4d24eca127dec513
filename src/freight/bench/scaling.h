// Scaling: a training step's time by the number of devices, and why it does not fall further. Each rank tells where its
// time goes, and what is lost against as many times the first rate is laid to causes. N devices, of which the first
// measured number is F.
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
#include "freight/plan/estimate.h"
#include "freight/train/prepare.h"
#include "freight/train/ranks.h"

namespace freight::bench {

// Passes all on to another transport, and notes the seconds that this rank spends in its collectives.
class TimedComm final : public comm::Comm {
 public:
  explicit TimedComm(std::unique_ptr<comm::Comm> timed) : timed_(std::move(timed)) {}

  int rank() const override { return timed_->rank(); }
  int world() const override { return timed_->world(); }
  bool over_network() const override { return timed_->over_network(); }
  void all_reduce(void* data, int64_t count, DType dtype) override;
  void reduce_scatter(const void* from, void* to, int64_t count, DType dtype) override;
  void all_gather(const void* from, void* to, int64_t count, DType dtype) override;
  void broadcast(void* data, int64_t count, DType dtype, int root) override;
  void barrier() override;
  void abort(const std::string& reason) noexcept override { timed_->abort(reason); }
  void at_step(int64_t step) override { timed_->at_step(step); }
  std::vector<double> waited() const override { return timed_->waited(); }

  struct Spent {
    double sums = 0;      // in collectives of f32, which move gradients
    double meetings = 0;  // in all others: a step has one before its sums, in which ranks wait for the slowest
    double beside = 0;    // in collectives of another thread, beside this one's work
  };
  const Spent& spent() const { return spent_; }

 private:
  template <class F>
  void timed(DType dtype, F call);
  std::unique_ptr<comm::Comm> timed_;
  const std::thread::id owner_ = std::this_thread::get_id();
  Spent spent_;
};

// A rank spends its time on these, in seconds of a step. The rest of the step is compute.
struct RankTimes {
  double compute = 0, sums = 0, waiting = 0, data = 0;
  double beside = 0;  // sums that are made beside compute
};
// The steps of so many devices.
struct ScalingPoint {
  int64_t devices = 1;
  int64_t batch = 0;                               // of each, at most
  int64_t threads = 1;                             // of each
  int64_t steps = 0;                               // that were measured
  double step_seconds = 0;                         // mean
  std::vector<RankTimes> ranks;                    // by rank
  CommCost cost = {};                              // of a sum over these ranks; zeros of one
  std::optional<plan::BesideCompute> beside = {};  // where something is predicted
  plan::Range predicted = {};  // seconds of a step, as freight plan --world tells them; zeros where it does not
  RankTimes mean() const;      // over the ranks
};
// Trains until so many seconds of steps are measured, the first steps apart; what lies between epochs does not count.
// The run is one of max_steps steps, more than it will make. Called by all ranks together. `comm`: what `ranks` use;
// both null: this process alone trains. The point says neither its cost nor a prediction.
ScalingPoint time_training(train::PreparedRun run, train::Ranks* ranks, const TimedComm* comm, double seconds);

struct Scaling {
  std::string machine, transport, model, data;
  int64_t processors = 1;  // that all ranks share
  int64_t batch = 0, shards = 0;
  std::string why_not_predicted = {};
  std::vector<ScalingPoint> points;  // rising
};

// The share of as many times the first point's rate.
double efficiency(const Scaling& scaling, const ScalingPoint& point);
// A cause with the seconds of each step that it costs, against F / N of the first point's step.
struct LostTime {
  std::string cause;
  double seconds = 0;
};
// The largest first. Their sum is what is lost; a cause below 0 is a gain.
std::vector<LostTime> lost_times(const Scaling& scaling, const ScalingPoint& point);

Listing figures_of(const Scaling& scaling);
// A sentence for each number of devices but the first: how much faster they are, and why not more.
std::vector<std::string> findings(const Scaling& scaling);
// Numbers of ranks that share processors; "" where each has one of its own.
std::vector<std::string> warnings(const Scaling& scaling);
std::string to_json(const Scaling& scaling);
// One point, for the process that started the ranks. read_point throws Error(data) that names `source`.
std::string to_json(const ScalingPoint& point);
ScalingPoint read_point(const std::string& text, const std::string& source);

}  // namespace freight::bench
