// Who sums over ranks while a plan runs: its all_reduce steps hand over what is ready, and the run goes on. Sees memory
// only; train/overlapped_sums.h does it over comm, train/step_sums.h by the devices themselves.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
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
  // The same where the steps that follow read the sum. False: sums are there behind the run.
  virtual bool sum_within(void*, const Type&) { return false; }
  // All steps were given to the device, and what they leave behind the last one. Part of a recording, as all above.
  virtual void run_ends() {}
  // A recording was enqueued.
  virtual void enqueued() {}
};

// Until the end of the scope, all_reduce steps of plans that this thread runs go to `to`. Without one they are the
// identity: the process is the only rank.
class CollectivesScope {
 public:
  explicit CollectivesScope(Collectives* to);  // null: no change
  ~CollectivesScope();
  CollectivesScope(const CollectivesScope&) = delete;
  CollectivesScope& operator=(const CollectivesScope&) = delete;
  static Collectives* current();  // of this thread; null: none

 private:
  Collectives* before_;
};

// The step of a sum over ranks of a dense row-major tensor. Where another step of its plan reads the result
// (`read_within`), a run whose Collectives sum behind it throws Error(usage).
std::unique_ptr<Kernel> make_all_reduce(std::shared_ptr<DeviceMemory> memory, const Type& type, bool read_within);

}  // namespace freight
