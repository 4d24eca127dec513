// The rendezvous of ranks on several hosts. Rank 0 listens on a port that all ranks know; the others connect. Both
// sides prove that they know the job's token, which is never sent. Each rank brings endpoints for the others (addresses
// at which the transport reaches it) and gets theirs.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "freight/comm/descriptor_internal.h"

namespace freight::comm {

struct NetworkPlan {
  int rank = 0, world = 1;
  std::string host;  // rank 0's name or address
  int port = 0;      // of rank 0
  // This host's interface, by name or address; "": the one that has the address of `host`, or leads to it.
  std::string interface = {};
  std::string token;                 // the secret of the job, the same for all ranks
  bool several_hosts = true;         // the job has several hosts, so that a loopback address is a mistake
  bool on_host_of_rank_zero = true;  // this process runs on the host of rank 0
  double timeout = 120;              // seconds
  // Polled: true cancels the rendezvous, which then throws Error(peer_lost).
  std::function<bool()> cancelled = {};
};

struct NetworkPeer {
  std::string host;     // its name, for messages
  std::string address;  // numeric
  int process = 0;
  std::string endpoint;  // that rank's endpoint for this rank; "" for this rank itself
};

struct NetworkRendezvous {
  std::vector<NetworkPeer> peers;  // by rank
  // Connections that stay open: rank 0 has one to each rank, by rank; each other rank has one, to rank 0.
  std::vector<Descriptor> sockets;
};

// Makes a rank's endpoints, by the rank that each is for. All have one size of 1 to kMostEndpointBytes, except that the
// rank's own is empty. `address` is the numeric address of this host that the job uses.
using MakeEndpoints = std::function<std::vector<std::string>(const std::string& address)>;
constexpr size_t kMostEndpointBytes = 256;
constexpr int kMostNetworkRanks = 1024;

// Returns when all ranks have joined; rank 0 no longer listens then. Throws Error(peer_lost) that names the ranks which
// did not join in time, or the host that did not respond, with the time that it was tried; Error(usage) if the port is
// in use, the interface does not exist, a name resolves to a loopback address although there are several hosts, the
// token differs, two processes claim the same rank, or ranks disagree about the number of ranks or the version of
// Freight.
NetworkRendezvous rendezvous_on_network(const NetworkPlan& plan, const MakeEndpoints& make_endpoints);

// The numeric address on which rank 0, on this host, listens. Throws Error(usage) as above.
std::string listening_address(const NetworkPlan& plan);

}  // namespace freight::comm
