// The launcher's side of an elastic job: who is started again, and who is given up. It starts and kills nobody itself:
// that is the launcher's (launcher.cpp). On one host it says who is in the job, too (crew_internal.h); between hosts
// the processes do (hosts_crew_internal.h).
#pragma once
#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "freight/comm/launcher.h"

namespace freight::comm {

class Staff {
 public:
  Staff() = default;
  virtual ~Staff() = default;
  Staff(const Staff&) = delete;
  Staff& operator=(const Staff&) = delete;

  virtual std::string setting() const = 0;         // FREIGHT_ELASTIC's, of the processes
  virtual std::vector<int> inherited() const = 0;  // descriptors that they need for it
  virtual int bell() const { return -1; }          // readable when a process has said something
  // The process that is the first rank, as far as that is known here; -1: nobody is.
  virtual int first() const = 0;
  // True while somebody is to be started, so that a job without a process is not over.
  virtual bool waits() const = 0;
  // Is called before the process is there, which may be prepared before the launcher goes on.
  virtual void clear_seat(int) {}
  virtual void started(int number, pid_t process) = 0;
  // Takes in that a process has ended. False: the job is over by that.
  virtual bool ended(int number, int code, int signal) = 0;
  // The job was asked to end: nobody is started any more.
  virtual void stop() = 0;

  struct Orders {
    std::vector<int> start, kill;
  };
  // Is asked when the bell rang, a process ended or was started, and ten times a second.
  virtual Orders look() = 0;
};

// Throws Error(usage) where no job of so many processes can keep to the bounds.
void need_bounds(const Elastic& bounds, int processes);
// When a process is to be started again that ended now, soon after its start so many times in a row. The first time it
// is at once; what ends of itself whenever it comes would cost the others a meeting each time.
std::chrono::steady_clock::time_point time_of_start(int quick_ends);

// Finds processes of this host that are stopped. They are given up: what they hold, a lock for one, is free then, and
// they change nothing any more should they go on. Where all are stopped somebody wants the whole job to rest.
class StoppedWatch {
 public:
  explicit StoppedWatch(int processes) : looks_(static_cast<size_t>(processes)) {}
  void forget(int number) { looks_[static_cast<size_t>(number)] = 0; }
  // Tells which have been stopped for long enough. `processes`: by number; 0: there is none here.
  std::vector<int> look(const std::vector<pid_t>& processes);

 private:
  std::vector<int> looks_;  // in a row at which it was
  std::chrono::steady_clock::time_point looked_ = std::chrono::steady_clock::now();
};

}  // namespace freight::comm
