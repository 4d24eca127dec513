// The training step of a run: forward, gradients, update. A whole batch is one plan. A batch that is cut into parts
// takes two: one adds a part's gradients to accumulators, one applies them, so that the activations of only one part
// are alive at a time. The parts' means are weighted by the targets that count (data/feed.h): gradients are those of
// the whole batch, but for statistics over a batch (BatchNorm).
#pragma once
#include <memory>
#include <string>

#include "freight/data/feed.h"
#include "freight/job/parts.h"
#include "freight/job/step_timeline.h"
#include "freight/models/loss.h"
#include "freight/optim/ema.h"
#include "freight/optim/loss_scale.h"
#include "freight/optim/optimizer.h"
#include "freight/optim/schedule.h"
#include "freight/optim/unused_parameters.h"
#include "freight/trace/compile.h"
#include "freight/train/config.h"

namespace freight::job {
class StateShares;
}  // namespace freight::job

namespace freight::train {

// The learning rate of a network: the configuration's, or kRateOfNets if it is automatic.
double learning_rate(const Config& config);
// The optimizer that a configuration names, of the trainable parameters of the network, in groups where their rates
// differ; its state lies where `offload` says.
std::unique_ptr<optim::Optimizer> make_optimizer(const Config& config, const models::Model& model);
// The rates of a run of `total` steps, warm-up included.
optim::Schedule make_schedule(const Config& config, int64_t steps_per_epoch, int64_t total);

// The optimizer's states of some size live in host memory from here on: to be said before a step is compiled.
void keep_on_host(const optim::Optimizer& optimizer);

// The samples [first, first + count) of a batch, in place.
Array batch_rows(const Array& a, int64_t first, int64_t count);

class DeviceData;

struct StepOptions {
  models::LossOptions loss = {};  // over the samples of a batch, as their mean
  int64_t parts = 1;
  const DeviceData* data = nullptr;           // makes the batches of enqueue(); needs a whole batch, in one part
  optim::LossScaleOptions loss_scale = {};    // if the step computes in f16
  job::Sharding sharding = {};                // of a batch in one part, which is then no argument of run()
  const job::StateShares* shares = nullptr;   // with whom the optimizer's states are shared; null: they are all here
  optim::UnusedParameters* unused = nullptr;  // gets them when the step is traced; null: they are an error
};

class TrainStep {
 public:
  // All of them must outlive the step, options.data too; `ema` may be null.
  TrainStep(const models::Model& model, optim::Optimizer& optimizer, optim::EMA* ema, const StepOptions& options,
            const CompileOptions& compile);
  ~TrainStep();
  TrainStep(const TrainStep&) = delete;
  TrainStep& operator=(const TrainStep&) = delete;

  struct Outcome {
    double loss = 0;   // mean over the batch
    double right = 0;  // samples or tokens; by the larger share where labels are mixed
  };
  // One step on inputs x (N, ...) and targets y: classes i64 (N), probabilities f32 (N, K), values, or tokens i32 (N,
  // T). Weights, optimizer state and averages change only if the loss (in f16 also every gradient) is finite. With
  // parts > 1, running statistics and random state advance with each part whose loss is finite. Throws Error(diverged)
  // if gradients are infinite at any loss scale.
  Outcome run(const Array& x, const Array& y);
  // A step on a batch that is cut into shards (part_step.h): add_shard() for each shard of this rank, then
  // finish_shards(), which returns the same as run(), and in `counted` PartStep::Outcome::counted.
  void add_shard(const data::FeedBatch& shard);
  Outcome finish_shards(int64_t& counted);
  // Enqueues `times` steps on the next batches of StepOptions::data, as one piece of work if the device can.
  // DeviceData::results has their results. Steps after one with a loss that is not finite change nothing.
  void enqueue(int64_t times);
  // Throws Error(diverged) if the loss scale is so low that gradients are infinite at any. For results of enqueue().
  static void check_scale(double scale);

  struct Summary {
    double flops = 0;        // of the whole step
    size_t arena_bytes = 0;  // the larger plan's
    size_t plan_steps = 0;   // of all plans
    std::string backend;
  };
  // For batches of these types, or those that the device makes; plans, but runs nothing.
  Summary summary(const Type& x, const Type& y);
  // Throws Error(usage) where a normalization would have one value per channel of such a batch, or of a part of it.
  void need_batch_statistics(const Type& x, const Type& y);
  // The number of samples of such a batch, from the first, that can be trained on without such a part; 0 if none.
  int64_t trainable(const Type& x, const Type& y);
  // The plans of a step on such a batch, and how often each runs in it. Each has an arena of its own, but for one that
  // works in the arena of the run before it, which is not smaller.
  struct Run {
    std::shared_ptr<const Plan> plan;
    int64_t times = 1;
    bool shares_arena = false;
    bool of_shard = false;  // one of this rank's shards; other ranks compute the others
  };
  std::vector<Run> plans(const Type& x, const Type& y);
  // The plan of the largest shard of all ranks; null where batches are not cut into shards.
  std::shared_ptr<const Plan> largest_shard(const Type& x, const Type& y);
  // The plan of this rank's largest shard, ready to run alone for a profile, with inputs and targets from this batch.
  // Its sums over ranks are not made. Only for batches that are cut into shards.
  Executable& part_executable(const Array& x, const Array& y);
  // The memory for gradient sums, in bytes; 0 without shards.
  size_t kept_bytes() const;
  // The timeline of a step that is summed over ranks (step_timeline.h); null for others.
  const job::StepTimeline* timeline() const;
  // Samples of a batch that run at once.
  int64_t part_of(int64_t batch) const;
  // States of the step itself, beside those of optimizer and averages.
  std::vector<nn::NamedVariable> state_dict() const;
  // Null unless the step computes in f16.
  const optim::LossScale* loss_scale() const;
  // The shards of the last step, by number within the batch, whose loss is NaN or infinite, on whatever rank.
  std::vector<int64_t> nonfinite_shards() const;
  // The layer where a step on this batch, or shard of a batch, first goes wrong: diverged.h.
  std::string first_nonfinite(const Array& x, const Array& y);

 private:
  bool leaves_one_sample(int64_t count) const;  // in the smallest part of a batch
  struct State;
  std::unique_ptr<State> state_;
};

// The bytes of all plans of a step together.
size_t arena_bytes(const std::vector<TrainStep::Run>& plans);

}  // namespace freight::train
