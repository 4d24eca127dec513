// Sums over shards and ranks whose parts stay in the memory of the devices that made them: what ShardedStep does in the
// host's otherwise. Each summand is a variable. Ranks add by base/device_collectives.h; where the sum must have the
// same bits on any number of ranks they only gather, and every device adds in the order of comm/tree_sum.h.
#pragma once
#include <memory>
#include <vector>

#include "freight/base/device_collectives.h"
#include "freight/trace/compile.h"
#include "freight/trace/variable.h"
#include "freight/train/sharding.h"

namespace freight::train {

class DeviceSums {
 public:
  // `summands` are f32 and those that plans make and read; `ranks` outlives this. `exact`: see sharded_step.h. All
  // ranks have the same summands.
  DeviceSums(std::vector<Variable> summands, DeviceCollectives& ranks, const ShardAssignment& deal, bool exact,
             const CompileOptions& compile);
  ~DeviceSums();
  DeviceSums(const DeviceSums&) = delete;
  DeviceSums& operator=(const DeviceSums&) = delete;

  void start();   // a step begins
  void clear();   // the summands become zeros: those of a shard without samples
  void add();     // the summands are another shard's of this rank, in order
  void finish();  // they become the sums over all shards of all ranks
  // For a step that ends without finish(): the summand of that number is the last shard's, and becomes the sum of all
  // of this rank. It may be part of a recording.
  void add_kept(size_t summand) const;

  // Bytes on the device besides the summands, of which each shard has so many bytes.
  static size_t kept_bytes(size_t summands, const ShardAssignment& deal, bool exact);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The weights become what their owners (ranks) made of them: `owners` has one for each.
void broadcast(DeviceCollectives& ranks, const std::vector<Variable>& variables, const std::vector<int>& owners);

}  // namespace freight::train
