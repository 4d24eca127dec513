// See net_training.h.
#include "freight/train/net_training.h"

#include "freight/finetune/frozen_part.h"
#include "freight/finetune/rates.h"
#include "freight/job/ranks.h"
#include "freight/job/state_shares.h"
#include "freight/nn/evaluating.h"
#include "freight/run/plan.h"
#include "freight/train/diverged.h"

namespace freight::train {

NetTraining::NetTraining(const Config& c, models::Model m, std::shared_ptr<optim::Optimizer> own_optimizer)
    : config(c),
      model(std::move(m)),
      frozen(finetune::freeze(model, c.freeze)),
      optimizer(own_optimizer ? std::move(own_optimizer) : make_optimizer(c, model)) {}

NetTraining::~NetTraining() = default;

// Ranks share a batch as it is accumulated: in so many parts each.
job::Sharding sharding_of(const Config& c, job::Ranks* ranks) {
  const int64_t parts = ranks ? ranks->world() * c.grad_accum : 0;
  return {.shards = c.shards > 0 ? c.shards : parts,
          .exact = c.shards > 0,
          .batch_size = c.batch_size,
          .shared_statistics = c.sync_batch_norm,
          .ranks = ranks};
}

void NetTraining::plan_step(const std::pair<Type, Type>& batch_types, const CompileOptions& options,
                            const DeviceData* data, job::Ranks* ranks) {
  inputs = batch_types.first;
  targets = batch_types.second;
  compile = options;
  if (config.model_ema > 0 && !averages) {
    averages = std::make_unique<optim::EMA>(*model.net, optim::EMAOptions{.decay = config.model_ema});
  }
  stepped().net->train();
  const job::Sharding sharding = sharding_of(config, ranks);
  step = std::make_unique<TrainStep>(
      stepped(), *optimizer, averages.get(),
      StepOptions{.loss = {.label_smoothing = config.label_smoothing, .class_weights = class_weights},
                  .parts = sharding.shards > 0 ? 1 : config.grad_accum,
                  .data = data,
                  .sharding = sharding,
                  .shares = shares.get(),
                  .unused = &unused},
      compile);
}

namespace {

TestViews views_of(const Config& config) {
  TestViews views = TestViews::one;
  parse_test_views(config.tta, views);
  return views;
}

// An evaluation has its own memory: the limit is that of the step.
CompileOptions without_limit(CompileOptions options) {
  options.limit = {};
  return options;
}

}  // namespace

void NetTraining::plan_evaluation(int64_t test_count, const TestTypes& types) {
  // The predictions of a small set are kept, for its metrics with intervals.
  constexpr int64_t kMostKept = 1 << 20;
  const bool has_metrics = !model.language_model() && !model.own.loss && !model.own.metric;
  if (has_metrics && test_count * model.classes() <= kMostKept) keep = Evaluator::Keep::predictions;
  // Of shards the largest one counts, whoever has it: which of them a device computes, and which states it updates
  // (--shard-optimizer), must not decide in what batches it evaluates. Ranks evaluate in the same ones, and these round
  // the figures that are stored.
  const std::shared_ptr<const Plan> shard = step->largest_shard(inputs, targets);
  const size_t arena = shard ? shard->arena_bytes() : arena_bytes(step->plans(inputs, targets));
  const StepBeside beside{.samples = step->part_of(config.batch_size), .arena_bytes = arena};
  evaluation =
      evaluation_beside(evaluated(), without_limit(compile), views_of(config), beside, test_count, types, keep);
}

std::unique_ptr<Evaluator> NetTraining::make_evaluator() {
  evaluated().temperature = model.temperature;
  return std::make_unique<Evaluator>(evaluated(), without_limit(compile), evaluation.batch, views_of(config), keep);
}

void NetTraining::train_rest(const FeatureSamples& samples) {
  models::Model trained = finetune::FrozenPart(model, samples.trained).rest();
  const nn::Evaluating evaluating(*model.net);
  rest_ = std::make_unique<Rest>(
      Rest{samples, std::move(trained), samples.tested ? finetune::FrozenPart(model, *samples.tested).rest() : model});
}

Planned NetTraining::planned() const {
  return {.config = config,
          .model = model,
          .optimizer = *optimizer,
          .ema = averages.get(),
          .inputs = inputs,
          .targets = targets,
          .step = step->plans(inputs, targets),
          .evaluation = evaluation.plan,
          .test_inputs = evaluation.inputs,
          .test_targets = evaluation.targets,
          .evaluation_batch = evaluation.batch,
          .train_count = 0,
          .test_count = 0,
          .features = rest_ ? std::optional(rest_->samples) : std::nullopt};
}

void NetTraining::share_states(job::Ranks& ranks) { shares = std::make_unique<job::StateShares>(*optimizer, ranks); }

std::vector<nn::NamedVariable> NetTraining::states_with(const std::vector<nn::NamedVariable>& of_optimizer) const {
  std::vector<nn::NamedVariable> all = step->state_dict();
  for (const auto& v : of_optimizer) all.push_back({"optimizer." + v.name, v.variable});
  if (averages) {
    for (const auto& v : averages->state_dict()) all.push_back({"ema." + v.name, v.variable});
  }
  all.push_back({"rng", rng_state()});
  return all;
}

std::string NetTraining::first_nonfinite() const {
  std::string at = train::first_nonfinite(model.net->state_dict());
  return at.empty() ? train::first_nonfinite(states()) : at;
}

}  // namespace freight::train
