// See joined_ranks_internal.h.
#include "freight/base/strings.h"
#include "freight/comm/joined_ranks_internal.h"

namespace freight::comm {

JoinedRanks::JoinedRanks(const RankIdentity& rank_zero)
    : rank_zero_(rank_zero), processes_(static_cast<size_t>(rank_zero.world)) {
  processes_[0] = rank_zero.process;
}

std::string JoinedRanks::add(const RankIdentity& joining) {
  const std::string who = cat("rank ", joining.rank, " (", joining.process, ")");
  const std::string zero = cat("rank 0 (", rank_zero_.process, ")");
  constexpr const char* kSameProgram = ": expected the same program for all ranks";
  if (joining.version != rank_zero_.version) {
    return cat(who, " runs Freight ", joining.version, ", ", zero, " runs ", rank_zero_.version, kSameProgram);
  }
  // The world comes before the size of the layout, which follows from it.
  if (joining.world != rank_zero_.world) {
    return cat(who, " was started with ", joining.world, " ranks, ", zero, " with ", rank_zero_.world);
  }
  if (joining.layout_size != rank_zero_.layout_size) {
    return cat(who, " runs another build of Freight ", joining.version, " than ", zero, kSameProgram);
  }
  if (joining.rank < 0 || joining.rank >= rank_zero_.world) {
    return cat("expected ranks from 0 to ", rank_zero_.world - 1, ", got ", who);
  }
  std::string& process = processes_[static_cast<size_t>(joining.rank)];
  if (!process.empty()) {
    return cat("two processes claim to be rank ", joining.rank, ": ", process, " and ", joining.process);
  }
  process = joining.process;
  ++count_;
  return "";
}

std::string JoinedRanks::missing(double timeout) const {
  std::vector<std::string> missing;
  for (size_t r = 0; r < processes_.size(); ++r) {
    if (processes_[r].empty()) missing.push_back(cat(r));
  }
  constexpr size_t kMost = 16;
  const size_t all = missing.size();
  if (all > kMost) missing.resize(kMost);
  return cat(all > 1 ? "ranks " : "rank ", join(missing, ", "), all > kMost ? cat(" and ", all - kMost, " others") : "",
             " did not respond within ", timeout, " s");
}

}  // namespace freight::comm
