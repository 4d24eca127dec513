// A training step whose batch is cut into parts (job/parts.h): a plan per shape of a part computes its gradients, these
// are summed over the parts of all ranks (job/gradient_sum.h), and a second plan makes the update. Sums and counts are
// added and divided once, so that parts of unequal size, masks of tokens, clipping and loss scaling come out as for the
// batch in one piece; statistics over a batch (BatchNorm) are those of each part, and running ones the parts' mean by
// samples. With Sharding::shared_statistics they are those of the batch, for which a rank's parts are interleaved
// (interleaved_parts.h).
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "freight/data/feed.h"
#include "freight/job/parts.h"
#include "freight/job/step_timeline.h"
#include "freight/models/loss.h"
#include "freight/optim/ema.h"
#include "freight/optim/loss_scale.h"
#include "freight/optim/optimizer.h"
#include "freight/optim/unused_parameters.h"
#include "freight/trace/compile.h"

namespace freight::job {
class StateShares;
}  // namespace freight::job

namespace freight::train {

class PartStep {
 public:
  // All of them must outlive the step; `ema`, `scale` and `shares` may be null.
  struct Trained {
    const models::Model* model;
    optim::Optimizer* optimizer;
    optim::EMA* ema;
    const optim::LossScale* scale;
    models::LossOptions loss;
    const job::StateShares* shares = nullptr;   // null: the optimizer keeps all its states here
    optim::UnusedParameters* unused = nullptr;  // see StepOptions
  };
  PartStep(const Trained& trained, const job::Sharding& sharding, const CompileOptions& compile);
  ~PartStep();
  PartStep(const PartStep&) = delete;
  PartStep& operator=(const PartStep&) = delete;

  // A step is add() for each part of this rank, in order, and finish(). An empty part counts for nothing.
  void add(const data::FeedBatch& part);
  struct Outcome {
    double loss = 0;      // mean over the batch
    double right = 0;     // of all samples or tokens
    int64_t counted = 0;  // samples, or tokens that count in the loss
  };
  // Sums over all ranks, exchanges losses and requests, and updates if the loss is finite. Throws Error(peer_lost).
  Outcome finish();

  // The parts whose loss was not finite in the last step, of all ranks, by number within the batch.
  const std::vector<int64_t>& nonfinite_parts() const;

  // The plans for a full batch of these types: per shape of this rank's parts one with how often it runs, in one
  // arena, then the update's, and that of averages where it is apart.
  struct Run {
    std::shared_ptr<const Plan> plan;
    int64_t times = 1;
    bool of_part = false;
    bool own_arena = false;  // since the rank's parts are interleaved
  };
  std::vector<Run> plans(const Type& x, const Type& y);
  // The plan of the largest part of a full batch, also where another rank has it.
  std::shared_ptr<const Plan> largest_part(const Type& x, const Type& y);
  // The plan of a part with its memory, for a profile.
  Executable& executable(const Array& x, const Array& y);
  // The times of the fastest step on a batch as large as any so far; no ranks where none sums over ranks.
  const job::StepTimeline& timeline() const;
  // The memory for sums, in bytes, in addition to weights, states and arenas.
  size_t kept_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace freight::train
