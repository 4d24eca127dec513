// The launcher's side of an elastic job between hosts. Its processes find out by themselves who is in it
// (network_membership.cpp), and go on where this host is lost; as long as the launcher lives it starts those again that
// were lost.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "freight/comm/launcher.h"
#include "freight/comm/staff_internal.h"

namespace freight::comm {

class HostsCrew final : public Staff {
 public:
  // `hosts`: of each process, by number; `local`: how many of them, the first ones, are here.
  HostsCrew(const std::vector<std::string>& hosts, int local, const Elastic& bounds);

  std::string setting() const override { return setting_; }
  std::vector<int> inherited() const override { return {}; }
  // Process 0 is the first until it is lost; who is then is not known here.
  int first() const override { return people_[0].starts == 1 ? 0 : -1; }
  bool waits() const override;
  void started(int number, pid_t process) override;
  bool ended(int number, int code, int signal) override;
  void stop() override { stopping_ = true; }
  Orders look() override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Person {
    pid_t process = 0;  // that runs; 0: none
    int starts = 0;
    int quick = 0;  // ends in a row of which each came soon after its start
    bool due = false;
    Clock::time_point when;  // it began, or is due
  };
  bool any_runs() const;

  const Elastic bounds_;
  const int local_;
  std::string setting_;
  std::vector<Person> people_;  // by number
  StoppedWatch stopped_;
  bool finishing_ = false, stopping_ = false, over_ = false;
};

}  // namespace freight::comm
