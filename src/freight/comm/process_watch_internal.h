// Watches other processes of this host. Linux only.
#pragma once
#include <sys/types.h>

#include <string>

#include "freight/comm/descriptor_internal.h"

namespace freight::comm {

// A descriptor that becomes readable when the process ends, even if this process is not its parent. Empty if the
// process does not exist (any more), or belongs to another process namespace (number 0). Throws Error(runtime) on a
// kernel before 5.3.
Descriptor watch_process(pid_t process);
// True once a watched process has ended; false for an empty descriptor.
bool has_ended(const Descriptor& watched);
// The state of a process according to /proc: "is stopped", "sleeps", "runs", "ended".
std::string state_of(pid_t process);

}  // namespace freight::comm
