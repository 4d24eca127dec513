// See time_split.h.
#include "freight/tables/time_split.h"

#include <algorithm>
#include <cmath>

namespace freight::tables {

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
