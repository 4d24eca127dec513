// Ranks are dealt out evenly over the hosts of a job, host by host: the first hosts have one more where it does not
// even out.
#pragma once

namespace freight::comm {

struct HostRank {
  int host = 0, local_rank = 0, local_world = 1;
};
inline HostRank host_rank_of(int rank, int world, int hosts) {
  const int each = world / hosts, more = world % hosts, wide = more * (each + 1);
  if (rank < wide) return {rank / (each + 1), rank % (each + 1), each + 1};
  return {more + (rank - wide) / each, (rank - wide) % each, each};
}

}  // namespace freight::comm
