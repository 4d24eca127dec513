// The transport for processes of one host: a memory file that all of them map, with words that say how far each rank
// is. It needs no installation and no background thread, and leaves nothing behind: the file has no name and vanishes
// with the last process that maps it, however that process ends.
#pragma once
#include <functional>
#include <memory>

#include "freight/comm/comm.h"
#include "freight/comm/launch_environment.h"

namespace freight::comm {

struct SharedMemoryOptions {
  double timeout = 120;  // seconds that a rank waits for another before it counts as lost (--comm-timeout)
  // Polled: true cancels the rendezvous, which then throws Error(peer_lost).
  std::function<bool()> cancelled = {};
};

// Joins the other ranks of `launch` on this host (host_rendezvous.h) and returns when all have joined. W is
// launch.world. Throws Error(usage) if not all ranks are on this host, and the errors of rendezvous_on_host().
//
// A rank whose process ended is named within a tenth of a second by all ranks that wait for it, since the system
// reports its end (pidfd). A rank that runs but does not call the collective is named at the timeout, with the state of
// its process (stopped, running). A waiting rank spins for at most 200 microseconds and then sleeps; if ranks share
// cores, as 8 ranks on 2 cores do, it sleeps after 2 microseconds. Ranks should be bound to cores, as launcher.h does,
// so that the system does not move them.
std::unique_ptr<Comm> join_shared_memory(const Launch& launch, const SharedMemoryOptions& options = {});

}  // namespace freight::comm
