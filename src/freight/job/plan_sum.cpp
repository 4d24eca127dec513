// See plan_sum.h.
#include "freight/job/plan_sum.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "freight/base/error.h"

namespace freight::job {

void PlanSum::lay(std::vector<Variable> summands, std::vector<size_t> ends) {
  FREIGHT_CHECK(!ends.empty() && ends.back() == summands.size(), "the pieces have all summands");
  summands_.clear();
  pieces_.cut(std::move(ends));
  for (Variable& v : summands) summands_.push_back({std::move(v)});
}

// Says where the summands lie, since a recording may not ask.
void PlanSum::start() {
  pieces_.start();
  for (PendingGradient& p : summands_) {
    p.at = p.variable.array().storage()->on_device(devices_.memory(), DeviceAccess::update);
  }
  given_ = 0;
}

// The host of each rank learns here what the others are about to do, once a step. NCCL needs a collective to be
// recorded on all ranks or on none, and recordings that are enqueued together to have been made together; which ranks
// can is not known from the batch alone (samples are left out, memory moves).
int64_t PlanSum::agree(const SumOrder& order, bool recordable, int64_t kept) {
  start();
  const std::vector<Intention> all = gather_({recordable, kept, order.hash, order.hash_within});
  bool records = true, repeats = kept != 0;
  in_plan_order_ = true;
  for (size_t r = 0; r < all.size(); ++r) {
    records = records && all[r].recordable;
    repeats = repeats && all[r].kept == all[0].kept;
    if (all[r].hash_within != all[0].hash_within) {
      fail(ErrorKind::usage, "--sync-batch-norm", "the plan of rank ", r,
           " reduces other statistics than rank 0, or in another order");
    }
    if (!order.within.empty() && all[r].hash != all[0].hash) in_plan_order_ = false;
  }
  if (!std::exchange(has_summed_, true) || !records || !in_plan_order_) return 0;
  return repeats ? kept : ++recordings_;
}

void PlanSum::ready(void* data) {
  const auto part =
      std::find_if(summands_.begin(), summands_.end(), [&](const PendingGradient& p) { return p.at == data; });
  // The plan may make a state elsewhere and copy it at the end: run_ends() sees to that.
  if (part == summands_.end()) return;
  const auto number = static_cast<size_t>(part - summands_.begin());
  if (pieces_.is_ready(number)) return;
  pieces_.mark(number);
  if (in_plan_order_) give_complete();
}

// Gives the device the pieces, in order, up to the first one of which something is missing.
void PlanSum::give_complete() {
  for (; given_ < pieces_.complete(); ++given_) {
    const size_t first = pieces_.begin_of(given_), end = pieces_.end_of(given_);
    for (size_t i = first; prepare_ && i < end; ++i) prepare_(i);
    devices_.beside([&] {
      for (size_t i = first; i < end; ++i) {
        devices_.all_reduce(summands_[i].at, summands_[i].variable.type().numel(), DType::f32);
      }
    });
  }
}

bool PlanSum::sum_within(std::span<void* const> parts, const Type& type) {
  for (void* const data : parts) devices_.all_reduce(data, type.numel(), type.dtype);
  return true;
}

void PlanSum::run_ends() {
  for (size_t i = 0; i < summands_.size(); ++i) {
    if (!pieces_.is_ready(i)) pieces_.mark(i);
  }
  give_complete();
  devices_.join();
}

void PlanSum::run_empty(const SumOrder& order) {
  SumOrder own{.within = order.within};  // its sums have no order of a plan
  own.hash_within = order.hash_within;
  agree(own, false, 0);
  zeros_.clear();
  for (const Type& type : order.within) {
    const Array& zero = zeros_.emplace_back(type.dtype, type.shape);
    std::memset(zero.raw(), 0, zero.bytes());
    void* const data = zero.storage()->on_device(devices_.memory(), DeviceAccess::update);
    sum_within({&data, 1}, type);
  }
  run_ends();
}

}  // namespace freight::job
