// The launcher's side of an elastic job on one host: who is in it, who is to be started again, who has stopped and is
// given up. It writes the table of roster_internal.h.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "freight/comm/launcher.h"
#include "freight/comm/process_internal.h"
#include "freight/comm/roster_internal.h"
#include "freight/comm/staff_internal.h"

namespace freight::comm {

class Crew final : public Staff {
 public:
  Crew(int processes, const Elastic& bounds);
  ~Crew() override;

  std::string setting() const override;
  std::vector<int> inherited() const override { return {table_.get(), bell_.get()}; }
  int bell() const override { return bell_.get(); }
  // -1 before the first meeting.
  int first() const override { return order_.empty() || generation_ == 0 ? -1 : order_[0]; }
  bool waits() const override;

  void clear_seat(int number) override;
  void started(int number, pid_t process) override;
  bool ended(int number, int code, int signal) override;
  void stop() override { stopping_ = true; }
  Orders look() override;

 private:
  using Clock = std::chrono::steady_clock;
  enum class State : uint8_t { gone, due, starting, ready, member };
  struct Person {
    State state = State::gone;
    pid_t process = 0;
    int quick = 0;              // ends in a row of which each came soon after its start
    std::string given_up = {};  // why it is killed
    Clock::time_point when;     // it is due
  };

  RosterSeat& seat(int number) const { return roster_->seats[static_cast<size_t>(number)]; }
  Person& person(int number) { return people_[static_cast<size_t>(number)]; }
  int count(State state) const;
  bool all_have_met() const;
  void give_up(const std::string& why);
  void hear();
  void tell(const std::string& event);
  void publish(bool broken);
  bool lost(int number, const std::string& how);
  void start_again(int number);
  void let_in();
  void look_for_stopped(Orders& orders);
  void look_for_missing(Orders& orders);

  const Elastic bounds_;
  Descriptor table_, bell_;
  Roster* roster_ = nullptr;
  std::vector<Person> people_;  // by number
  std::vector<int> order_;      // members, by rank
  uint32_t generation_ = 0;
  std::string events_;
  int last_first_ = -1;  // the first rank when members had begun to end well, until it has done so, too
  bool finishing_ = false, stopping_ = false, over_ = false;
  Clock::time_point missing_since_;  // somebody waits for the rest at a meeting
  bool missing_ = false;
  StoppedWatch stopped_;
};

}  // namespace freight::comm
