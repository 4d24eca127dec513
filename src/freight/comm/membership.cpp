// See membership.h.
#include "freight/comm/membership.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <vector>

#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/comm/host_rank_internal.h"
#include "freight/comm/join_internal.h"
#include "freight/comm/membership_internal.h"

namespace freight::comm {

void refuse_inherited(const char* variable, const std::string& text) {
  fail(ErrorKind::usage, variable, "got '", excerpt(text), "', need what freight train --elastic sets: ", "unset it");
}

void read_descriptors(const char* variable, const std::string& text, int* to, size_t count) {
  const std::vector<std::string> words = split(text, ',');
  bool sound = words.size() == count;
  for (size_t i = 0; sound && i < count; ++i) {
    const std::string& w = words[i];
    const auto [end, error] = std::from_chars(w.data(), w.data() + w.size(), to[i]);
    sound = error == std::errc() && end == w.data() + w.size() && ::fcntl(to[i], F_GETFD) >= 0;
  }
  if (!sound) refuse_inherited(variable, text);
  for (size_t i = 0; i < count; ++i) ::fcntl(to[i], F_SETFD, FD_CLOEXEC);
}

std::unique_ptr<Membership> Membership::of_process(const Launch& launch, const JobOptions& options) {
  const std::string text = env::get("FREIGHT_ELASTIC");
  if (text.empty() || launch.source != "freight") return nullptr;
  if (const std::string terminal = env::get("FREIGHT_TERMINAL"); !terminal.empty()) {
    descriptors_in<2>("FREIGHT_TERMINAL", terminal);
  }
  return starts_with(text, kDoors) ? network_membership(launch, options, text) : roster_membership(launch, text);
}

namespace {

// Says why ranks cannot go on without one of them, and what to do; "" where they can.
std::string ends_all(const Launch& l) {
  constexpr const char* kInstead =
      ": leave out --elastic and give --resume auto, by which a job that is started again goes on from its last "
      "checkpoint; or let freight train --devices start the processes";
  if (l.source == "torchrun" && !env::get("TORCHELASTIC_RUN_ID").empty()) {
    return cat("torchrun ends all processes where one is lost, and starts all again (--max-restarts)", kInstead);
  }
  if (l.source == "Open MPI" || l.source == "PMI") {
    return cat(l.source == "PMI" ? "mpiexec" : "mpirun", " ends all processes where one is lost", kInstead);
  }
  if (l.source == "Slurm" && env::get("SLURM_KILL_BAD_EXIT") == "1") {
    return "srun ends all tasks where one is lost (SLURM_KILL_BAD_EXIT=1): need srun --kill-on-bad-exit=0";
  }
  return {};
}

// The host of each rank.
std::vector<std::string> hosts_of_ranks(const Launch& l) {
  const std::vector<std::string> hosts = l.local_world == l.world ? std::vector<std::string>{"127.0.0.1"} : l.hosts;
  if (hosts.empty()) {
    fail(ErrorKind::usage, "--elastic", "needs the hosts of all ranks, so that they find each other where the first ",
         "one is lost, and ", l.source, " names none");
  }
  std::vector<std::string> all;
  const auto count = static_cast<int>(hosts.size());
  const bool enough = count <= l.world;
  for (int r = 0; enough && r < l.world; ++r) {
    all.push_back(hosts[static_cast<size_t>(host_rank_of(r, l.world, count).host)]);
  }
  const HostRank own = enough ? host_rank_of(l.rank, l.world, count) : HostRank{};
  if (!enough || own.local_world != l.local_world || own.local_rank != l.local_rank) {
    fail(ErrorKind::usage, "--elastic", "got ", count, " hosts for ", l.world, " ranks, of which ", l.source,
         " started ", l.local_world, " on this one, where rank ", l.rank, " is number ", l.local_rank,
         ": need the same number on each, host by host");
  }
  return all;
}

// The secret of jobs whose processes are all of this host, where nobody has said one.
std::string own_token_file() {
  const std::string dir = env::cache_dir();
  std::error_code error;
  if (!dir.empty()) std::filesystem::create_directories(dir, error);
  return dir.empty() || error ? "" : dir + "/job-token";
}

}  // namespace

std::unique_ptr<Membership> Membership::of_launcher(const Launch& launch, JobOptions options, int least) {
  if (const std::string why = ends_all(launch); !why.empty()) fail(ErrorKind::usage, "--elastic", why);
  const std::vector<std::string> of_ranks = hosts_of_ranks(launch);
  const bool said =
      !options.token_file.empty() || !env::get("FREIGHT_TOKEN_FILE").empty() || !env::get("FREIGHT_TOKEN").empty();
  if (!said && launch.local_world == launch.world) options.token_file = own_token_file();
  const int port = port_of(launch);
  if (port + launch.world > 65536) {
    fail(ErrorKind::usage, "MASTER_PORT", "got ", port, ": --elastic needs a port for each of ", launch.world,
         " ranks from there on");
  }
  std::string doors = cat(kDoors, least);
  for (int r = 0; r < launch.world; ++r) doors += cat(" ", of_ranks[static_cast<size_t>(r)], ":", port + r);
  return network_membership(launch, options, doors);
}

void Membership::take_terminal() {
  const std::string terminal = env::get("FREIGHT_TERMINAL");
  if (terminal.empty()) return;  // another host's
  const auto [out, err] = descriptors_in<2>("FREIGHT_TERMINAL", terminal);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
}

}  // namespace freight::comm
