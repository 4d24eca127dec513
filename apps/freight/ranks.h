// Commands on several devices: `freight train --devices` starts a process for each, which runs the same command again.
// Under another launcher (torchrun, srun, mpirun) the command is one of these processes.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "command.h"
#include "freight/base/error.h"
#include "freight/comm/join.h"
#include "freight/comm/launch_environment.h"
#include "freight/comm/launcher.h"
#include "freight/job/ranks.h"
#include "freight/train/config.h"
#include "options.h"

namespace freight::app {

constexpr int64_t kMostDevices = 64;  // for one command

// The flags for the communication between the processes of a job.
struct JobFlags {
  std::string comm = "auto";                    // --comm
  std::string interface = {}, token_file = {};  // --interface, --token-file
  double comm_timeout = 120;                    // seconds

  comm::JobOptions job() const;
  // The transport of ranks that this process starts, all on this host.
  comm::Transport transport() const;
  // The flags as arguments of the started processes.
  Args words() const;
};
void declare_job(Options& o, JobFlags& f);
// Throws Error(usage) for --comm nccl, for commands whose processes communicate only through host memory.
void refuse_nccl(const JobFlags& flags);

struct RankFlags : JobFlags {
  std::string devices;           // --devices; "": the one of --device
  std::string overlap = "auto";  // --overlap, of training
  std::string weights;           // --device-weights, of training
  bool shard_optimizer = false;  // --shard-optimizer, of training
  std::string elastic;           // --elastic, of training: "MIN:MAX"; "": the loss of a rank ends the job
};
void declare(Options& o, RankFlags& f);

// Lets the ranks of a network determine whether their devices sum among themselves. All call it together.
void share_devices(job::Ranks& ranks, const std::string& device, const RankFlags& flags);
// The command that resumes a run on the same devices: "freight train --resume runs/a --devices cpu*2" and `more`.
std::string resume_command(const std::string& run, const RankFlags& flags, const Args& more);

// The number of devices in the flags, or of processes that a launcher started; 1: this process trains alone. Throws
// Error(usage) if the two differ.
int64_t device_count(const RankFlags& flags, const comm::Launch& launch);
// The device of a rank: from the list, or --device. If that is a kind of GPU (auto, cuda) each rank of this host gets
// its own. Throws Error(usage) if there are too few.
std::string device_of(const RankFlags& flags, const std::string& device, const comm::Launch& launch);
// The device of a single rank that gets no GPU assigned; --device together with names is refused.
std::string device_of(const RankFlags& flags, const std::string& device, int rank);
// The device of a rank that fits a table with others. Each may have its own GPU: `cuda` is the GPU with the rank's
// number on its host.
std::string table_device_of(const RankFlags& flags, const std::string& device, const comm::Launch& launch);
// Throws Error(usage) that names `flag` if a launcher started another number of processes than it asks for.
void need_started(const char* flag, const std::string& asked, const comm::Launch& launch);
// Throws Error(usage) that names `flag` if there are fewer `shards` than devices (0: no shards).
void need_shards(const char* flag, int64_t devices, int64_t shards);
// Throws Error(usage) that names `flag` if a batch has fewer samples than there are devices.
void need_samples(const char* flag, int64_t devices, int64_t batch);
// Throws Error(usage) that names `flag` if a batch or its shards have fewer parts than there are devices, or there are
// too many devices.
void need_parts(const char* flag, int64_t devices, const train::Config& config);
// Throws Error(usage) if --devices names several kinds; `why` completes "need devices of one kind, ".
void need_alike(const RankFlags& flags, const char* why);
// Throws Error(usage) if --device was given together with names in --devices, one of which would be ignored.
void refuse_two_lists(const RankFlags& flags, const Options& options);
// The number of ranks of this host that compute on this rank's device, or share its memory.
int64_t sharers_of(const RankFlags& flags, const std::string& device, const comm::Launch& launch);

// The processes that compute the shards of a run on one CPU. Kernels on a shard are small: threads that share each
// lose more than they gain, but processes that share the shards do not, and the saved model has the same bytes
// (docs/several-devices.md).
struct ShardWork {
  int64_t processes = 1, threads = 1;  // `threads` of each process
  // Why it is one process although several would be faster: "--fit auto is for one process as yet"; "" if there is no
  // such reason.
  std::string why_one = {};
};
// The only place where that is decided. Several processes are used for a network on this host's CPU if neither
// --devices nor a launcher determines who computes. `why_one`: the caller's reason for one process; "" if there is
// none.
ShardWork shard_work(const train::Config& config, const data::Source& source, const RankFlags& flags,
                     const comm::Launch& launch, const std::string& why_one = {});
// True in a process that was started because of shard_work: all processes of its job are one device.
bool is_shard_process(const RankFlags& flags, const comm::Launch& launch);
// Describes it: "8, by 2 processes of 1 thread".
std::string to_string(int64_t shards, const ShardWork& work);
// The exit code of rank 0 of such processes if they do not fit the memory, before the run began: then one process
// trains. The command itself never exits with it.
constexpr int kShardsDoNotFit = 75;

// Starts the ranks of a command and waits for them: rank 0 prints here, the others into `logs`/rank-R.log. Returns the
// exit code if rank 0 failed, which has printed its error; throws Error that names the rank if another failed.
// `threads`: of each rank; 0: its share of the processors, or what OMP_NUM_THREADS says where that is less.
int run_ranks(const std::string& command, const Args& args, const RankFlags& flags, int64_t count,
              const std::string& logs, int64_t threads = 0);
// Runs the ranks of a command without its own folder: the output of all ranks but the first is removed when they have
// ended, and an error has the last line of the rank which failed.
int run_ranks(const std::string& command, const Args& args, const RankFlags& flags, int64_t count);

// Starts another program as ranks. `logs` "": a folder that is removed at the end, where an error has the last line of
// the rank which failed. The exit code and errors are as above.
int run_program(const Args& program, int64_t count, const std::string& logs);

// Ranks that all print to logs.
struct RanksRan {
  std::string out;  // the standard output of rank 0
  int signal = 0;   // the first signal that this process received and forwarded; 0: none
};
// Starts this program with these arguments as several ranks and waits for them. All their output goes to `folder`.
// Throws Error that names `what`, with the last line of the rank which failed.
RanksRan run_ranks_apart(const std::string& what, const Args& words, const JobFlags& flags, int64_t count,
                         const std::string& folder);

// A folder for logs, which is removed at the end unless it is to be inspected.
class LogFolder {
 public:
  // `parent` "": in the system's temporary folder.
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
// The last line that a rank printed, without the prefix of errors.
std::string last_line(const std::string& log);
// The kind of error for the end of a job.
ErrorKind kind_of(const comm::JobEnd& end);

// Throws Error(usage) that names two ranks which would share a GPU, unless NCCL_MULTI_RANK_GPU_ENABLE allows it.
void need_own_gpus(job::Ranks& ranks, const std::string& device, const RankFlags& flags = {});
// Lets CUDA devices sum among themselves by NCCL if all ranks have one and the library is found; otherwise the ranks
// get a note. All ranks call it together. Throws Error(device) if --comm nccl requests it and it is not found, and
// Error(usage) if a rank has another device.
void join_devices(job::Ranks& ranks, const std::string& device, const RankFlags& flags);
// Throws Error(device) if --comm nccl is requested and this host has no NCCL, and Error(usage) if the run would not sum
// by it.
void need_nccl(const RankFlags& flags, const train::Config& config);
// Throws Error(usage) if the flags of a job on `devices` devices cannot be combined with --elastic.
void need_elastic(const RankFlags& flags, const comm::Launch& launch, int64_t devices);

// Joins the other ranks; null if a signal asked to end before they had joined. Throws Error(usage, peer_lost).
std::unique_ptr<job::Ranks> join_ranks(const RankFlags& flags, const comm::Launch& launch);

// Throws Error(usage) that names a rank which was started with other arguments, or has another file at the path
// `model`: the result would be a mixture of both. All ranks call it together.
void need_same_question(job::Ranks& ranks, const Args& args, const std::string& model);

// Returns the result of `work`. If it throws, the other ranks are told the reason, and end, too, instead of waiting for
// this one. `ranks` is null without other ranks.
template <class Work>
auto with_others(job::Ranks* ranks, const Work& work) {
  try {
    return work();
  } catch (const std::exception& e) {
    if (ranks) ranks->comm().abort(e.what());
    throw;
  }
}

}  // namespace freight::app
