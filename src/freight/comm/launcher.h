// Starts the processes of a job on this host and waits for their end. No process outlives the job: when one fails, it
// is named and the others are ended.
#pragma once
#include <string>
#include <vector>

namespace freight::comm {

struct LaunchOptions {
  std::vector<std::string> command;  // program and arguments; a program without a slash is searched in PATH
  int world = 1;                     // processes
  std::string log_dir;               // created if missing; its rank-R.log gets both output streams of rank R
  std::string result = {};           // a file for rank 0's standard output alone; "": the output goes to the log, too
  bool terminal = false;             // rank 0 prints where this process does, both streams, and has no log
  double grace = 5;                  // seconds between asking the remaining processes to end (SIGTERM) and killing them
  // False: ranks may run on all cores. Gloo has a thread of its own in each rank. If that thread and the rank were
  // bound to one core, they would wait for each other's time slices: 4 ms for 1 kB instead of 80 us.
  bool bound = true;
  int threads = 0;  // compute threads of a rank, limited by its share of the cores; 0: as OMP_NUM_THREADS says
  std::vector<std::string> settings = {};  // further variables of each process, NAME=VALUE
  std::vector<int> inherited = {};         // descriptors that it keeps open
  bool append = false;                     // logs are appended to those of an earlier start
  // Seconds after which a stopped process (SIGSTOP) is killed, unless all are stopped; 0: never.
  double most_stopped = 0;
};

struct JobEnd {
  int rank = -1;         // the first rank that failed; -1: none did
  int exit_code = 0;     // its exit code, unless a signal killed it
  int signal = 0;        // the signal that killed it
  bool stopped = false;  // it was killed by the launcher, since it had been stopped for too long
  int forwarded = 0;     // the first signal asking to stop that the launcher received and forwarded; 0: none
  std::string log = {};  // its log file; "" of a rank that has none
  bool failed() const { return rank >= 0; }
};
// Describes the end: "rank 1 was killed by signal 9 (Killed); its log is runs/logs/rank-1.log".
std::string to_string(const JobEnd& end);

// Runs the job and returns when all its processes have ended. Throws Error(usage) where the program cannot be started,
// Error(runtime) where a log cannot be written. One job at a time in a process.
//
// Each process gets FREIGHT_RANK, FREIGHT_WORLD_SIZE, FREIGHT_LOCAL_RANK, FREIGHT_LOCAL_WORLD_SIZE, FREIGHT_JOB, a
// FREIGHT_TOKEN of this job, MASTER_ADDR and MASTER_PORT, an empty standard input, and a process group of its own, so
// that Ctrl-C reaches it once: SIGINT, SIGTERM, SIGHUP and SIGUSR1 are handed on to all. Where there are as many
// processors as ranks each is bound to its share of those that this process may use (of 8 processors 2 ranks get 0 to 3
// and 4 to 7), which its compute threads follow: OMP_NUM_THREADS is set to at most its share, or to 1 if there are
// fewer processors than ranks. The kernel kills the processes when the calling thread ends, however it ends
// (PR_SET_PDEATHSIG).
//
// After a failure the others have a second to end by themselves. The first failure is the one that did not come from
// another: a rank that exits with 7 (peer lost) is named only if none fails in another way within that second.
JobEnd run_job(const LaunchOptions& options);

}  // namespace freight::comm
