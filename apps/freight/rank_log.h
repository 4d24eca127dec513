// The log of a training rank other than the first; it also records what the rank was doing when it was lost.
#pragma once
#include <string>

#include "freight/comm/launch_environment.h"
#include "freight/train/observer.h"

namespace freight::app {

// Writes the first line of the log of a rank that this command started; the first rank has no log.
void begin_rank_log(const comm::Launch& launch);

class RankLog : public train::Observer {
 public:
  bool wants_step() override { return false; }
  void on_start(const train::RunSummary& summary) override;
  void on_epoch(const train::EpochReport& epoch) override;
  void on_bad_sample(const std::string& path, const std::string& reason) override;

 private:
  // The ranks of another launcher may all print on one terminal.
  bool own_ = comm::read_launch_environment().source == "freight";
};

}  // namespace freight::app
