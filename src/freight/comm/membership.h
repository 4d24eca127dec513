// A process of an elastic job: one whose ranks may end and come back while the others go on (launcher.h, Elastic). The
// launcher, which is the parent of all, says who is in it. Whenever that changes those who are meet anew, by the
// meeting of rendezvous.h, and have a Comm of another number of ranks.
//
// A process keeps its number for life, and a process that replaces it has the same. Ranks are numbered from 0 in the
// order in which processes came, so that the first rank stays the first until it ends; then the next one is.
//
// This holds on one host. Between hosts the launcher's table would lie with the host of rank 0, whose door
// (door_internal.h) is what others come to.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "freight/comm/comm.h"
#include "freight/comm/launch_environment.h"

namespace freight::comm {

struct Roster;

class Membership {
 public:
  // Null where no launcher started this process as one of an elastic job.
  static std::unique_ptr<Membership> of_process(const Launch& launch);
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  int number() const { return launch_.rank; }
  int most() const { return launch_.world; }  // processes that the job may have

  // Throws Error(usage) where program or data are others than those of the process that was prepared first.
  void need_same(uint64_t identity) const;
  // Says that this process is prepared, or that it has left its meeting, and returns when it has met those who are in
  // the job by then. Whoever has a Comm of an earlier meeting calls its abort() before, unless all leave it together.
  // Throws Error(peer_lost) that says why where the job goes on no longer.
  std::unique_ptr<Comm> meet(double timeout);
  // Says who left and who came since all were at a meeting: "rank 2 was killed by signal 9". "" at the first.
  const std::string& events() const { return events_; }
  // Says that this process is at its meeting, with all that it needs to go on.
  void settle();
  // True where somebody waits to be let in: a meeting is due after the running step.
  bool called() const;
  void did_step();

  // True where a rank that was the first before has made what the job leaves, or was about to.
  bool began() const;
  void begin();
  // This process prints where the launcher does from here on: the first rank's alone do.
  static void take_terminal();

 private:
  Membership(const Launch& launch, Roster* roster, int bell);
  struct List;
  List await();
  bool doomed() const;
  void ring() const;

  const Launch launch_;
  Roster* const roster_;
  const int bell_;
  uint32_t generation_ = 0;
  std::string events_;
};

}  // namespace freight::comm
