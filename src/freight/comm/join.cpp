// See join.h.
#include "freight/comm/join.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "freight/base/clock.h"
#include "freight/base/cpu_info.h"
#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/usage.h"
#include "freight/comm/network_address_internal.h"
#include "freight/comm/network_comm.h"
#include "freight/comm/network_rendezvous.h"
#include "freight/comm/proof_internal.h"
#include "freight/comm/shared_memory.h"

namespace freight::comm {

namespace {

constexpr size_t kLeastToken = 16, kMostToken = 4096;

// Reads the token from a file. Refuses a file that other users can read: it would not be secret.
std::string token_in(const std::string& path, int file) {
  struct stat s {};
  if (::fstat(file, &s) != 0) fail(ErrorKind::runtime, excerpt(path), "cannot be read: ", std::strerror(errno));
  if (s.st_uid != ::geteuid() || (s.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    fail(ErrorKind::usage, excerpt(path), "contains the job's token, and other users can read or write it: expected ",
         "chmod 600 and this user for its owner");
  }
  std::string text(kMostToken, '\0');
  const ssize_t n = ::read(file, text.data(), text.size());
  if (n < 0) fail(ErrorKind::runtime, excerpt(path), "cannot be read: ", std::strerror(errno));
  text.resize(static_cast<size_t>(n));
  return text.erase(text.find_last_not_of("\n\r \t") + 1);
}

// Writes the file under another name first and links it, since other ranks wait for the name and must never read half a
// token.
void make_token_file(const std::string& path) {
  const std::string part = cat(path, ".", static_cast<int64_t>(::getpid()));
  const Descriptor file(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const std::string token = new_token() + "\n";
  const bool written = file.get() >= 0 &&
                       ::write(file.get(), token.data(), token.size()) == static_cast<ssize_t>(token.size()) &&
                       ::fsync(file.get()) == 0 && (::link(part.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const int error = errno;
  ::unlink(part.c_str());
  if (!written) fail(ErrorKind::runtime, excerpt(path), "cannot be made: ", std::strerror(error));
}

std::string token_from_file(const std::string& path, const Launch& launch, double timeout) {
  const auto start = std::chrono::steady_clock::now();
  constexpr auto kAgain = std::chrono::milliseconds(50);
  for (;;) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() >= 0) return token_in(path, file.get());
    if (errno != ENOENT) fail(ErrorKind::runtime, excerpt(path), "cannot be read: ", std::strerror(errno));
    if (launch.rank == 0) {
      make_token_file(path);
    } else if (seconds_since(start) > timeout) {
      throw Error(ErrorKind::peer_lost, excerpt(path),
                  cat("does not exist: rank 0 creates it, which host ", host_name(), " waited for ", timeout,
                      " s; use a folder that all hosts share, or the same FREIGHT_TOKEN for all"),
                  cat("rank ", launch.rank, " of ", launch.world));
    } else {
      std::this_thread::sleep_for(kAgain);
    }
  }
}

// The secret of the job. Throws Error(usage) if it is not set, and the errors of reading its file.
std::string token_of(const Launch& launch, const JobOptions& options) {
  const std::string path = options.token_file.empty() ? env::get("FREIGHT_TOKEN_FILE") : options.token_file;
  const std::string token = path.empty() ? env::get("FREIGHT_TOKEN") : token_from_file(path, launch, options.timeout);
  const std::string name = path.empty() ? "FREIGHT_TOKEN" : excerpt(path);
  if (token.empty()) {
    fail(
        ErrorKind::usage, name, path.empty() ? "is not set" : "is empty", ": ranks on a network prove by it ",
        "that they belong to this job. Set the same for all, for example export FREIGHT_TOKEN=$(openssl rand -hex 16) ",
        "before srun, or name a file in a shared folder with --token-file, which rank 0 creates");
  }
  if (token.size() < kLeastToken) {
    fail(ErrorKind::usage, name, "has ", token.size(), " characters, expected ", kLeastToken, " or more");
  }
  return token;
}

// The plan of the rendezvous without its port and token.
NetworkPlan network_plan(const Launch& launch, const JobOptions& options) {
  NetworkPlan plan;
  plan.rank = launch.rank;
  plan.world = launch.world;
  plan.host = launch.master_address;
  plan.several_hosts = launch.local_world != launch.world;
  plan.on_host_of_rank_zero = launch.rank == launch.local_rank;  // launchers number the ranks host by host
  plan.interface = options.interface.empty() ? env::get("FREIGHT_INTERFACE") : options.interface;
  plan.timeout = options.timeout;
  plan.cancelled = options.cancelled;
  if (plan.host.empty() && !plan.several_hosts) plan.host = "127.0.0.1";
  return plan;
}

// The port of the rendezvous, as the launcher sets it. Throws Error(usage) if it is not set. Slurm sets none: the port
// then follows from the job's name, so that jobs on one host differ, and is below those that systems assign to clients.
int port_of(const Launch& launch) {
  int port = launch.master_port;
  if (port == 0 && launch.source == "Slurm") {
    uint32_t hash = 2166136261U;  // FNV-1a
    for (const char c : launch.job) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
    constexpr uint32_t kFirst = 20000, kPorts = 10000;
    return static_cast<int>(kFirst + hash % kPorts);
  }
  if (port == 0) {
    refuse_unset("MASTER_PORT", cat(": the port of rank 0's host at which the ", launch.world,
                                    " ranks rendezvous. Set the same for all"));
  }
  // torchrun's agent listens on MASTER_PORT itself and tells its processes so by this variable.
  if (lower(env::get("TORCHELASTIC_USE_AGENT_STORE")) == "true") ++port;
  return port;
}

std::unique_ptr<Comm> join_by_gloo(const Launch& launch, const JobOptions& options) {
  NetworkPlan plan = network_plan(launch, options);
  if (plan.world == 1) return join_gloo(plan);  // there is no other rank
  if (plan.host.empty()) {
    refuse_unset("MASTER_ADDR",
                 cat(": the host of rank 0 of the ", launch.world, " ranks. Set the same name or address for all"));
  }
  plan.port = port_of(launch);
  plan.token = token_of(launch, options);
  return join_gloo(plan);
}

}  // namespace

Transport parse_transport(const std::string& flag, const std::string& text) {
  if (text == "auto") return Transport::automatic;
  if (text == "shared") return Transport::shared_memory;
  if (text == "gloo") return Transport::gloo;
  if (text == "nccl") return Transport::nccl;
  refuse_name(flag, text, {"auto", "shared", "gloo", "nccl"});
}

const char* to_string(Transport transport) {
  switch (transport) {
    case Transport::shared_memory: return "shared memory";
    case Transport::gloo: return "Gloo";
    case Transport::nccl: return "NCCL";
    case Transport::automatic: break;
  }
  return "automatic";
}

Transport requested_transport(const JobOptions& options) {
  const std::string said = env::get("FREIGHT_COMM");
  if (options.transport != Transport::automatic || said.empty()) return options.transport;
  return parse_transport("FREIGHT_COMM", said);
}

Transport transport_for(const Launch& launch, const JobOptions& options) {
  const Transport transport = requested_transport(options);
  if (transport != Transport::automatic && transport != Transport::nccl) return transport;
  return launch.local_world == launch.world ? Transport::shared_memory : Transport::gloo;
}

std::unique_ptr<Comm> join_job(const Launch& launch, const JobOptions& options) {
  switch (transport_for(launch, options)) {
    case Transport::gloo: return join_by_gloo(launch, options);
    default: return join_shared_memory(launch, {.timeout = options.timeout, .cancelled = options.cancelled});
  }
}

std::string rendezvous_address(const Launch& launch, const JobOptions& options) {
  if (launch.local_world == launch.world) return "127.0.0.1";
  NetworkPlan plan = network_plan(launch, options);
  if (plan.host.empty()) plan.host = host_name();
  return listening_address(plan);
}

}  // namespace freight::comm
