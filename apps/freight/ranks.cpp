// See ranks.h.
#include "ranks.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "device_list.h"
#include "freight/backend/backend.h"
#include "freight/backend/gpu/cuda/cuda.h"
#include "freight/backend/gpu/cuda/nccl.h"
#include "freight/base/cpu_info.h"
#include "freight/base/env.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "freight/base/usage.h"
#include "freight/comm/join.h"
#include "freight/io/digest.h"
#include "freight/io/file.h"
#include "freight/job/signals.h"
#include "freight/job/supervisor.h"
#include "freight/trace/device.h"
#include "freight/train/checkpoint.h"
#include "freight/train/learner.h"
#include "freight/train/run_dir.h"

namespace freight::app {

namespace {

std::string kind_of_device(const std::string& name) { return name.substr(0, name.find(':')); }

// Throws Error(usage) if the list names a GPU of this host twice.
void need_gpus_once(const RankFlags& flags) {
  std::vector<std::string> gpus;
  for (const std::string& name : parse_device_list("--devices", flags.devices).names) {
    if (kind_of_device(name) == "cuda") gpus.push_back(name);
  }
  std::sort(gpus.begin(), gpus.end());
  const auto twice = std::adjacent_find(gpus.begin(), gpus.end());
  if (twice != gpus.end()) refuse_value("--devices", flags.devices, cat(*twice, " takes one process"));
}

int64_t count_of(const DeviceList& list) { return list.count.value_or(static_cast<int64_t>(list.names.size())); }

}  // namespace

void declare_job(Options& o, JobFlags& f) {
  o.add("--comm", &f.comm,
        "what moves the data: shared (memory of one host), gloo (network), nccl (sums between CUDA devices), or auto: "
        "the last if available, else one of the first two",
        {.value = "NAME", .aliases = {"--engine"}});
  o.add("--interface", &f.interface, "network interface for gloo, by name or address", {.value = "NAME"});
  o.add("--token-file", &f.token_file, "file with the secret that authenticates processes of several hosts",
        {.value = "FILE"});
  o.add("--comm-timeout", &f.comm_timeout, "seconds after which a process that does not respond counts as failed",
        {.min = 0.1, .max = 86400});
}

void declare(Options& o, RankFlags& f) {
  o.group("Several devices (docs/several-devices.md)");
  o.add("--devices", &f.devices, "data-parallel devices, one process each: cpu*2, a list, all, or a count of --device",
        {.value = "LIST"});
  declare_job(o, f);
}

comm::JobOptions JobFlags::job() const {
  return {.timeout = comm_timeout,
          .transport = comm::parse_transport("--comm", comm),
          .interface = interface,
          .token_file = token_file};
}

comm::Transport JobFlags::transport() const { return comm::transport_for(comm::Launch{}, job()); }

int64_t device_count(const RankFlags& flags, const comm::Launch& launch) {
  if (flags.devices.empty()) return launch.world;
  const int64_t count = count_of(parse_device_list("--devices", flags.devices));
  need_between("--devices", "devices", static_cast<double>(count), 1, static_cast<double>(kMostDevices));
  if (!launch.source.empty()) need_started("--devices", cat(count), launch);
  return count;
}

std::string device_of(const RankFlags& flags, const std::string& device, const comm::Launch& launch) {
  if (!flags.devices.empty()) {
    const DeviceList list = parse_device_list("--devices", flags.devices);
    if (!list.count) return list.names.at(static_cast<size_t>(launch.rank));
  }
  if (launch.local_world < 2 || (device != "auto" && device != "cuda")) return device;
  const std::string& name = *trace::device_named(device);
  if (!starts_with(name, "cuda:")) return device;
  const CudaDevices cuda = cuda_devices();
  const auto works = [](const CudaDevice& d) { return d.why_not.empty(); };
  const auto here = static_cast<int>(std::count_if(cuda.devices.begin(), cuda.devices.end(), works));
  // A launcher has made only its own GPU visible to each rank; otherwise need_own_gpus reports it.
  if (here == 1) return name;
  if (launch.local_rank < here) return cat("cuda:", launch.local_rank);
  fail(ErrorKind::usage, "--devices", "got ", launch.local_world, " ranks on this host, which has ", here, " GPUs");
}

namespace {
// --devices may name the devices; --device would be ignored then.
void refuse_device_beside_names(const std::string& device, bool given, const RankFlags& flags) {
  excludes({cat("--device", device.empty() ? "" : " ", device), given}, {cat("--devices ", flags.devices), true},
           "it names the devices");
}
}  // namespace

std::string device_of(const RankFlags& flags, const std::string& device, int rank) {
  comm::Launch launch;
  launch.rank = rank;
  const std::string name = device_of(flags, device, launch);
  refuse_device_beside_names(device, device != "auto" && device != name, flags);
  return name;
}

void need_started(const char* flag, const std::string& asked, const comm::Launch& launch) {
  if (asked == cat(launch.world)) return;
  refuse_value(flag, asked, cat(launch.source, " started ", launch.world, " processes, remove it"));
}

void need_shards(const char* flag, int64_t devices, int64_t shards) {
  if (shards == 0) return;
  need_part_for_each(flag, {.devices = devices,
                            .parts = shards,
                            .of = cat(shards, " shards"),
                            .fix = cat("use --shards ", devices, " or fewer devices")});
}

void need_samples(const char* flag, int64_t devices, int64_t batch) {
  need_part_for_each(flag, {.devices = devices,
                            .parts = batch,
                            .of = cat("a batch of ", batch),
                            .fix = "expected a sample for each, use a larger --batch-size"});
}

void need_parts(const char* flag, int64_t devices, const train::Config& config) {
  need_between(flag, "devices", static_cast<double>(devices), 1, static_cast<double>(kMostDevices));
  need_shards(flag, devices, config.shards);
  need_samples(flag, devices, config.batch_size);
}

void need_alike(const RankFlags& flags, const char* why) {
  if (flags.devices.empty()) return;
  const std::vector<std::string> names = parse_device_list("--devices", flags.devices).names;
  for (const std::string& name : names) {
    if (kind_of_device(name) == kind_of_device(names[0])) continue;
    refuse_value("--devices", flags.devices, cat("expected devices of one kind, ", why));
  }
}

void refuse_two_lists(const RankFlags& flags, const Options& options) {
  if (flags.devices.empty() || parse_device_list("--devices", flags.devices).count) return;
  refuse_device_beside_names({}, options.given_as_flag("--device"), flags);
}

int64_t sharers_of(const RankFlags& flags, const std::string& device, const comm::Launch& launch) {
  const auto all = static_cast<int64_t>(launch.local_world);
  if (flags.devices.empty()) return all;
  const DeviceList list = parse_device_list("--devices", flags.devices);
  if (list.count) return all;
  const auto alike = std::count(list.names.begin(), list.names.end(), device);
  return std::clamp<int64_t>(alike, 1, all);
}

void need_own_gpus(job::Ranks& ranks, const std::string& device, const RankFlags& flags) {
  const bool nccl = comm::requested_transport(flags.job()) == comm::Transport::nccl;
  if (nccl && env::get("NCCL_MULTI_RANK_GPU_ENABLE") == "1") return;
  std::string mine;
  if (starts_with(device, "cuda")) {
    const std::string& name = *trace::device_named(device);
    const CudaDevices cuda = cuda_devices();
    const uint64_t number = parse_number<uint64_t>(name.substr(std::strlen("cuda:"))).value_or(0);
    if (number < cuda.devices.size()) mine = cuda.devices[number].uuid;
  }
  const std::vector<std::string> all = ranks.from_all(mine);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto other = std::find(all.begin() + static_cast<int64_t>(i) + 1, all.end(), all[i]);
    if (all[i].empty() || other == all.end()) continue;
    fail(ErrorKind::usage, "--devices", "ranks ", i, " and ", other - all.begin(), " have the same GPU, ", all[i],
         ": expected one for each");
  }
}

void need_nccl(const RankFlags& flags, const train::Config& config) {
  if (comm::requested_transport(flags.job()) != comm::Transport::nccl) return;
  excludes({"--comm nccl", true}, {"--sync-batch-norm and --shards", config.sync_batch_norm && config.shards > 0},
           "shards wait for each other in memory of the host");
  if (const Library& nccl = cuda::find_nccl(); !nccl.why.empty()) fail(ErrorKind::device, "--comm nccl", nccl.why);
}

void join_devices(job::Ranks& ranks, const std::string& device, const RankFlags& flags) {
  const comm::Transport asked = comm::requested_transport(flags.job());
  const bool forced = asked == comm::Transport::nccl;
  if (!forced && asked != comm::Transport::automatic) return;
  // Each rank names its device if it is not one of CUDA's; such a rank cannot use NCCL.
  const std::string& name = *trace::device_named(device);
  const bool cuda_device = starts_with(name, "cuda:");
  const std::vector<std::string> devices = ranks.from_all(cuda_device ? "" : name);
  const auto other = std::find_if(devices.begin(), devices.end(), [](const std::string& d) { return !d.empty(); });
  if (other != devices.end()) {
    if (!forced) return;
    fail(ErrorKind::usage, "--comm", "nccl reduces between CUDA devices: rank ", other - devices.begin(),
         " computes on ", *other);
  }
  const std::vector<std::string> reasons = ranks.from_all(cuda::find_nccl().why);
  const auto lacks = std::find_if(reasons.begin(), reasons.end(), [](const std::string& why) { return !why.empty(); });
  if (lacks != reasons.end()) {
    const std::string why = cat("rank ", lacks - reasons.begin(), ": ", *lacks);
    if (forced) fail(ErrorKind::device, "--comm nccl", why);
    return ranks.set_note(cat("gradients go through memory of the host: ", why));
  }
  const std::string nccl_id = ranks.from_first(ranks.first() ? cuda::new_nccl_id() : std::string());
  ranks.use(cuda::join_nccl(backend(name).memory(), {.rank = ranks.rank(),
                                                     .world = ranks.world(),
                                                     .id = nccl_id,
                                                     .timeout = flags.comm_timeout,
                                                     .lost = [&ranks] { return ranks.comm().lost(); },
                                                     .others = [&ranks] { return ranks.comm().whereabouts(); }}));
  ranks.set_note(cat("gradients are summed by ", ranks.devices()->name(), ", in the devices' memory"));
}

void refuse_nccl(const JobFlags& flags) {
  if (flags.job().transport != comm::Transport::nccl) return;
  fail(ErrorKind::usage, "--comm",
       "nccl sums gradients between CUDA devices, for freight train alone: expected auto, shared or "
       "gloo");
}

std::string table_device_of(const RankFlags& flags, const std::string& device, const comm::Launch& launch) {
  const DeviceList list =
      flags.devices.empty() ? DeviceList{.count = launch.world} : parse_device_list("--devices", flags.devices);
  if (list.count) {
    const bool one_gpu = starts_with(device, "cuda:");
    if (one_gpu && *list.count > 1) {
      refuse_value("--devices", cat(*list.count, " of --device ", device),
                   "a GPU takes one process; add --device cuda, or --devices cuda:0,cuda:1");
    }
    return device == "cuda" && *list.count > 1 ? cat("cuda:", launch.local_rank) : device;
  }
  need_alike(flags, "which fit trees together");
  const std::string kind = kind_of_device(list.names[0]);
  need_gpus_once(flags);
  const std::string& name = list.names.at(static_cast<size_t>(launch.rank));
  refuse_device_beside_names(device, device != "auto" && device != kind && device != name, flags);
  return name;
}

bool is_shard_process(const RankFlags& flags, const comm::Launch& launch) {
  return launch.source == "freight" && launch.world > 1 && flags.devices.empty();
}

ShardWork shard_work(const train::Config& config, const data::Source& source, const RankFlags& flags,
                     const comm::Launch& launch, const std::string& why_one) {
  if (is_shard_process(flags, launch)) return {launch.world, thread_count()};
  const int64_t threads = std::min<int64_t>(thread_count(), cpu_info().cores);
  ShardWork work{.threads = thread_count()};
  const bool free_to_choose = launch.source.empty() && flags.devices.empty();
  const int64_t processes = std::min({config.shards, threads, kMostDevices});
  if (!free_to_choose || processes < 2 || *trace::device_named(config.backend) != "cpu") return work;
  if (!train::is_network(config, source)) return work;
  work.why_one = why_one;
  if (!why_one.empty()) return work;
  return {processes, threads / processes};
}

std::string to_string(int64_t shards, const ShardWork& work) {
  const auto counted = [](int64_t n, const char* one, const char* many) { return cat(n, " ", n == 1 ? one : many); };
  return cat(shards, ", by ", counted(work.processes, "process", "processes"), " of ",
             counted(work.threads, "thread", "threads"), work.why_one.empty() ? "" : ": ", work.why_one);
}

std::string last_line(const std::string& path) {
  std::string line;
  for (const std::string& l : split(io::read_text(path), '\n')) {
    if (!l.empty()) line = l;
  }
  constexpr std::string_view kPrefix = "freight: error: ";
  return starts_with(line, kPrefix) ? line.substr(kPrefix.size()) : line;
}

ErrorKind kind_of(const comm::JobEnd& end) {
  if (end.signal != 0) return ErrorKind::peer_lost;
  constexpr int kLast = static_cast<int>(ErrorKind::verification);
  return end.exit_code >= 1 && end.exit_code <= kLast ? static_cast<ErrorKind>(end.exit_code) : ErrorKind::runtime;
}

LogFolder::LogFolder(const std::string& command, const std::string& parent) {
  const std::string tmp = parent.empty() ? env::get("TMPDIR") : parent;
  path_ = cat(tmp.empty() ? "/tmp" : tmp, "/freight-", command, "-XXXXXX");
  if (!::mkdtemp(path_.data())) {
    fail(ErrorKind::runtime, path_, "cannot be made: ", std::strerror(errno),
         parent.empty() ? "; TMPDIR names the folder for it" : "");
  }
}

LogFolder::~LogFolder() {
  std::error_code ignored;
  if (!kept_) std::filesystem::remove_all(path_, ignored);
}

namespace {

comm::LaunchOptions launch_of(Args words, const JobFlags& flags, int64_t count, const std::string& logs) {
  comm::LaunchOptions o;
  o.command = {std::filesystem::read_symlink("/proc/self/exe").string()};
  o.command.insert(o.command.end(), words.begin(), words.end());
  o.world = static_cast<int>(count);
  o.bound = flags.transport() == comm::Transport::shared_memory;
  o.log_dir = logs;
  return o;
}

// The ranks' logs are kept, or are deleted before the user sees the error.
enum class Logs : uint8_t { stay, go };
[[noreturn]] void fail_with(const std::string& command, comm::JobEnd end, Logs logs) {
  // A rank that was killed could not log the reason.
  const std::string why = end.log.empty() || end.signal == SIGKILL ? "" : last_line(end.log);
  if (logs == Logs::go) end.log.clear();
  fail(kind_of(end), command, to_string(end), why.empty() ? "" : ": " + why);
}

int end_on_terminal(const std::string& command, const comm::JobEnd& end, Logs logs) {
  // A rank that was asked to stop reports that by its exit code, or was ended by the signal before it could.
  const bool of_signal = end.exit_code == 128 + end.forwarded || end.signal == end.forwarded;
  const bool stopped = end.forwarded != 0 && (!end.failed() || of_signal);
  if (stopped) return 128 + end.forwarded;
  if (!end.failed()) return 0;
  if (end.log.empty() && end.signal == 0) return end.exit_code;
  fail_with(command, end, logs);
}

// The bounds "1:4" of --elastic.
struct Bounds {
  int least = 0, most = 0;
};
Bounds parse_elastic(const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  const std::optional<int> least = parse_number<int>(parts[0]), most = parse_number<int>(parts.back());
  if (parts.size() != 2 || !least || !most) {
    refuse_text("--elastic", "MIN:MAX devices, as in 1:4", text);
  }
  const Bounds e{.least = *least, .most = *most};
  need_at_least("--elastic", "devices", static_cast<double>(e.least), 1);
  if (e.least > e.most) refuse_value("--elastic", text, "the minimum is above the maximum");
  return e;
}

// The flags with which a start uses only some devices, by their numbers in --devices.
Args flags_of_start(const RankFlags& flags, const std::vector<int>& devices) {
  const auto those_of = [&](const std::vector<std::string>& all) {
    std::vector<std::string> some;
    for (const int d : devices) some.push_back(all.at(static_cast<size_t>(d)));
    return join(some, ",");
  };
  const DeviceList list = parse_device_list("--devices", flags.devices);
  Args words = {"--devices", list.count ? cat(devices.size()) : those_of(list.names)};
  if (!flags.weights.empty() && flags.weights != "auto") {
    words.insert(words.end(), {"--device-weights", devices.size() > 1 ? those_of(split(flags.weights, ',')) : ""});
  }
  return words;
}

// `launch`: for all devices. A restart resumes in the run's own folder, even if the run began from a checkpoint of
// another.
comm::JobEnd supervise(const comm::LaunchOptions& launch, const RankFlags& flags, int64_t count,
                       const std::string& logs) {
  const Bounds bounds = parse_elastic(flags.elastic);
  const std::string run = std::filesystem::path(logs).parent_path().string();
  job::Supervision s{.launch = launch, .least = bounds.least, .most = bounds.most};
  s.devices = static_cast<int>(count);
  s.command = [&](const std::vector<int>& devices) {
    std::vector<std::string> words = launch.command;
    if (static_cast<int64_t>(devices.size()) < count) {
      const Args fewer = flags_of_start(flags, devices);
      words.insert(words.end(), fewer.begin(), fewer.end());
    }
    // The last flag counts: it overrides a --resume that named another run, from which only the first start resumes.
    if (!train::checkpoints_of(run).empty()) words.insert(words.end(), {"--resume", "auto"});
    return words;
  };
  s.report = [&](const std::string& line) {
    std::fprintf(stderr, "%s\n", printable(line).c_str());
    train::RunDir::add_to_log(run, line);
  };
  s.stop_signal = [] { return signals::stop_signal(); };
  return job::supervise(s);
}

Args with_command(const std::string& command, const Args& args) {
  Args words = {command};
  words.insert(words.end(), args.begin(), args.end());
  return words;
}

}  // namespace

int run_ranks(const std::string& command, const Args& args, const RankFlags& flags, int64_t count,
              const std::string& logs, int64_t threads) {
  comm::LaunchOptions o = launch_of(with_command(command, args), flags, count, logs);
  o.threads = static_cast<int>(threads);
  o.terminal = true;
  if (!flags.elastic.empty()) return end_on_terminal(command, supervise(o, flags, count, logs), Logs::stay);
  return end_on_terminal(command, comm::run_job(o), Logs::stay);
}

int run_ranks(const std::string& command, const Args& args, const RankFlags& flags, int64_t count) {
  refuse_nccl(flags);
  const LogFolder folder(command);
  comm::LaunchOptions o = launch_of(with_command(command, args), flags, count, folder.path());
  o.terminal = true;
  return end_on_terminal(command, comm::run_job(o), Logs::go);
}

int run_program(const Args& program, int64_t count, const std::string& logs) {
  const LogFolder folder("launch");
  comm::LaunchOptions o = launch_of({}, JobFlags(), count, logs.empty() ? folder.path() : logs);
  o.command = program;
  o.terminal = true;
  return end_on_terminal(program[0], comm::run_job(o), logs.empty() ? Logs::go : Logs::stay);
}

void share_devices(job::Ranks& ranks, const std::string& device, const RankFlags& flags) {
  need_own_gpus(ranks, device, flags);
  join_devices(ranks, device, flags);
}

std::string resume_command(const std::string& run, const RankFlags& flags, const Args& more) {
  const RankFlags usual;
  Args words = {"freight", "train", "--resume", run};
  const auto add = [&](const char* flag, const std::string& value, const std::string& usual_value) {
    if (value != usual_value) words.insert(words.end(), {flag, value});
  };
  add("--devices", flags.devices, usual.devices);
  add("--comm", flags.comm, usual.comm);
  add("--interface", flags.interface, usual.interface);
  add("--token-file", flags.token_file, usual.token_file);
  add("--comm-timeout", cat(flags.comm_timeout), cat(usual.comm_timeout));
  add("--overlap", flags.overlap, usual.overlap);
  add("--device-weights", flags.weights, usual.weights);
  add("--elastic", flags.elastic, usual.elastic);
  if (!flags.elastic.empty()) words.insert(words.end(), {"--output-dir", run});
  if (flags.shard_optimizer) words.emplace_back("--shard-optimizer");
  words.insert(words.end(), more.begin(), more.end());
  for (std::string& word : words) word = shell_word(word);
  return join(words, " ");
}

Args JobFlags::words() const {
  Args all = {"--comm", comm, "--comm-timeout", cat(comm_timeout)};
  if (!interface.empty()) all.insert(all.end(), {"--interface", interface});
  if (!token_file.empty()) all.insert(all.end(), {"--token-file", token_file});
  return all;
}

RanksRan run_ranks_apart(const std::string& what, const Args& words, const JobFlags& flags, int64_t count,
                         const std::string& folder) {
  refuse_nccl(flags);
  comm::LaunchOptions o = launch_of(words, flags, count, folder);
  o.result = folder + "/result";
  const comm::JobEnd end = comm::run_job(o);
  if (end.forwarded != 0) return {.out = {}, .signal = end.forwarded};
  if (end.failed()) fail_with(what, end, Logs::go);
  return {.out = io::read_text(o.result)};
}

void need_elastic(const RankFlags& flags, const comm::Launch& launch, int64_t devices) {
  if (flags.elastic.empty()) return;
  const Bounds bounds = parse_elastic(flags.elastic);
  if (launch.source == "freight") return;  // its supervisor has checked that
  if (!launch.source.empty()) {
    fail(ErrorKind::usage, "--elastic", "restarts processes that this command starts: ", launch.source,
         " restarts those that it starts. Leave it out and give -o DIR --resume auto --shards 8 "
         "(docs/several-devices.md)");
  }
  requires_flag({"--elastic", true}, {"--devices", !flags.devices.empty()},
                cat("--devices cpu*", bounds.most, " --elastic ", flags.elastic));
  if (bounds.most > devices) {
    refuse_value("--elastic",
                 cat(flags.elastic, " for ", devices, devices == 1 ? " device" : " devices", " (--devices)"),
                 "expected no more than these");
  }
}

std::unique_ptr<job::Ranks> join_ranks(const RankFlags& flags, const comm::Launch& launch) {
  comm::JobOptions job = flags.job();
  job.cancelled = [] { return signals::stop_requested(); };
  job::RankRendezvous rendezvous{.address = [launch, job] { return comm::rendezvous_address(launch, job); },
                                 .timeout = flags.comm_timeout};
  try {
    return std::make_unique<job::Ranks>(comm::join_job(launch, job), job::parse_overlap(flags.overlap),
                                        std::move(rendezvous));
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::peer_lost || !signals::stop_requested()) throw;
    return nullptr;
  }
}

void need_same_question(job::Ranks& ranks, const Args& args, const std::string& model) {
  ranks.need_equal("the arguments", join(args, " "));
  ranks.need_equal(cat("at ", model, " a file with the hash"), io::xxh3_128(io::read_file(model)));
}

}  // namespace freight::app
