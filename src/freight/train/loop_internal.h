// Loop: the epochs of a prepared run. It steps, evaluates and says when to save; RunRecord (record_internal.h) writes,
// elastic_loop.cpp goes on where processes of the run are lost or come, BatchSteps (batch_steps_internal.h) finds the
// batches, the Observer hears of it.
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
  Loop(NetRun& run, RunRecord& record, Observer& observer);
  // Trains from where the run stands to its end, or until it is stopped, and stores the model.
  void run();
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
    // Watches who waits for whom, of several. It is empty where ranks met anew in this epoch: a process that came has
    // caches and memory to fill, and holds up the others without being slow.
    std::optional<comm::WaitReport> ranks = {};
    bool told = false;  // the row of its training is written
  };
  // The training of this process. Its first steps meet fresh memory and are left out of the mean.
  struct Trained {
    int64_t samples = 0, steps = 0;
    double seconds = 0, waited = 0;
    int64_t first_steps = 0;  // one, or a block
    double first_seconds = 0, first_waited = 0;
    double step_seconds() const;
  };

  bool complete() const { return place_.step >= run_.length.steps && place_.closed; }
  bool unfinished() const { return place_.epoch <= run_.length.epochs && !complete() && !result_.interrupted(); }
  bool meeting_due() const { return run_.ranks && run_.ranks->agreed().meeting > 0 && !result_.interrupted(); }
  void run_elastic();
  void leave_meeting();
  void keep_what_is_left();
  void take_in();
  // Each rank says this when they have met; one that has no state yet stands at step -1.
  struct Standing {
    double step = -1;
    double updated = 0;  // 1: it has made weights of the next step, and not got all
    double writes = 0;   // 1: it has the run's directory
    double mixed = 0;    // 1: it took over the state of a run that is under way, and was interrupted
  };
  std::vector<Standing> gather_standings();
  void settle_states(const std::vector<Standing>& all, int furthest);
  void follow(int root, bool behind);
  void share_state(const std::vector<Standing>& all, int furthest);
  [[noreturn]] void give_up(const std::string& why);
  void lead();
  void tell_who_left();
  bool stop_asked() const;
  void stopped();
  void run_epoch();
  void take_last_rate();  // of the place where it stands
  void begin_epoch();
  int64_t next_pause() const;
  bool step(int64_t limit);
  void take_in(const std::vector<BatchSteps::Done>& done);
  void change_rate();
  void account(const BatchSteps::Done& done);
  StepReport report() const;
  void close_epoch();
  std::optional<Evaluation> evaluate();
  void store();
  void checkpoint(bool best = false);
  void need_finite();
  void need_some_step() const;
  void gather_left_out();
  [[noreturn]] void diverged(double loss);

  NetRun& run_;
  RunRecord& record_;
  Observer& observer_;
  BatchSteps steps_;
  RunPosition place_;
  Epoch epoch_;
  Trained trained_;
  Result result_;
  double rate_ = 0;         // of the last step
  AfterStep asked_;         // by the observer, and not done yet
  size_t gathered_ = 0;     // samples left out that all ranks know of
  int64_t finite_at_ = -1;  // the last step after which need_finite found all well

  // An elastic run may go back to what stood before the end of an epoch, and keeps the last epoch that ended.
  RunPosition before_close_;
  Trained trained_before_;
  Epoch closed_;
  bool closing_ = false;
  bool mixed_ = false, over_ = false;            // see Standing; the run was given up
  bool known_ = false;                           // the state is that of the run, which the others had handed over
  int64_t begun_at_ = 0;                         // steps that were done when the job began, by a run that goes on
  Clock::time_point counted_at_ = Clock::now();  // the last step was
};

}  // namespace freight::train
