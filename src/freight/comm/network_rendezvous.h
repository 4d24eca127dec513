// The ranks of several hosts find each other here: rank 0 listens on the port that all were told, the others connect
// and prove, as rank 0 does to them, that they know the job's token, which itself never travels. Each brings endpoints
// for the others (addresses at which the transport reaches it) and gets theirs.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "freight/comm/process_internal.h"

namespace freight::comm {

struct NetworkPlan {
  int rank = 0, world = 1;
  std::string host;                  // of rank 0: a name or an address
  int port = 0;                      // there
  std::string interface = {};        // this host's, by name or address; "": the one that `host` says, or leads to
  std::string token;                 // the same for all ranks, and for nobody else
  bool several_hosts = true;         // the job's: a loopback address is then a mistake
  bool on_host_of_rank_zero = true;  // this process
  double timeout = 120;              // seconds
  // Polled: true cancels the rendezvous, which then throws Error(peer_lost).
  std::function<bool()> called_off = {};
};

struct NetworkPeer {
  std::string host;     // its name, for messages
  std::string address;  // numeric
  int process = 0;
  std::string endpoint;  // its one for this rank; "" of this rank itself
};

struct NetworkRendezvous {
  std::vector<NetworkPeer> peers;   // by rank
  std::vector<Descriptor> sockets;  // connections that stay: rank 0's to each rank, by rank; else to rank 0, at place 0
};

// A rank's endpoints, by the ranks that they are for, all of one size of 1 to kMostEndpointBytes but for its own, which
// is empty. `address` is the numeric one of this host that the job uses.
using MakeEndpoints = std::function<std::vector<std::string>(const std::string& address)>;
constexpr size_t kMostEndpointBytes = 256;
constexpr int kMostNetworkRanks = 1024;

// Returns when all ranks came; rank 0 listens no longer by then. Throws Error(peer_lost) that names the ranks which did
// not come in time, or the host that did not answer, with how long it was tried; Error(usage) where the port is in use,
// the interface is not there, a name leads to a loopback address on several hosts, the token differs, a rank comes
// twice, or ranks were told different numbers of ranks or run different versions of Freight.
NetworkRendezvous rendezvous_on_network(const NetworkPlan& plan, const MakeEndpoints& make_endpoints);

// The numeric address of this host, which is rank 0's, that rank 0 listens on. Throws Error(usage) as above.
std::string listening_address(const NetworkPlan& plan);

}  // namespace freight::comm
