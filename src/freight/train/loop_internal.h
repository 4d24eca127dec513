// Loop: the epochs of a prepared run. It steps, evaluates and says when to save; RunRecord (record_internal.h) writes,
// BatchSteps (batch_steps_internal.h) finds the batches, the Observer hears of it.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "freight/comm/wait_report.h"
#include "freight/train/batch_steps_internal.h"
#include "freight/train/record_internal.h"

namespace freight::train {

class Loop {
 public:
  Loop(NetRun& run, RunRecorder& record, Observer& observer);
  // Trains from where the run stands to its end, or until it is stopped, and stores the model.
  void run();
  // Ends the run after its next step, as an observer can.
  void stop() { asked_.stop = true; }
  // As far as the run has come.
  const Result& result() const { return result_; }

 private:
  using Clock = std::chrono::steady_clock;
  // The part of an epoch that this process trains.
  struct Epoch {
    int64_t number = 0;                         // from 1
    int64_t steps = 0;                          // of the whole epoch
    int64_t batch_before = 0, seen_before = 0;  // place_.batch and place_.seen when this part began
    Clock::time_point began;
    double waited_before = 0;
    std::optional<comm::WaitReport> ranks = {};  // the times that ranks wait for each other; empty for one
  };
  // The training of this process. Its first steps meet fresh memory and are left out of the mean.
  struct Trained {
    int64_t samples = 0, steps = 0;
    double seconds = 0, waited = 0;
    int64_t first_steps = 0;  // one, or a block
    double first_seconds = 0, first_waited = 0;
    double step_seconds() const;
  };

  bool complete() const { return (place_.step >= run_.length.steps && place_.closed) || run_.stops_early(place_); }
  bool unfinished() const { return place_.epoch <= run_.length.epochs && !complete() && !result_.interrupted(); }
  bool stop_asked() const;
  AfterStep after_epoch();
  bool save_asked();
  void stopped();
  bool compute_features();
  void run_epoch();
  void begin_epoch();
  int64_t next_pause() const;
  bool step(int64_t limit);
  void take_in(const std::vector<BatchSteps::Done>& done);
  void change_rate();
  void account(const BatchSteps::Done& done);
  StepReport report() const;
  void close_epoch();
  std::optional<Evaluation> evaluate();
  std::optional<Evaluation> measure(Evaluator& evaluator);
  void judge(EpochReport& e);
  bool take_best();
  void keep_predictions(bool best);
  void keep_predictions();
  void store();
  void checkpoint();
  void show_checkpoint();
  void save_checkpoint(bool best);
  void need_finite();
  void need_some_step() const;
  void gather_left_out();
  [[noreturn]] void diverged(double loss);

  NetRun& run_;
  RunRecorder& record_;
  Observer& observer_;
  BatchSteps steps_;
  RunPosition place_;
  Epoch epoch_;
  Trained trained_;
  Result result_;
  double rate_ = 0;                            // of the last step
  AfterStep asked_;                            // by the observer, and not done yet
  size_t gathered_ = 0;                        // samples left out that all ranks know of
  int64_t finite_at_ = -1;                     // the last step after which need_finite found all well
  Clock::time_point saved_at_ = Clock::now();  // the last checkpoint, or when it was asked for
};

}  // namespace freight::train
