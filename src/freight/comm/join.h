// Joins a job by the transport that suits it: shared memory where all ranks are on one host, Gloo between hosts.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "freight/comm/comm.h"
#include "freight/comm/launch_environment.h"

namespace freight::comm {

// nccl: devices must sum among themselves; automatic: they do so if all ranks have CUDA devices and NCCL is found.
enum class Transport : uint8_t { automatic, shared_memory, gloo, nccl };  // nccl: otherwise as automatic
// Parses "auto", "shared", "gloo" and "nccl". Throws Error(usage) that names `flag` for another word.
Transport parse_transport(const std::string& flag, const std::string& text);
const char* to_string(Transport transport);  // its usual name: "shared memory", "Gloo", "NCCL"

struct JobOptions {
  double timeout = 120;  // seconds that a rank waits for another before it counts as lost (--comm-timeout)
  Transport transport = Transport::automatic;  // --comm; automatic: what FREIGHT_COMM says, else what fits
  std::string interface = {};   // --interface: this host's, by name or address; "": FREIGHT_INTERFACE, else
                                // the one by which rank 0's host is reached
  std::string token_file = {};  // --token-file: holds the job's secret, and is made by rank 0 where it is
                                // missing; "": FREIGHT_TOKEN_FILE, else the text of FREIGHT_TOKEN
  // Polled: true cancels the rendezvous, which then throws Error(peer_lost).
  std::function<bool()> cancelled = {};
};

// The transport that the options or FREIGHT_COMM request.
Transport requested_transport(const JobOptions& options = {});
// The transport of host memory that join_job() uses: shared memory or Gloo, also for nccl (apps: join_devices()).
Transport transport_for(const Launch& launch, const JobOptions& options = {});

// Joins the other ranks of `launch` and returns when all have joined. Throws the errors of join_shared_memory() and
// join_gloo(), and Error(usage) if the job has several hosts and the address of rank 0 or the token is not set.
std::unique_ptr<Comm> join_job(const Launch& launch, const JobOptions& options = {});

// The numeric address by which the other ranks reach rank 0, for libraries that have their own rendezvous: on one host
// the loopback address, which no other host reaches. Only rank 0 calls it. Throws Error(usage) if a name has no
// address.
std::string rendezvous_address(const Launch& launch, const JobOptions& options = {});

}  // namespace freight::comm
