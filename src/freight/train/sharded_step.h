// A training step whose batch is cut into shards. Each shard's gradient sums are computed by themselves, with one plan
// for its shape; a second plan applies what all shards of all ranks sum up to. Sums and counts are added and divided
// once, so that shards of unequal size, masks of tokens, clipping and loss scaling come out as for the batch in one
// piece; statistics over a batch (BatchNorm) are those of each shard, and running ones the shards' mean by samples.
// With Sharding::shared_statistics they are those of the batch, for which a rank's shards run side by side
// (shards_together.h).
//
// `exact`: the sums are added in a tree over the shards (comm/tree_sum.h), so that the weights have the same bits
// whichever ranks computed them.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "freight/data/feed.h"
#include "freight/models/models.h"
#include "freight/optim/ema.h"
#include "freight/optim/loss_scale.h"
#include "freight/optim/optimizer.h"
#include "freight/trace/compile.h"
#include "freight/train/sharding.h"
#include "freight/train/step_timeline.h"

namespace freight::train {

class StateShares;

class ShardedStep {
 public:
  // All of them must outlive the step; `ema`, `scale` and `shares` may be null.
  struct Trained {
    const models::Model* model;
    optim::Optimizer* optimizer;
    optim::EMA* ema;
    const optim::LossScale* scale;
    double label_smoothing;
    const StateShares* shares = nullptr;  // null: the optimizer keeps all its states here
  };
  ShardedStep(const Trained& trained, const Sharding& sharding, const CompileOptions& compile);
  ~ShardedStep();
  ShardedStep(const ShardedStep&) = delete;
  ShardedStep& operator=(const ShardedStep&) = delete;

  // A step is add() for each shard of this rank, in order, and finish(). An empty shard counts for nothing.
  void add(const data::FeedBatch& shard);
  struct Outcome {
    double loss = 0;      // mean over the batch
    double right = 0;     // of all samples or tokens
    int64_t counted = 0;  // samples, or tokens that are asked; of 0 the model is not changed
  };
  // Meets the other ranks, and updates the weights where the loss is finite. Throws Error(peer_lost).
  Outcome finish();

  // The plans for a full batch of these types: per shape of this rank's shards one with how often it runs, in one
  // arena, then the update's, and that of averages where it is apart.
  struct Run {
    std::shared_ptr<const Plan> plan;
    int64_t times = 1;
    bool of_shard = false;
    bool beside = false;  // in an arena of its own, while the others of its rank are under way
  };
  std::vector<Run> plans(const Type& x, const Type& y);
  // The plan of the largest shard of a full batch, also where another rank has it.
  std::shared_ptr<const Plan> largest_shard(const Type& x, const Type& y);
  // The plan of a shard with its memory, for a profile.
  Executable& executable(const Array& x, const Array& y);
  // The times of the fastest step on a batch as large as any so far; no ranks where none sums over ranks.
  const StepTimeline& timeline() const;
  // Bytes that it keeps beside weights, states and arenas: sums.
  size_t kept_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace freight::train
