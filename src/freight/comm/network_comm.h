// The engines between hosts: Gloo, or a cluster's MPI, moves the bytes. What is added to them is ours: sums in the
// order of tree_sum.h, hence the bits of the engine over shared memory, and the watchdog that names a lost rank.
#pragma once
#include <memory>
#include <string>

#include "freight/comm/comm.h"
#include "freight/comm/network_meeting.h"

namespace freight::comm {

// Meets the other ranks (network_meeting.h) and returns when all are connected with each other. Throws what
// meet_on_network() throws, and Error(device) where Gloo's library cannot be used.
//
// A rank whose process ended is named by all others at once, one that stopped, or whose host is down or cut off, after
// 2.5 seconds without a heartbeat (watchdog.h); one that lives and does not come, when the timeout is over, and before
// that by a warning of rank 0 as slow. The connections between ranks are neither encrypted nor authenticated: the
// network must be one that only the job's hosts, and whom they trust, can reach.
std::unique_ptr<Comm> join_gloo(const NetworkPlan& plan);

// The same over MPI, in a process that its mpiexec started: it needs neither port nor token, since MPI tells where rank
// 0 listens for the watchdog. `plan.host` is rank 0's address for that, or its host's name. Most MPIs end all ranks
// when one dies, before anybody could name it (MPICH's mpiexec does not with -disable-auto-cleanup). Throws
// Error(device) where the library cannot be used, and Error(usage) where it counts other ranks than the launcher's
// variables do.
std::unique_ptr<Comm> join_mpi(NetworkPlan plan);

}  // namespace freight::comm
