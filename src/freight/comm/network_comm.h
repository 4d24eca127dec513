// The transport between hosts: Gloo moves the bytes. What is added to them is ours: sums in the order of tree_sum.h,
// hence the bits of the transport over shared memory, and the watchdog that names a lost rank.
#pragma once
#include <memory>
#include <string>

#include "freight/comm/comm.h"
#include "freight/comm/network_rendezvous.h"

namespace freight::comm {

// Meets the other ranks (network_rendezvous.h) and returns when all are connected with each other. Throws what
// rendezvous_on_network() throws, and Error(device) where Gloo's library cannot be used.
//
// A rank whose process ended is named by all others at once, one that stopped, or whose host is down or cut off, after
// 2.5 seconds without a heartbeat (watchdog.h); one that lives and does not come, when the timeout is over, and before
// that by a warning of rank 0 as slow. The connections between ranks are neither encrypted nor authenticated: the
// network must be one that only the job's hosts, and whom they trust, can reach.
std::unique_ptr<Comm> join_gloo(const NetworkPlan& plan);

}  // namespace freight::comm
