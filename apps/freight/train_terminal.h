// Shows a run of `freight train` on the terminal, and writes the same lines to the run's log.txt, except the progress
// line. With --quiet only the log has the lines. Progress goes to stderr, the result to stdout.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "freight/base/device_memory.h"
#include "freight/job/supervisor.h"
#include "freight/plan/energy.h"
#include "freight/plan/fitting.h"
#include "freight/train/observer.h"
#include "freight/train/progress.h"

namespace freight::app {

class Terminal : public train::Observer {
 public:
  struct Shown {
    bool quiet = false, progress = true;  // --quiet, --progress
  };
  explicit Terminal(const Shown& shown);
  ~Terminal() override;
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  bool keeps_log() const override { return true; }
  void on_start(const train::RunSummary& s) override;
  bool wants_step() override {
    energy_.poll();
    return steps_done || progress_.due();
  }
  train::AfterStep on_step(const train::StepReport& r) override;
  void on_evaluation_progress(int64_t done, int64_t total) override;
  void on_bad_sample(const std::string& path, const std::string& reason) override;
  train::AfterStep on_comparison(const std::string& what) override;
  void on_compared(const train::Comparison& comparison) override;
  void on_epoch(const train::EpochReport& e) override;
  train::Figures figures(const train::Result& result) override;

  // Shows a line and logs it.
  void say(const std::string& text);
  // Shows what the run took, compared with the plan; run.json has the figures.
  void compare(const std::string& output_dir);
  // The result on stdout: the metrics reached, and commands that use the model; for a run that was stopped `resume`,
  // the command that resumes it.
  void print(const train::Result& result, const std::string& resume);
  void print_json(const train::Result& result);

  std::string plugin_flags, data_flags;  // " --plugin FILE", " --data-dir DIR": needed by commands on the saved model
  std::string offload, shards;           // lines of the start block; "": not shown
  bool logs = true;                      // false: a dry run has no log
  bool one_device = false;               // all processes of the run share one device
  std::unique_ptr<job::StepCount> steps_done;  // where the supervisor counts the run's steps, or null
  plan::Outcome outcome;                       // the planned figures of the run, and the measured ones when it is over
  int64_t resident_before = 0;                 // bytes of this process before the run
  std::shared_ptr<DeviceMemory> device;
  size_t free_before = 0;  // of the device's memory

 private:
  void say_net(const train::RunSummary& s);
  // Logs a line, and shows it unless --quiet.
  void print(const std::string& text);
  // Logs a line of the result, and prints it.
  void result(const std::string& text);
  void begin_log(const std::string& dir);
  void log(const std::string& line);
  void update(const std::string& text);
  void look_at_device();
  std::string counted(int64_t n) const;
  // Rounds of a regression show the root of their mean squared error, which has the unit of the target.
  const char* loss_name() const { return squared_ ? "rmse" : "loss"; }
  double shown_loss(double loss) const;
  bool tokens() const { return rate_ == "tok/s"; }  // for a language model

  plan::EnergyMeter energy_;  // since this object was made
  std::mutex log_mutex_;
  std::string log_dir_;             // "": the directory does not exist yet
  std::vector<std::string> early_;  // lines until it does
  double device_peak_ = 0;
  bool quiet_, steps_ = true;                   // a network, whose steps are planned
  bool squared_ = false;                        // a regression on a table
  int64_t starred_epoch_ = 0, last_epoch_ = 0;  // marked as the best so far; done
  std::string metric_name_, example_, sample_set_, pass_ = "epoch", held_out_ = "test";
  bool test_apart_ = false;
  std::string rate_ = "img/s";
  Progress progress_;
};

}  // namespace freight::app
