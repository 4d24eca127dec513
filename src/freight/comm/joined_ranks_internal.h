// The ranks that have joined a rendezvous, as rank 0 counts them. Ranks of one host and of several are checked by the
// same rules, in the same order.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace freight::comm {

// A rank identifies itself by these when it joins.
struct RankIdentity {
  int rank = 0, world = 1;
  std::string version;       // of Freight
  uint64_t layout_size = 0;  // a number of bytes that follows from the world and is equal in equal programs
  std::string process;       // for messages: "process 12 on host b"
};

class JoinedRanks {
 public:
  explicit JoinedRanks(const RankIdentity& rank_zero);

  // Adds a rank. Returns why it cannot join, "" if it has joined.
  std::string add(const RankIdentity& joining);
  bool complete() const { return count_ == rank_zero_.world; }
  // Names the ranks that are missing, at most sixteen: "ranks 1, 3 did not respond within 120 s".
  std::string missing(double timeout) const;

 private:
  RankIdentity rank_zero_;
  std::vector<std::string> processes_;  // by rank; "" has not joined
  int count_ = 1;
};

}  // namespace freight::comm
