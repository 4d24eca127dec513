// Who sums over ranks while a plan runs: its all_reduce steps hand over what is ready, and the run goes on. Sees memory
// only; train/overlapped_sums.h does it over comm.
#pragma once
#include <memory>

#include "freight/backend/backend.h"
#include "freight/ir/type.h"

namespace freight {

class Collectives {
 public:
  virtual ~Collectives() = default;
  // This rank's `data` is ready to become the sum over all ranks, in place. Called in the order of the plan, by the
  // thread that runs it, and returns at once; the plan touches the data no more in this run.
  virtual void ready(void* data) = 0;
};

// Until the end of the scope, all_reduce steps of plans that this thread runs go to `to`. Without one they are the
// identity: the process is the only rank.
class CollectivesScope {
 public:
  explicit CollectivesScope(Collectives* to);  // null: no change
  ~CollectivesScope();
  CollectivesScope(const CollectivesScope&) = delete;
  CollectivesScope& operator=(const CollectivesScope&) = delete;

 private:
  Collectives* before_;
};

// The step of a sum over ranks of a dense row-major tensor. Where another step of its plan reads the result
// (`read_within`), a run in a CollectivesScope throws Error(usage): sums are there behind the run.
std::unique_ptr<Kernel> make_all_reduce(std::shared_ptr<DeviceMemory> memory, const Type& type, bool read_within);

}  // namespace freight
