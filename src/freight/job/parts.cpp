// See parts.h.
#include "freight/job/parts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "freight/base/error.h"
#include "freight/job/ranks.h"

namespace freight::job {

int64_t ShardAssignment::first_of(int r) const {
  if (!counts.empty()) return std::accumulate(counts.begin(), counts.begin() + r, int64_t{0});
  const int64_t each = shards / world, more = shards % world;
  return r * each + std::min<int64_t>(r, more);
}

int64_t ShardAssignment::most() const {
  return counts.empty() ? (shards + world - 1) / world : *std::max_element(counts.begin(), counts.end());
}

data::Share ShardAssignment::pieces() const {
  data::Share share{.of = shards, .first = first(), .end = first() + count(), .cut = true};
  if (widths.empty()) return share;
  share.bounds = {0};
  for (int r = 0; r < world; ++r) {
    for (int64_t i = first_of(r); i < first_of(r + 1); ++i) {
      share.bounds.push_back(share.bounds.back() + widths[static_cast<size_t>(r)]);
    }
  }
  return share;
}

int64_t ShardAssignment::least_rows(int64_t n) const {
  const data::Share share = pieces();
  int64_t least = n;
  for (int64_t i = 0; i < shards; ++i) least = std::min(least, share.rows(i, n).second);
  return least;
}

bool ShardAssignment::aligned() const {
  const auto even = [&](int64_t c) { return c == counts[0]; };
  if (!counts.empty() && !std::all_of(counts.begin(), counts.end(), even)) return false;
  const int64_t each = shards / world;
  return shards % world == 0 && (each & (each - 1)) == 0;
}

std::vector<int64_t> dealt(int64_t total, const std::vector<double>& weights, int64_t least) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  FREIGHT_CHECK(sum > 0 && total >= least * static_cast<int64_t>(weights.size()), "there is a part for each");
  std::vector<int64_t> parts;
  std::vector<double> wanted;
  for (const double w : weights) {
    wanted.push_back(static_cast<double>(total) * w / sum);
    parts.push_back(std::max(least, static_cast<int64_t>(std::floor(wanted.back()))));
  }
  // The rest goes to the ranks furthest below their exact shares; what `least` gave is taken from those furthest above.
  const auto owed = [&](size_t i) { return wanted[i] - static_cast<double>(parts[i]); };
  int64_t left = total - std::accumulate(parts.begin(), parts.end(), int64_t{0});
  for (; left != 0; left -= left > 0 ? 1 : -1) {
    size_t best = parts.size();
    for (size_t i = 0; i < parts.size(); ++i) {
      if (left < 0 && parts[i] <= least) continue;
      if (best == parts.size() || (left > 0 ? owed(i) > owed(best) : owed(i) < owed(best))) best = i;
    }
    parts[best] += left > 0 ? 1 : -1;
  }
  return parts;
}

std::vector<double> Sharding::unequal_work() const {
  const ShardAssignment all = deal();
  std::vector<double> work;
  if (!ranks || !ranks->weights().empty() || all.shards % all.world == 0) return work;
  for (int r = 0; r < all.world; ++r) work.push_back(static_cast<double>(all.count_of(r)));
  return work;
}

ShardAssignment Sharding::deal() const {
  if (!ranks) return {.shards = shards};
  ShardAssignment deal{.shards = shards, .rank = ranks->rank(), .world = ranks->world()};
  if (ranks->weights().empty()) return deal;
  // In an exact sum all shards have the same size, so a faster rank gets more of them; otherwise its shards are larger.
  if (exact) deal.counts = dealt(shards, ranks->weights(), 1);
  if (!exact) deal.widths = dealt(batch_size, ranks->weights(), shards / deal.world);
  return deal;
}

}  // namespace freight::job
