// The shards of a rank, computed side by side: statistics over the whole batch (BatchNorm with --sync-batch-norm) are
// sums over all shards in the middle of their plans, so that none can end before all have come that far. Each has an
// arena of its own, and a block of its own for what it adds to the step's sums.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "freight/base/array.h"
#include "freight/ir/type.h"
#include "freight/run/collectives.h"
#include "freight/run/executable.h"
#include "freight/train/sharding.h"

namespace freight::train {

class ShardsTogether final : private Collectives {
 public:
  // The plan of a shard of these types; what it reads and updates, in the order of its leaves, as arrays that share the
  // variables' memory.
  struct Source {
    std::function<std::shared_ptr<const Plan>(const Type& x, const Type& y)> plan;
    std::function<std::vector<Array>(const Array& x, const Array& y)> states;
  };
  explicit ShardsTogether(Source source) : source_(std::move(source)) {}

  // Takes a copy of this rank's next shard, which may be empty, with the state of its random numbers.
  void add(const Array& x, const Array& y, const RandomState& random);
  size_t count() const { return shards_.size(); }
  void clear() { shards_.clear(); }

  // Runs all that were added. States that lie in `block` go to the shards' own blocks; the state at `random_state` is
  // the program's, in whose place each shard has its own. Sums are made over the shards of all ranks, in the tree over
  // them where `sharding` is exact.
  void run(const Array& block, const void* random_state, const Sharding& sharding, const ShardAssignment& deal);
  // The next are asked after run(). An empty shard has nothing but its rows.
  int64_t rows(size_t shard) const { return shards_[shard].x.shape()[0]; }
  const float* block(size_t shard) const { return slots_[shard]->block.data<float>(); }
  double loss(size_t shard) const { return static_cast<double>(slots_[shard]->results[0].data<float>()[0]); }
  double right(size_t shard) const { return static_cast<double>(slots_[shard]->results[1].data<float>()[0]); }

 private:
  struct Shard {
    Array x, y;
    RandomState random;
  };
  // A plan with its own memory.
  struct Bound {
    std::unique_ptr<Executable> executable;
    std::vector<Array> own;  // states in the shard's block
  };
  struct ShardBuffers {
    Array block;
    std::shared_ptr<SharedArena> arena = make_shared_arena();
    std::map<std::string, Bound> bound = {};  // by the shard's types
    std::vector<Array> results = {};
  };
  Bound& bind(size_t shard, const Array& block, const void* random_state);
  void ready(void*) override {}
  bool sum_within(std::span<void* const> parts, const Type& type) override;

  Source source_;
  const Sharding* sharding_ = nullptr;  // of the run, as the next one
  const ShardAssignment* deal_ = nullptr;
  std::vector<Shard> shards_;
  std::vector<std::unique_ptr<ShardBuffers>> slots_;
  std::vector<double> total_, mine_, all_;  // memory of sums, of any type
};

}  // namespace freight::train
