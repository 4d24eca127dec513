// See gradient_sum.h.
#include "freight/job/gradient_sum.h"

#include <map>
#include <string>

#include "freight/job/device_sum.h"
#include "freight/job/host_sum.h"
#include "freight/job/ranks.h"

namespace freight::job {

bool may_sum_within_plan(const Sharding& s) {
  const bool one_part_per_rank = s.deal().most() == 1;
  return s.ranks && s.ranks->devices() && !s.exact && (one_part_per_rank || !s.shared_statistics);
}

bool interleaves_parts(const Sharding& s) { return s.shared_statistics && !may_sum_within_plan(s); }

namespace {

bool sums_on_devices(const Sharding& s) { return s.ranks && s.ranks->devices() && !interleaves_parts(s); }

}  // namespace

std::unique_ptr<GradientSum> make_gradient_sum(const std::vector<Variable>& summands,
                                               const GradientSumOptions& options) {
  const Sharding& s = options.sharding;
  if (sums_on_devices(s)) return std::make_unique<DeviceSum>(summands, options);
  return std::make_unique<HostSum>(summands, options);
}

size_t kept_bytes(size_t bytes, const Sharding& s) {
  return sums_on_devices(s) ? bytes + DeviceSum::kept_bytes(bytes, s) : HostSum::kept_bytes(bytes, s);
}

SumPieces pieces_of(const std::vector<Variable>& summands, const Plan* plan, Ranks& ranks) {
  struct Place {
    int64_t summand, piece;
  };
  std::vector<Place> order;
  if (ranks.first() && plan) {
    std::map<std::string, int64_t> number_of;
    for (size_t i = 0; i < summands.size(); ++i) number_of[summands[i].name()] = static_cast<int64_t>(i);
    for (const SumOrder::Sum& sum : order_of_sums(*plan).behind) {
      const auto number = number_of.find(sum.state);
      if (number == number_of.end()) continue;
      order.push_back({number->second, sum.piece});
      number_of.erase(number);
    }
  }
  std::vector<bool> known(summands.size());
  for (const Place& p : order) known[static_cast<size_t>(p.summand)] = true;
  const int64_t last = order.empty() ? 0 : order.back().piece;
  for (size_t i = 0; i < summands.size(); ++i) {
    if (!known[i]) order.push_back({static_cast<int64_t>(i), last});
  }
  ranks.broadcast(order.data(), order.size() * sizeof(Place));
  SumPieces all;
  for (size_t i = 0; i < order.size(); ++i) {
    all.numbers.push_back(static_cast<size_t>(order[i].summand));
    all.summands.push_back(summands[all.numbers.back()]);
    if (i + 1 == order.size() || order[i + 1].piece != order[i].piece) all.ends.push_back(i + 1);
  }
  return all;
}

}  // namespace freight::job
