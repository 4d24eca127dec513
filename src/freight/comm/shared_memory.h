// The transport for processes of one host: a memory file that all map, and words in it that say how far each rank is.
// There is nothing to install, no thread in the background, and nothing that is left behind: the file has no name and
// goes with the last process that maps it, however that one ends.
#pragma once
#include <functional>
#include <memory>

#include "freight/comm/comm.h"
#include "freight/comm/launch_environment.h"

namespace freight::comm {

struct SharedMemoryOptions {
  double timeout = 120;  // seconds that a rank waits for another before it counts as lost (--comm-timeout)
  // Polled: true cancels the rendezvous, which then throws Error(peer_lost).
  std::function<bool()> called_off = {};
};

// Meets the other ranks of `launch` on this host (host_rendezvous.h) and returns when all are there. W is launch.world.
// Throws Error(usage) where not all ranks are on this host, and what rendezvous_on_host() throws.
//
// A rank that ended is named by all that wait for it, or will, within a tenth of a second, since the system says so
// (pidfd); one that lives and does not come, when the timeout is over, with what its process does (stopped, running).
// A rank that waits spins for 200 microseconds at most and then sleeps. Where ranks share processors, as 8 on 2 of them
// do, it sleeps after 2. Ranks that the system may move about are best bound to processors, as launcher.h does.
std::unique_ptr<Comm> join_shared_memory(const Launch& launch, const SharedMemoryOptions& options = {});

}  // namespace freight::comm
