// The rendezvous of the ranks of one host: rank 0 listens on a socket without a file (Linux's abstract names), the
// others connect, and when all have connected each gets the memory file that they will share. Only processes of the
// same user are accepted, and a process that is killed leaves nothing behind.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace freight::comm {

struct HostRendezvous {
  int file = -1;               // the memory file, zeros at first; the caller closes it
  std::vector<int> processes;  // process numbers by rank; 0 for one of another process namespace
};

// The ranks agree on this before they share memory: a job's name among those of this host and user, their number, and
// bytes that must be the same for all of them (the layout).
struct HostRendezvousPlan {
  std::string job;
  int rank = 0, world = 1;
  size_t bytes = 0;      // of the memory file
  double timeout = 120;  // seconds
  // Polled: true cancels the rendezvous, which then throws Error(peer_lost).
  std::function<bool()> cancelled = {};
};

// Returns when all ranks have joined. Throws Error(peer_lost) that names the ranks which did not join in time, or ended
// before the others joined; Error(usage) if another job uses the name, two processes claim the same rank, or ranks
// disagree about the number of ranks or the version of Freight.
HostRendezvous rendezvous_on_host(const HostRendezvousPlan& plan);

}  // namespace freight::comm
