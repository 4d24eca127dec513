// Who sums over ranks while a plan runs: its all_reduce steps hand over what is ready, and the run goes on. Sees memory
// only; job/rank_sum.h does it over comm, job/plan_sum.h by the devices themselves.
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
    std::string state;  // the name of the one that it updates; "" where it updates none
    int64_t piece = 0;
  };
  std::vector<Sum> behind = {};   // those that no other step reads
  std::vector<Type> within = {};  // and those that one does
  // The same for all plans that have equal sums in the same order, and for those that have the latter alone.
  uint64_t hash = 0, hash_within = 0;
  bool any() const { return !behind.empty() || !within.empty(); }
};
SumOrder order_of_sums(const Plan& plan);

class Collectives {
 public:
  virtual ~Collectives() = default;
  // The memory that the data lies in; null: the host's.
  virtual DeviceMemory* memory() const { return nullptr; }
  // A run begins, which may become a recording if it is `recordable`; `kept` numbers the one that the device has of
  // such a run, or is 0. The result numbers the recording that the run is to be: another one than `kept` is made anew;
  // 0: none. Ranks that must do the same agree on it here.
  virtual int64_t agree(const SumOrder&, bool recordable, int64_t kept) {
    return recordable ? std::max<int64_t>(kept, 1) : 0;
  }
  // This rank's `data` is ready to become the sum over all ranks, in place. Called in the order of the plan, by the
  // thread that runs it, and returns at once; the plan touches the data no more in this run.
  virtual void ready(void* data) = 0;
  // The same where the steps that follow read the sum, which is made before it returns, or in the order of the device.
  // `parts` are those of the runs that go on together (Executable::run_together), in host memory, or the one of a run
  // by itself, in memory(). False: sums are there behind the run.
  virtual bool sum_within(std::span<void* const> /*parts*/, const Type&) { return false; }
  // All steps were given to the device, and what they leave behind the last one. Part of a recording, as all above.
  virtual void run_ends() {}
  // A recording was enqueued.
  virtual void enqueued() {}
};

// The step of a sum over ranks of a dense row-major tensor: brings this rank's part to where the sum will be.
// Executable then has the Collectives of its Context reduce it.
std::unique_ptr<Kernel> make_all_reduce(std::shared_ptr<DeviceMemory> memory, const Type& type);

}  // namespace freight
