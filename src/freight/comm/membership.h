// A process of an elastic job: one whose ranks may end and come back while the others go on (launcher.h, Elastic).
// Whenever it changes who is in the job those who are meet anew, and have a Comm of another number of ranks.
//
// A process keeps its number for life, and a process that replaces it has the same. Ranks are numbered from 0 in the
// order in which processes came, so that the first rank stays the first until it ends; then the next one is.
//
// On one host the launcher, which is the parent of all, says who is in the job (roster_membership.cpp). Between hosts
// the processes find out for themselves, so that they outlive the launcher's host (network_membership.cpp).
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "freight/comm/comm.h"
#include "freight/comm/join.h"
#include "freight/comm/launch_environment.h"

namespace freight::comm {

class Membership {
 public:
  // Null where no launcher started this process as one of an elastic job. `options` are for one between hosts.
  static std::unique_ptr<Membership> of_process(const Launch& launch, const JobOptions& options = {});
  // One of those that another launcher started, which go on among themselves where that lets them, down to `least`;
  // whom it starts again with the same variables joins. They meet over a network, at ports from the job's on. Throws
  // Error(usage) where the launcher ends all processes with one, with what to do instead, and where hosts or port are
  // not known.
  static std::unique_ptr<Membership> of_launcher(const Launch& launch, JobOptions options, int least);
  virtual ~Membership() = default;
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  virtual int number() const = 0;
  virtual int most() const = 0;  // processes that the job may have
  // Says what this process was prepared with. Throws Error(usage), here or at the meeting, where program or data are
  // others than those of the rest.
  virtual void need_same(uint64_t identity) = 0;
  // A process that would be the first in the place of another asks this before, where it cannot know whether that one
  // ended or is cut off: false where that one has the job still.
  void ask_before_leading(std::function<bool()> may_lead) { may_lead_ = std::move(may_lead); }
  // Says that this process is prepared, or that it has left its meeting, and returns when it has met those who are in
  // the job by then. Whoever has a Comm of an earlier meeting calls its abort() before, unless all leave it together.
  // Throws Error(peer_lost) that says why where the job goes on no longer.
  virtual std::unique_ptr<Comm> meet(double timeout) = 0;
  // Says who left and who came since all were at a meeting: "rank 2 was killed by signal 9". "" at the first.
  const std::string& events() const { return events_; }
  // Says that this process is at its meeting, with all that it needs to go on.
  virtual void settle() = 0;
  // True where somebody waits to be let in: a meeting is due after the running step.
  virtual bool called() const = 0;
  virtual void did_step() {}
  // Says that the job goes on no longer, to all that are there and that come yet: this process ends with peer_lost.
  virtual void end_job(const std::string& why) = 0;
  // This process ends since it failed, not since it was lost: the job is over by that, which the others learn from
  // it where no launcher of Freight's tells them. Its Comm was aborted before.
  virtual void failed(const std::string& /*why*/) {}

  // True where a rank that was the first before has made what the job leaves, or was about to.
  virtual bool began() const = 0;
  virtual void begin() = 0;
  // This process prints where the launcher does from here on, if that is on its host: the first rank's alone do.
  static void take_terminal();

 protected:
  Membership() = default;
  bool may_lead() const { return !may_lead_ || may_lead_(); }
  std::string events_;

 private:
  std::function<bool()> may_lead_;
};

}  // namespace freight::comm
