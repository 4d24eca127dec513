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

constexpr int64_t kMostDevices = 64;  // that a command computes on together

// Flags that say how the processes of a job reach each other.
struct JobFlags {
  std::string comm = "auto";                    // --comm
  std::string interface = {}, token_file = {};  // --interface, --token-file
  double comm_timeout = 120;                    // seconds

  comm::JobOptions job() const;
  // The transport of ranks that this process starts, all on this host.
  comm::Transport transport() const;
  // The flags as words for the processes that are started.
  Args words() const;
};
void declare_job(Options& o, JobFlags& f);
// Throws Error(usage) where a command whose processes communicate only through memory of the host is asked for --comm
// nccl.
void refuse_nccl(const JobFlags& flags);

struct RankFlags : JobFlags {
  std::string devices;           // --devices; "": one, which --device names
  std::string overlap = "auto";  // --overlap, of training
  std::string weights;           // --device-weights, of training
  bool shard_optimizer = false;  // --shard-optimizer, of training
  std::string elastic;           // --elastic, of training: "MIN:MAX"; "": the loss of a rank ends the job
};
void declare(Options& o, RankFlags& f);

// The device of a rank that trains by this configuration.
std::string device_of_rank(const train::Config& config, const RankFlags& flags, const comm::Launch& launch);
// The ranks of a net find out whether their devices sum among themselves. All call it together.
void share_devices(train::Ranks& ranks, const std::string& device, const RankFlags& flags);
// The command that goes on with a run on the same devices: "freight train --resume runs/a --devices cpu*2" and `more`.
std::string resume_command(const std::string& run, const RankFlags& flags, const Args& more);

// The number of devices that the flags ask for, or of processes that a launcher started; 1: this process trains alone.
// Throws Error(usage) where the two differ.
int64_t device_count(const RankFlags& flags, const comm::Launch& launch);
// The device of a rank: the list's, or what --device says. Where that is a kind of GPU (auto, cuda) each rank of this
// host gets one of its own. Throws Error(usage) where there are too few.
std::string device_of(const RankFlags& flags, const std::string& device, const comm::Launch& launch);
// The same of a rank alone, without GPUs of its own; --device beside names is refused.
std::string device_of(const RankFlags& flags, const std::string& device, int rank);
// The same of a rank that fits a table with others. They may have GPUs, each one of its own: `cuda` is the GPU of the
// rank's number on its host.
std::string table_device_of(const RankFlags& flags, const std::string& device, const comm::Launch& launch);
// Throws Error(usage) that `flag` names where `shards` (0: there are none) have no part for each of so many devices.
void need_shards(const char* flag, int64_t devices, int64_t shards);
// Throws Error(usage) that `flag` names where a batch or its shards have no part for each of so many devices, or these
// are too many.
void need_parts(const char* flag, int64_t devices, const train::Config& config);
// Throws Error(usage) where --devices names several kinds; `why` goes on behind "need devices of one kind, ".
void need_alike(const RankFlags& flags, const char* why);
// Throws Error(usage) where --device was given beside names in --devices, since one of them would be passed over.
void refuse_two_lists(const RankFlags& flags, const Options& options);
// The number of ranks of this host that compute on this rank's device, or share its memory.
int64_t sharers_of(const RankFlags& flags, const std::string& device, const comm::Launch& launch);

// Says who computes the shards of a run that trains on one processor device. Kernels on a shard are small: threads that
// share each lose more than they gain, processes that share the shards do not, and what is stored has the same bytes
// (docs/several-devices.md).
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
// The same of a command without a folder of its own: what the ranks behind the first print is removed when they have
// ended, and the error has the last line of the rank which failed.
int run_ranks(const std::string& command, const Args& args, const RankFlags& flags, int64_t count);

// Ranks of which none prints here.
struct RanksRan {
  std::string out;  // the standard output of rank 0
  int signal = 0;   // the first signal that this process got and handed on; 0: none
};
// Starts this program with these words as so many ranks and waits for them. All that they print goes to `folder`.
// Throws Error that `what` names, with the last line of the rank which failed.
RanksRan run_ranks_apart(const std::string& what, const Args& words, const JobFlags& flags, int64_t count,
                         const std::string& folder);

// A folder for logs, removed at the end unless it is to be looked at.
class LogFolder {
 public:
  // In `parent`; "": in the system's temporary folder.
  explicit LogFolder(const std::string& command, const std::string& parent = {});
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

// Throws Error(usage) that names two ranks which would share a GPU, unless NCCL_MULTI_RANK_GPU_ENABLE lets them.
void need_own_gpus(train::Ranks& ranks, const std::string& device, const RankFlags& flags = {});
// Has CUDA devices sum among themselves by NCCL where all ranks have one and the library is found; where it is not the
// ranks get a note of it. All ranks call it together. Throws Error(device) where --comm nccl asks for it and it is not
// found, Error(usage) where a rank has another device.
void join_devices(train::Ranks& ranks, const std::string& device, const RankFlags& flags);
// Throws Error(device) where --comm nccl is asked for and this host has no NCCL, Error(usage) where the run would not
// sum by it.
void need_nccl(const RankFlags& flags, const train::Config& config);
// Throws Error(usage) where the flags of a job on `devices` devices do not go with --elastic.
void need_elastic(const RankFlags& flags, const comm::Launch& launch, int64_t devices);

// Meets the others; null where a signal asked to end before they had come. Throws Error(usage, peer_lost).
std::unique_ptr<train::Ranks> join_ranks(const RankFlags& flags, const comm::Launch& launch);

// Throws Error(usage) that names a rank which was started with other arguments, or has another file at the path
// `model`: what all answer together would be of both. All ranks call it together.
void need_same_question(train::Ranks& ranks, const Args& args, const std::string& model);

// Returns what `work` does. Where that throws, the other ranks are told why this one ends, and end with it: they would
// wait for it until they miss it. There are none where `ranks` is null.
template <class Work>
auto with_others(train::Ranks* ranks, const Work& work) {
  try {
    return work();
  } catch (const std::exception& e) {
    if (ranks) ranks->comm().abort(e.what());
    throw;
  }
}

}  // namespace freight::app
