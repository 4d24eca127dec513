// Starts the processes of a job on this host and waits for their end: nothing of the job outlives it, and when one
// process fails, that one is named and the others are ended.
#pragma once
#include <string>
#include <vector>

namespace freight::comm {

struct LaunchOptions {
  std::vector<std::string> command;  // program and arguments; the program is looked for in PATH where it has no slash
  int world = 1;                     // processes
  std::string log_dir;               // made where it is missing; rank-R.log in it gets what rank R prints, both streams
  std::string result = {};           // a file for rank 0's standard output alone; "": it goes to the log, too
  bool terminal = false;             // rank 0 prints where this process does, both streams, and has no log
  double grace = 5;                  // seconds between asking those that are left to end (SIGTERM) and killing them
  // False: ranks may run on all processors. Gloo has a thread of its own in a rank. Where that and the rank are bound
  // to one processor, they wait for each other's time slices: 4 ms for 1 kB in place of 80 us.
  bool bound = true;
  int threads = 0;  // compute threads of a rank, where its share of the processors has them; 0: OMP_NUM_THREADS says it
  std::vector<std::string> settings = {};  // further variables of each process, NAME=VALUE
  std::vector<int> inherited = {};         // descriptors that it keeps open
  bool append = false;                     // logs go on behind those of an earlier start
  // Seconds after which a process that is stopped (SIGSTOP) is killed, unless all are stopped; 0: none is.
  double most_stopped = 0;
};

struct JobEnd {
  int rank = -1;         // the first that failed; -1: none did
  int exit_code = 0;     // its exit code, or
  int signal = 0;        // the signal that killed it
  bool stopped = false;  // it was killed here, since it was stopped for too long
  int forwarded = 0;     // the first signal that asks to stop which the launcher got and handed on; 0: none
  std::string log = {};  // its log file; "" of a rank that has none
  bool failed() const { return rank >= 0; }
};
// "rank 1 was killed by signal 9 (Killed); its log is runs/logs/rank-1.log".
std::string to_string(const JobEnd& end);

// Runs the job and returns when all its processes have ended. Throws Error(usage) where the program cannot be started,
// Error(runtime) where a log cannot be written. One job at a time in a process.
//
// Each process gets FREIGHT_RANK, FREIGHT_WORLD_SIZE, FREIGHT_LOCAL_RANK, FREIGHT_LOCAL_WORLD_SIZE, FREIGHT_JOB, a
// FREIGHT_TOKEN of this job, MASTER_ADDR and MASTER_PORT, an empty standard input, and a process group of its own, so
// that Ctrl-C reaches it once: SIGINT, SIGTERM, SIGHUP and SIGUSR1 are handed on to all. Where there are as many
// processors as ranks each is bound to its share of those that this process may use (of 8 processors 2 ranks get 0 to 3
// and 4 to 7), which its compute threads follow: OMP_NUM_THREADS says no more than its share, which is one where there
// are fewer processors than ranks. Processes are killed by the system when the thread that called this ends in whatever
// way.
//
// After a failure the others have a second to end by themselves. The first failure is the one that did not come from
// another: a rank that exits with 7 (peer lost) is named only if none fails in another way within that second.
JobEnd run_job(const LaunchOptions& options);

}  // namespace freight::comm
