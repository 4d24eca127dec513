// See division.h.
#include "freight/tables/division.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "freight/base/philox.h"

namespace freight::tables {

namespace {
constexpr uint32_t kGroupStream = 0x67727073;  // of random numbers
}

std::vector<bool> hold_out_groups(const std::vector<int64_t>& groups, double share, uint64_t seed) {
  const int64_t count = groups.empty() ? 0 : 1 + *std::max_element(groups.begin(), groups.end());
  std::vector<int64_t> rows(static_cast<size_t>(count)), order(static_cast<size_t>(count));
  for (const int64_t g : groups) ++rows[static_cast<size_t>(g)];
  std::iota(order.begin(), order.end(), int64_t{0});
  PhiloxStream random(seed, 0, kGroupStream);
  for (size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random.below(static_cast<uint32_t>(i + 1))]);
  std::vector<bool> held_group(order.size());
  const double wanted = share * static_cast<double>(groups.size());
  double taken = 0;
  for (size_t i = 0; i + 1 < order.size(); ++i) {  // one group stays
    const auto group = static_cast<size_t>(order[i]);
    const auto more = static_cast<double>(rows[group]);
    // A group is held out if that brings the fraction closer.
    if (i > 0 && taken + more - wanted > wanted - taken) continue;
    held_group[group] = true;
    taken += more;
  }
  std::vector<bool> is_validation(groups.size());
  for (size_t i = 0; i < groups.size(); ++i) is_validation[i] = share > 0 && held_group[static_cast<size_t>(groups[i])];
  return is_validation;
}

std::vector<bool> hold_out_last(const std::vector<double>& order, double share) {
  std::vector<double> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<bool> is_validation(order.size());
  const auto count = static_cast<size_t>(std::llround(share * static_cast<double>(order.size())));
  if (count == 0) return is_validation;
  const size_t first = sorted.size() - std::min(count, sorted.size());
  double bound = sorted[first];
  // If most rows have the bound's number, so that none would stay, the bound is the next number.
  if (bound == sorted.front()) bound = *std::upper_bound(sorted.begin(), sorted.end() - 1, bound);
  for (size_t i = 0; i < order.size(); ++i) is_validation[i] = order[i] >= bound;
  if (bound == sorted.front()) is_validation.assign(is_validation.size(), false);  // all rows have the same time
  return is_validation;
}

}  // namespace freight::tables
