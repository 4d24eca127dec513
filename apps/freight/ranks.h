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
#include "freight/train/config.h"
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
// The same of a rank that fits a table with others. They may have GPUs, each one of its own: `cuda` is the GPU of the
// rank's number on its host.
std::string table_device_of(const RankFlags& flags, const std::string& device, const comm::Launch& launch);

// Says who computes the shards of a run that trains on one processor device. Kernels on a shard are small: threads that
// share each lose more than they gain, processes that share the shards do not, and what is stored has the same bytes
// (docs/devices.md).
struct ShardWork {
  int64_t processes = 1, threads = 1;  // threads of each process
  // "--fit auto is for one process as yet": why it is one process although several would be faster; "" where nothing
  // keeps it at one.
  std::string why_one = {};
};
// The one place where that is decided. Several processes are for a net on this host's processors where neither
// --devices nor a launcher has said who computes. `why_one`: the caller's reason for one process; "" where it has none.
ShardWork shard_work(const train::Config& config, const RankFlags& flags, const comm::Launch& launch,
                     const std::string& why_one = {});
// True in a process that was started because of shard_work: all of its job are one device.
bool is_shard_process(const RankFlags& flags, const comm::Launch& launch);
// "8, by 2 processes of 1 thread".
std::string to_string(int64_t shards, const ShardWork& work);
// The exit code by which rank 0 of such processes says, before the run began, that they do not fit the memory: one
// process is to do it then. It is none of the command's.
constexpr int kShardsDoNotFit = 75;

// Starts the ranks of a command and waits for them: rank 0 prints here, the others into `logs`/rank-R.log. Returns the
// exit code, of which rank 0 has said why. Throws Error that names the rank which failed, where it is another.
// `threads`: of each rank; 0: its share of the processors, or what OMP_NUM_THREADS says where that is less.
int run_ranks(const std::string& command, const Args& args, const RankFlags& flags, int64_t count,
              const std::string& logs, int64_t threads = 0);

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
