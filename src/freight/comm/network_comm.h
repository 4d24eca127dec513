// The transport between hosts. Gloo moves the bytes; Freight adds sums in the order of tree_sum.h, so that results are
// bitwise those over shared memory, and the watchdog that names a lost rank.
#pragma once
#include <memory>
#include <string>

#include "freight/comm/comm.h"
#include "freight/comm/network_rendezvous.h"

namespace freight::comm {

// Joins the other ranks (network_rendezvous.h) and returns when all are connected with each other. Throws the errors of
// rendezvous_on_network(), and Error(device) if Gloo's library cannot be used.
//
// A rank whose process ended is named by all others at once. A rank that is stopped, or whose host is down or cut off,
// is named after 2.5 seconds without a heartbeat (watchdog.h). A rank that runs but does not call the collective is
// named at the timeout; before that, rank 0 warns that it is slow. The connections between ranks are neither encrypted
// nor authenticated: the network must be one that only the job's hosts, and hosts that they trust, can reach.
std::unique_ptr<Comm> join_gloo(const NetworkPlan& plan);

}  // namespace freight::comm
