// The launcher's side of an elastic job: who is in it, who is to be started again, who has stopped and is given up. It
// writes the table of roster_internal.h and starts and kills nobody itself: that is the launcher's (launcher.cpp).
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "freight/comm/launcher.h"
#include "freight/comm/process_internal.h"
#include "freight/comm/roster_internal.h"

namespace freight::comm {

class Crew {
 public:
  Crew(int processes, const Elastic& bounds);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  int table() const { return table_.get(); }
  int bell() const { return bell_.get(); }  // readable when a process has said something
  // The process that is the first rank; -1 before the first meeting.
  int first() const { return order_.empty() || generation_ == 0 ? -1 : order_[0]; }
  // True while somebody is to be started, so that a job without a process is not over.
  bool waits() const;

  // Is called before the process is there, which may be prepared before the launcher goes on.
  void clear_seat(int number);
  void started(int number, pid_t process);
  // Takes in that a process has ended. False: the job is over by that.
  bool ended(int number, int code, int signal);
  // The job was asked to end: nobody is started any more.
  void stop() { stopping_ = true; }
  // The job is over, by something else.
  void give_up(const std::string& why);

  struct Orders {
    std::vector<int> start, kill;
  };
  // Is asked when the bell rang, a process ended or was started, and ten times a second.
  Orders look();

 private:
  using Clock = std::chrono::steady_clock;
  enum class State : uint8_t { gone, due, starting, ready, member };
  struct Person {
    State state = State::gone;
    pid_t process = 0;
    int stopped = 0;            // looks in a row at which it was
    int quick = 0;              // ends in a row of which each came soon after its start
    std::string given_up = {};  // why it is killed
    Clock::time_point when;     // it is due
  };

  RosterSeat& seat(int number) const { return roster_->seats[static_cast<size_t>(number)]; }
  Person& person(int number) { return people_[static_cast<size_t>(number)]; }
  int count(State state) const;
  bool all_have_met() const;
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
  Clock::time_point looked_ = Clock::now();
};

}  // namespace freight::comm
