// The sum of gradients on devices: GradientSum whose summands stay in the memory of the devices that made them. Ranks
// add by base/device_collectives.h (NCCL): within the plan of the last part (plan_sum.h), or behind it. Where the sum
// must have the same bits on any number of ranks they only gather, and every device adds in the order of
// comm/tree_sum.h. Whatever is enqueued here takes its turn behind the plan that made the summands and in front of the
// one that reads them.
#pragma once
#include <memory>
#include <vector>

#include "freight/job/gradient_sum.h"

namespace freight::job {

class DeviceSum final : public GradientSum {
 public:
  // The ranks have devices(), which outlive it.
  DeviceSum(const std::vector<Variable>& summands, const GradientSumOptions& options);
  ~DeviceSum() override;

  void start() override;
  Collectives* begin_part(int64_t number) override;
  void end_part(int64_t number) override;
  void skip_part(int64_t number, const SumOrder& order) override;
  void finish() override;
  static size_t kept_bytes(size_t summands, const Sharding& sharding);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace freight::job
