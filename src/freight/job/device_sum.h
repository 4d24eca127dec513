// The gradient all-reduce on devices: a GradientSum whose summands stay in the memory of the devices that computed
// them. Ranks add by base/device_collectives.h (NCCL), within the plan of the last part (plan_sum.h) or after it. Where
// the sum must be bitwise the same on any number of ranks, ranks only gather, and every device adds in the order of
// comm/tree_sum.h. Work is enqueued here after the plan that computes the summands and before the one that reads them.
#pragma once
#include <memory>
#include <vector>

#include "freight/job/gradient_sum.h"

namespace freight::job {

class DeviceSum final : public GradientSum {
 public:
  // The ranks must have devices(), which outlive this object.
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
