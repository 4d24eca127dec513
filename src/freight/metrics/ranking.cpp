// See ranking.h.
#include "freight/metrics/ranking.h"

#include <algorithm>
#include <cmath>

namespace freight::metrics {

namespace {

double gain(const RankedRow& row) { return std::exp2(static_cast<double>(row.relevance)) - 1; }
double discount(size_t place) { return 1 / std::log2(static_cast<double>(place) + 1); }  // place from 1

// Calls f with the first place, from 1, and the rows [begin, end) of each run of equal predictions.
template <class F>
void for_ties(std::vector<RankedRow>& rows, F f) {
  std::sort(rows.begin(), rows.end(),
            [](const RankedRow& a, const RankedRow& b) { return a.prediction > b.prediction; });
  for (size_t begin = 0; begin < rows.size();) {
    size_t end = begin + 1;
    while (end < rows.size() && rows[end].prediction == rows[begin].prediction) ++end;
    f(begin, end);
    begin = end;
  }
}

size_t places(const std::vector<RankedRow>& rows, int64_t top) {
  return top > 0 ? std::min(rows.size(), static_cast<size_t>(top)) : rows.size();
}

}  // namespace

double query_ndcg(std::vector<RankedRow> rows, int64_t top) {
  const size_t last = places(rows, top);
  double found = 0, best = 0;
  for_ties(rows, [&](size_t begin, size_t end) {
    double gains = 0, discounts = 0;
    for (size_t i = begin; i < end; ++i) gains += gain(rows[i]);
    for (size_t i = begin; i < std::min(end, last); ++i) discounts += discount(i + 1);
    found += gains / static_cast<double>(end - begin) * discounts;
  });
  std::sort(rows.begin(), rows.end(), [](const RankedRow& a, const RankedRow& b) { return a.relevance > b.relevance; });
  for (size_t i = 0; i < last; ++i) best += gain(rows[i]) * discount(i + 1);
  return best > 0 ? found / best : 1;
}

double query_precision(std::vector<RankedRow> rows, int64_t top) {
  const size_t last = places(rows, top);
  double sum = 0, before = 0;  // relevant rows that stand before those at hand
  for_ties(rows, [&](size_t begin, size_t end) {
    double relevant = 0;
    for (size_t i = begin; i < end; ++i) relevant += rows[i].relevance > 0 ? 1 : 0;
    const auto count = static_cast<double>(end - begin);
    // In place i one of them is relevant by relevant / count; then each place of theirs before it is by (relevant - 1)
    // / (count - 1).
    for (size_t i = begin; i < std::min(end, last); ++i) {
      const double others = count > 1 ? static_cast<double>(i - begin) * (relevant - 1) / (count - 1) : 0;
      sum += relevant / count * (before + 1 + others) / static_cast<double>(i + 1);
    }
    before += relevant;
  });
  return before > 0 ? sum / std::min(before, static_cast<double>(last)) : 1;
}

}  // namespace freight::metrics
