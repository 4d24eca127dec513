// The error texts of a rendezvous, on one host or over a network, that ends at its timeout or is cancelled.
#pragma once
#include <string>
#include <vector>

#include "freight/base/strings.h"

namespace freight::comm {

// Seconds between two checks of whether the rendezvous was cancelled.
inline constexpr double kCancelCheckSeconds = 0.02;
inline constexpr const char* kCancelled = "the rendezvous was cancelled";

// Names the ranks that are missing: "ranks 1, 3 did not respond within 120 s". came[r] is true if rank r has joined; at
// most sixteen ranks are named.
inline std::string missing_ranks(const std::vector<bool>& came, double timeout) {
  std::vector<std::string> missing;
  for (size_t r = 0; r < came.size(); ++r) {
    if (!came[r]) missing.push_back(cat(r));
  }
  constexpr size_t kMost = 16;
  const size_t all = missing.size();
  if (all > kMost) missing.resize(kMost);
  return cat(all > 1 ? "ranks " : "rank ", join(missing, ", "), all > kMost ? cat(" and ", all - kMost, " others") : "",
             " did not respond within ", timeout, " s");
}

}  // namespace freight::comm
