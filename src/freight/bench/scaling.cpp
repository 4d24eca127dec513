// Times the steps of a run by one or several ranks. See scaling.h.
#include "freight/bench/scaling.h"

#include <algorithm>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/threads.h"

namespace freight::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kWarmUp = 3;      // steps: the first ones plan and touch fresh memory
constexpr int64_t kLeastSteps = 5;  // number of measured steps

// Adds up the steps of a run that follow another step of the same epoch.
class StepWatch final : public train::Observer {
 public:
  // `all_steps`: of the run if it were not stopped.
  StepWatch(const TimedComm* comm, double seconds, int64_t all_steps)
      : comm_(comm), seconds_(seconds), all_steps_(all_steps) {}

  train::AfterStep on_step(const train::StepReport& r) override {
    const Clock::time_point now = Clock::now();
    const TimedComm::Spent spent = comm_ ? comm_->spent() : TimedComm::Spent{};
    // The remaining time is estimated from the epoch's steps so far; this recovers their time.
    const double epoch_seconds = r.eta_s * static_cast<double>(r.step) / static_cast<double>(all_steps_ - r.total_step);
    const double waited = r.data_percent / 100 * epoch_seconds;
    if (++seen_ > kWarmUp && r.step > 1) {
      ++steps;
      total += std::chrono::duration<double>(now - last_).count();
      in_comm.sums += spent.sums - before_.sums;
      in_comm.meetings += spent.meetings - before_.meetings;
      in_comm.beside += spent.beside - before_.beside;
      data += waited - waited_;
    }
    last_ = now;
    before_ = spent;
    waited_ = waited;
    return {.stop = steps >= kLeastSteps && total >= seconds_};
  }

  int64_t steps = 0;
  double total = 0;          // seconds of these steps
  TimedComm::Spent in_comm;  // of these steps
  double data = 0;           // seconds of them spent waiting for data

 private:
  const TimedComm* comm_;
  const double seconds_;
  const int64_t all_steps_;
  int64_t seen_ = 0;
  double waited_ = 0;  // for data, in the epoch up to the last step
  Clock::time_point last_;
  TimedComm::Spent before_;
};

}  // namespace

template <class F>
void TimedComm::timed(DType dtype, F call) {
  const Clock::time_point start = Clock::now();
  call();
  const double seconds = seconds_since(start);
  if (std::this_thread::get_id() != owner_) {
    spent_.beside += seconds;  // the owner's thread does not read it meanwhile: it waits for this thread first
  } else {
    (dtype == DType::f32 ? spent_.sums : spent_.meetings) += seconds;
  }
}

void TimedComm::all_reduce(void* data, int64_t count, DType dtype) {
  timed(dtype, [&] { timed_->all_reduce(data, count, dtype); });
}
void TimedComm::all_gather(const void* from, void* to, int64_t count, DType dtype) {
  timed(dtype, [&] { timed_->all_gather(from, to, count, dtype); });
}
void TimedComm::broadcast(void* data, int64_t count, DType dtype, int root) {
  timed(dtype, [&] { timed_->broadcast(data, count, dtype, root); });
}
void TimedComm::barrier() {
  timed(DType::u8, [&] { timed_->barrier(); });
}

ScalingPoint time_training(train::PreparedRun run, job::Ranks* ranks, const TimedComm* comm, double seconds) {
  StepWatch watch(comm, seconds, run.config().max_steps);
  ScalingPoint p{.devices = ranks ? ranks->world() : 1, .threads = thread_count(), .ranks = {}};
  p.batch = (run.config().batch_size + p.devices - 1) / p.devices;
  run.run(watch);
  if (watch.steps == 0) {
    fail(ErrorKind::usage, "--world", "no step of an epoch follows ", kWarmUp,
         " others: use more samples, or a smaller batch");
  }
  const auto n = static_cast<double>(watch.steps);
  struct StepSeconds {
    double total, sums, meetings, beside, data;
  };
  const StepSeconds mine = {watch.total / n, watch.in_comm.sums / n, watch.in_comm.meetings / n,
                            watch.in_comm.beside / n, watch.data / n};
  const std::vector<StepSeconds> all = ranks ? ranks->gather(mine) : std::vector<StepSeconds>{mine};
  p.steps = watch.steps;
  p.step_seconds = all[0].total;  // rank 0's time counts for all, since steps take equally long on all ranks
  for (const StepSeconds& s : all) {
    const double left = std::max(0.0, s.total - s.sums - s.meetings);
    const double data = std::clamp(s.data, 0.0, left);
    p.ranks.push_back(
        {.compute = left - data, .sums = s.sums, .waiting = s.meetings, .data = data, .beside = s.beside});
  }
  return p;
}

RankTimes ScalingPoint::mean() const {
  RankTimes sum;
  for (const RankTimes& r : ranks) {
    sum.compute += r.compute;
    sum.sums += r.sums;
    sum.waiting += r.waiting;
    sum.data += r.data;
    sum.beside += r.beside;
  }
  const double share = 1 / static_cast<double>(std::max<size_t>(ranks.size(), 1));
  return {sum.compute * share, sum.sums * share, sum.waiting * share, sum.data * share, sum.beside * share};
}

namespace {

// The cores that a point's ranks use.
double processors_of(const Scaling& s, const ScalingPoint& p) {
  return static_cast<double>(std::min(p.devices * p.threads, s.processors));
}

}  // namespace

double efficiency(const Scaling& s, const ScalingPoint& p) {
  const ScalingPoint& first = s.points[0];
  const double times = static_cast<double>(p.devices) / static_cast<double>(first.devices);
  return p.step_seconds > 0 ? first.step_seconds / (p.step_seconds * times) : 0;
}

std::vector<LostTime> lost_times(const Scaling& s, const ScalingPoint& p) {
  const ScalingPoint& first = s.points[0];
  const double share = static_cast<double>(first.devices) / static_cast<double>(p.devices);
  const RankTimes before = first.mean(), now = p.mean();
  // The same work on the available cores if each were as fast as before.
  const double same = before.compute * processors_of(s, first) / processors_of(s, p);
  std::vector<LostTime> all = {{"ranks share the cores", same - before.compute * share},
                               {"compute on smaller batches", now.compute - same},
                               {"gradient all-reduce", now.sums - before.sums * share},
                               {"waiting for the slowest rank", now.waiting - before.waiting * share},
                               {"reading data", now.data - before.data * share}};
  std::stable_sort(all.begin(), all.end(), [](const LostTime& a, const LostTime& b) { return a.seconds > b.seconds; });
  return all;
}

}  // namespace freight::bench
