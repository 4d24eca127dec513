// Commands on several devices: `freight train --devices` starts a process for each, which is the same command again;
// started by another launcher (torchrun, srun, mpirun) the command is one of them.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "command.h"
#include "freight/base/error.h"
#include "freight/comm/join.h"
#include "freight/comm/launch_environment.h"
#include "freight/comm/launcher.h"
#include "freight/train/ranks.h"
#include "options.h"

namespace freight::app {

// Flags that say on which hosts the processes of a job are, and how they reach each other.
struct JobFlags {
  std::string hosts;                            // --hosts; "": this one
  std::string comm = "auto";                    // --comm
  std::string interface = {}, token_file = {};  // --interface, --token-file
  double comm_timeout = 120;                    // seconds

  comm::JobOptions job() const;
  // The engine of ranks that this process starts.
  comm::Engine engine() const;
};
void declare_job(Options& o, JobFlags& f);

struct RankFlags : JobFlags {
  std::string devices;           // --devices; "": one, which --device names
  std::string overlap = "auto";  // --overlap, of training
};
void declare(Options& o, RankFlags& f);

// The number of devices that the flags ask for, or of processes that a launcher started; 1: this process trains alone.
// Throws Error(usage) where the two differ.
int64_t device_count(const RankFlags& flags, const comm::Launch& launch);
// The device of a rank; `device`, which --device says, where the flags name none. Throws Error(usage).
std::string device_of(const RankFlags& flags, const std::string& device, int rank);

// Starts the ranks of a command and waits for them: rank 0 prints here, the others into `logs`/rank-R.log. Returns the
// exit code, of which rank 0 has said why. Throws Error that names the rank which failed, where it is another.
int run_ranks(const std::string& command, const Args& args, const RankFlags& flags, int64_t count,
              const std::string& logs);

// A folder for logs, removed at the end unless it is to be looked at.
class LogFolder {
 public:
  explicit LogFolder(const std::string& command);
  ~LogFolder();
  LogFolder(const LogFolder&) = delete;
  LogFolder& operator=(const LogFolder&) = delete;
  const std::string& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  std::string path_;
  bool kept_ = false;
};
// The last line that a rank printed, without the mark of an error.
std::string last_line(const std::string& log);
// The kind of error that the end of a job is.
ErrorKind kind_of(const comm::JobEnd& end);

// Meets the others. Throws Error(usage, peer_lost).
std::unique_ptr<train::Ranks> join_ranks(const RankFlags& flags, const comm::Launch& launch);

}  // namespace freight::app
