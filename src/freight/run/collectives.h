// Sums over ranks during a run. An all_reduce step passes its tensor on, and the run continues. Implementations:
// job/rank_sum.h (comm), job/plan_sum.h (devices), job/host_sum.h (parts side by side).
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "freight/backend/backend.h"
#include "freight/ir/type.h"

namespace freight {

class Plan;

// The sums over ranks of a plan, in the order of its steps.
struct SumOrder {
  struct Sum {
    std::string state;  // the name of the state that it updates; "" if it updates none
    int64_t piece = 0;
  };
  std::vector<Sum> behind = {};   // sums that no other step reads
  std::vector<Type> within = {};  // types of the sums that a step reads
  // Equal for plans with equal sums in the same order; hash_within covers only `within`.
  uint64_t hash = 0, hash_within = 0;
  bool any() const { return !behind.empty() || !within.empty(); }
};
SumOrder order_of_sums(const Plan& plan);

class Collectives {
 public:
  virtual ~Collectives() = default;
  // The memory that the data lies in; null: the host's.
  virtual DeviceMemory* memory() const { return nullptr; }
  // Called before a run; ranks agree here on how they run it. `recordable`: the run could be recorded. `kept`: the
  // number of an existing recording of it, or 0. Returns the recording to use: `kept` replays it, another number
  // records the run first, 0 runs without a recording.
  virtual int64_t agree(const SumOrder&, bool recordable, int64_t kept) {
    return recordable ? std::max<int64_t>(kept, 1) : 0;
  }
  // False: all sums are made where they stand, by sum_within(), in host memory whatever the plan's device.
  virtual bool sums_behind() const { return true; }
  // This rank's `data` is ready to become the sum over all ranks, in place. Called in the order of the plan, by the
  // thread that runs it, and returns at once. No later step of this run uses the data.
  virtual void ready(void* data) = 0;
  // As ready(), for a sum that later steps read: it is complete when this returns, or in the device's order. `parts`:
  // one address per run, in host memory (Executable::run_together), or the address of a single run, in memory(). False:
  // not supported, which ends the run with an error.
  virtual bool sum_within(std::span<void* const> /*parts*/, const Type&) { return false; }
  // Called when all steps are done or enqueued; makes the sums left. Recordings contain it, ready() and sum_within().
  virtual void run_ends() {}
  // A recording was enqueued.
  virtual void enqueued() {}
};

// The step of a sum over ranks of a dense row-major tensor: brings this rank's part to where the sum will be.
// Executable then has the Collectives of its Context reduce it.
std::unique_ptr<Kernel> make_all_reduce(std::shared_ptr<DeviceMemory> memory, const Type& type);

}  // namespace freight
