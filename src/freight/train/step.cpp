// See step.h.
#include "freight/train/step.h"

#include <algorithm>
#include <cmath>

#include "freight/base/error.h"
#include "freight/finetune/rates.h"
#include "freight/models/loss.h"
#include "freight/ops/ops.h"
#include "freight/optim/create.h"
#include "freight/run/plan.h"
#include "freight/trace/batch_statistics.h"
#include "freight/train/device_data.h"
#include "freight/train/diverged.h"
#include "freight/train/part_step.h"
#include "freight/train/step_internal.h"

namespace freight::train {

namespace {

// A smaller state costs more to copy than it frees.
constexpr size_t kLeastOnHost = 4096;

struct Forward {
  const models::Model* model;
  models::LossOptions options;
  // (loss, number right)
  std::pair<Tensor, Tensor> operator()(const Tensor& x, const Tensor& y) const {
    const auto [outputs, loss] = models::score(*model, x, y, options);
    return {loss, right_of(*model, outputs, y)};
  }
};

struct Whole {
  Forward forward;
  optim::Optimizer* optimizer;
  optim::EMA* ema;
  const optim::LossScale* scale;    // or null
  optim::UnusedParameters* unused;  // or null
  std::pair<Tensor, Tensor> operator()(const Tensor& x, const Tensor& y) const {
    const auto [loss, right] = forward(x, y);
    update(*optimizer, ema, scale, loss, gradients_of(loss, *optimizer, scale, unused));
    return {loss, right};
  }
};

// The same on a batch that the device makes; its results stay there.
struct FromDevice {
  Whole whole;
  const DeviceData* data;
  void operator()() const {
    const auto [x, y] = data->batch();
    whole.optimizer->lr_variable().assign(data->rate());
    const auto [loss, right] = whole.forward(x, y);
    update(*whole.optimizer, whole.ema, whole.scale, loss,
           gradients_of(loss, *whole.optimizer, whole.scale, whole.unused), data);
    data->finish(loss, right, whole.scale ? whole.scale->value() : ones({}));
  }
};

// (x, y, share of the batch) -> (share * loss, number right); gradients go to the accumulators.
struct Accumulate {
  Forward forward;
  optim::Optimizer* optimizer;
  const std::vector<Variable>* sums;
  const optim::LossScale* scale;
  optim::UnusedParameters* unused;
  std::pair<Tensor, Tensor> operator()(const Tensor& x, const Tensor& y, const Tensor& share) const {
    const auto [mean, right] = forward(x, y);
    const Tensor loss = mean * share;
    const std::vector<Tensor> gradients = gradients_of(loss, *optimizer, scale, unused);
    for (size_t i = 0; i < gradients.size(); ++i) (*sums)[i].assign((*sums)[i] + gradients[i]);
    assign_only_if(is_finite(loss));
    return {loss, right};
  }
};

// (loss of the batch): the update, and empty accumulators.
struct Apply {
  optim::Optimizer* optimizer;
  optim::EMA* ema;
  const std::vector<Variable>* sums;
  const optim::LossScale* scale;
  void operator()(const Tensor& loss) const {
    std::vector<Tensor> gradients;
    for (const Variable& s : *sums) gradients.push_back(s.value());
    update(*optimizer, ema, scale, loss, gradients);
    for (const Variable& s : *sums) s.assign(zeros(s.shape(), s.type().dtype));
  }
};

void need_scale(const optim::LossScale* scale) {
  if (scale) TrainStep::check_scale(scale->factor());
}

}  // namespace

Type rows(const Type& t, int64_t count) {
  Type out = t;
  out.shape[0] = count;
  return out;
}

Tensor right_of(const models::Model& model, const Tensor& outputs, const Tensor& y) {
  if (model.own.observe) model.own.observe(outputs, y);
  const bool mixed = models::has_accuracy(model) && !model.own.loss && is_floating(y.type().dtype);
  return models::right_count(model, outputs, mixed ? argmax(y, 1) : y);
}

std::vector<Tensor> gradients_of(const Tensor& loss, const optim::Optimizer& optimizer, const optim::LossScale* scale,
                                 optim::UnusedParameters* unused) {
  return optimizer.gradients([&](const std::vector<Variable>& trained) {
    std::vector<size_t> found;
    const GradOptions options{.unused = unused ? &found : nullptr};
    std::vector<Tensor> gradients = scale ? scale->gradients(loss, trained, options) : grad(loss, trained, options);
    for (const size_t i : found) unused->add(trained[i]);
    return gradients;
  });
}

void update(optim::Optimizer& optimizer, optim::EMA* ema, const optim::LossScale* scale, const Tensor& loss,
            const std::vector<Tensor>& gradients, const DeviceData* data) {
  // A batch whose targets are all ignored has a loss and gradients of 0. Momentum and weight decay act in its step, as
  // in PyTorch, whose gradients are 0, too.
  optimizer.apply(gradients);
  if (ema) ema->update();
  Tensor sound = is_finite(loss);
  if (data) sound = logical_and(sound, data->all_finite_so_far());
  if (scale) sound = logical_and(sound, optim::LossScale::all_finite(gradients));
  assign_only_if(sound);
  if (!scale) return;
  scale->update(sound);
  if (data) assign_only_if(data->all_finite_so_far());  // nothing changes behind a step that went wrong
}

double learning_rate(const Config& c) { return c.lr == kAutomaticRate ? kRateOfNets : c.lr; }

finetune::RateSettings rate_settings(const Config& c) {
  return {.lr = learning_rate(c), .head_lr = c.head_lr, .decay = c.lr_layer_decay, .scale = c.lr_scale};
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Config& c, const models::Model& model) {
  auto optimizer = optim::create(c.optimizer, *model.net,
                                 {.lr = learning_rate(c),
                                  .momentum = c.momentum,
                                  .nesterov = c.nesterov,
                                  .weight_decay = c.weight_decay,
                                  .clip_grad_norm = c.clip_grad_norm,
                                  .decay_norm_bias = c.decay_norm_bias},
                                 finetune::groups_of(model, rate_settings(c)));
  const Offload offload = parse_offload(c.offload);
  if (offload == Offload::optimizer || offload == Offload::all) keep_on_host(*optimizer);
  return optimizer;
}

optim::Schedule make_schedule(const Config& c, int64_t steps_per_epoch, int64_t total) {
  using optim::Schedule;
  const auto warmup = static_cast<int64_t>(std::llround(c.lr_warmup_epochs * static_cast<double>(steps_per_epoch)));
  const int64_t rest = std::max<int64_t>(total - warmup, 1);
  const double lr = learning_rate(c);
  const Schedule s = c.lr_scheduler == "step"       ? Schedule::step(lr, c.lr_step_size * steps_per_epoch, c.lr_gamma)
                     : c.lr_scheduler == "cosine"   ? Schedule::cosine(lr, rest)
                     : c.lr_scheduler == "onecycle" ? Schedule::one_cycle(lr, rest, {.pct_start = c.onecycle_pct_start})
                                                    : Schedule::constant(lr);
  return warmup > 0 ? s.warmup(warmup) : s;
}

void keep_on_host(const optim::Optimizer& optimizer) {
  for (const nn::NamedVariable& v : optimizer.states()) {
    if (v.variable.type().bytes() >= kLeastOnHost) v.variable.set_on_host(true);
  }
}

Array batch_rows(const Array& a, int64_t first, int64_t count) {
  Shape shape = a.shape();
  const size_t row = shape[0] == 0 ? 0 : a.bytes() / static_cast<size_t>(shape[0]);
  shape[0] = count;
  auto* data = static_cast<char*>(a.raw()) + static_cast<size_t>(first) * row;
  return {a.dtype(), shape, Storage::borrow(data, static_cast<size_t>(count) * row, a.storage())};
}

struct TrainStep::State {
  int64_t parts;
  std::unique_ptr<optim::LossScale> scale;
  std::vector<Variable> sums;
  Compiled<Whole> whole;
  Compiled<FromDevice> from_device;
  Compiled<Accumulate> accumulate;
  Compiled<Apply> apply;
  bool on_device;
  job::Sharding sharding = {};
  std::unique_ptr<PartStep> sharded = {};  // null where the batch is not cut into shards

  // The division of a batch into equal parts, or parts that differ by one sample; some are empty if it is shorter.
  data::Share pieces() const { return {.of = parts, .end = parts, .cut = true}; }
  int64_t part_of(int64_t count) const { return (sharded ? sharding.deal().pieces() : pieces()).most_rows(count); }
};

TrainStep::TrainStep(const models::Model& model, optim::Optimizer& optimizer, optim::EMA* ema,
                     const StepOptions& options, const CompileOptions& compile) {
  const Forward forward{&model, options.loss};
  const auto named = [&](std::vector<std::string> names) {
    CompileOptions c = compile;
    c.input_names = std::move(names);
    return c;
  };
  auto owned = compile.compute == DType::f16 ? std::make_unique<optim::LossScale>(options.loss_scale) : nullptr;
  const optim::LossScale* scale = owned.get();
  state_ = std::make_unique<State>(
      State{options.parts,
            std::move(owned),
            {},
            {Whole{forward, &optimizer, ema, scale, options.unused}, named({"inputs", "targets"})},
            {FromDevice{{forward, &optimizer, ema, scale, options.unused}, options.data}, named({})},
            {Accumulate{forward, &optimizer, nullptr, scale, options.unused}, named({"inputs", "targets", "share"})},
            {Apply{&optimizer, ema, nullptr, scale}, named({"loss"})},
            options.data != nullptr});
  FREIGHT_CHECK(!options.data || options.parts == 1, "the device makes whole batches");
  if (options.sharding.shards > 0) {
    FREIGHT_CHECK(!options.data && options.parts == 1, "a batch is divided into shards, or else into parts");
    state_->sharding = options.sharding;
    state_->sharded = std::make_unique<PartStep>(
        PartStep::Trained{&model, &optimizer, ema, scale, options.loss, options.shares, options.unused},
        options.sharding, compile);
  }
  if (options.parts == 1) return;
  for (const Variable& p : optimizer.parameters()) state_->sums.emplace_back("gradient." + p.name(), p.type());
  state_->accumulate = {Accumulate{forward, &optimizer, &state_->sums, scale, options.unused},
                        named({"inputs", "targets", "share"})};
  state_->apply = {Apply{&optimizer, ema, &state_->sums, scale}, named({"loss"})};
}

TrainStep::~TrainStep() = default;

const optim::LossScale* TrainStep::loss_scale() const { return state_->scale.get(); }

std::vector<nn::NamedVariable> TrainStep::state_dict() const {
  std::vector<nn::NamedVariable> all;
  if (!state_->scale) return all;
  for (const nn::NamedVariable& v : state_->scale->state_dict()) all.push_back({"loss_scale." + v.name, v.variable});
  return all;
}

TrainStep::Outcome TrainStep::run(const Array& x, const Array& y) {
  State& s = *state_;
  if (s.parts == 1) {
    const auto [loss, right] = s.whole(x, y);
    need_scale(s.scale.get());
    return {static_cast<double>(loss.item<float>()), static_cast<double>(right.item<float>())};
  }
  const int64_t count = x.shape()[0];
  const double counted = static_cast<double>(std::max<int64_t>(data::counted(y), 1));
  Outcome sum;
  for (int64_t i = 0; i < s.parts; ++i) {
    const auto [first, n] = s.pieces().rows(i, count);
    if (n == 0) continue;
    const Array targets = batch_rows(y, first, n);
    const auto share = static_cast<float>(static_cast<double>(data::counted(targets)) / counted);
    const auto [loss, right] = s.accumulate(batch_rows(x, first, n), targets, Array::of<float>({share}, {}));
    sum.loss += static_cast<double>(loss.item<float>());
    sum.right += static_cast<double>(right.item<float>());
  }
  s.apply(Array::of<float>({static_cast<float>(sum.loss)}, {}));
  need_scale(s.scale.get());
  return sum;
}

void TrainStep::add_shard(const data::FeedBatch& shard) { state_->sharded->add(shard); }

TrainStep::Outcome TrainStep::finish_shards(int64_t& counted) {
  const PartStep::Outcome o = state_->sharded->finish();
  need_scale(state_->scale.get());
  counted = o.counted;
  return {o.loss, o.right};
}

std::shared_ptr<const Plan> TrainStep::largest_shard(const Type& x, const Type& y) {
  return state_->sharded ? state_->sharded->largest_part(x, y) : nullptr;
}

Executable& TrainStep::part_executable(const Array& x, const Array& y) {
  FREIGHT_CHECK(state_->sharded, "the batch is not cut into shards");
  const int64_t part = part_of(x.shape()[0]);
  return state_->sharded->executable(batch_rows(x, 0, part), batch_rows(y, 0, part));
}

size_t TrainStep::kept_bytes() const { return state_->sharded ? state_->sharded->kept_bytes() : 0; }

const job::StepTimeline* TrainStep::timeline() const {
  return state_->sharded && state_->sharded->timeline().ranks > 0 ? &state_->sharded->timeline() : nullptr;
}

int64_t TrainStep::part_of(int64_t batch) const { return state_->part_of(batch); }

size_t arena_bytes(const std::vector<TrainStep::Run>& plans) {
  size_t sum = 0;
  for (const TrainStep::Run& run : plans) sum += run.shares_arena ? 0 : run.plan->arena_bytes();
  return sum;
}

void TrainStep::enqueue(int64_t times) { state_->from_device.repeat(times); }

// Scaling cannot help gradients that are infinite below a factor of 2^-20.
void TrainStep::check_scale(double scale) {
  if (scale > 0x1p-20) return;
  fail(ErrorKind::diverged, "train", "NaN or infinite gradients in fp16 at every loss scale: expected more than ",
       0x1p-20, ", got ", scale, "; try a smaller --lr, --precision bf16 or fp32");
}

std::vector<TrainStep::Run> TrainStep::plans(const Type& x, const Type& y) {
  State& s = *state_;
  if (s.on_device) return {{s.from_device.plan(), 1}};
  if (s.sharded) {
    std::vector<Run> runs;
    const std::vector<PartStep::Run> all = s.sharded->plans(x, y);
    for (size_t i = 0; i < all.size(); ++i) {
      const bool smaller = i > 0 && all[i].of_part && !all[i].own_arena;  // in the arena of the larger ones
      runs.push_back({all[i].plan, all[i].times, smaller, all[i].of_part});
    }
    return runs;
  }
  if (s.parts == 1) return {{s.whole.plan(x, y), 1}};
  const int64_t least = x.shape[0] / s.parts, larger = x.shape[0] % s.parts;  // parts of one more sample
  const Type scalar{DType::f32, {}};
  std::vector<Run> runs;
  const auto add = [&](int64_t n, int64_t times) {
    if (n > 0 && times > 0) runs.push_back({s.accumulate.plan(rows(x, n), rows(y, n), scalar), times});
  };
  add(least + 1, larger);
  add(least, s.parts - larger);
  if (runs.size() == 2) {
    if (runs[1].plan->arena_bytes() > runs[0].plan->arena_bytes()) std::swap(runs[0], runs[1]);
    runs[1].shares_arena = true;
  }
  runs.push_back({s.apply.plan(scalar), 1});
  return runs;
}

bool TrainStep::leaves_one_sample(int64_t count) const {
  if (state_->sharded && state_->sharding.shared_statistics) return count == 1;
  if (state_->sharded) return state_->sharding.deal().least_rows(count) <= 1;
  return std::max<int64_t>(count / state_->parts, 1) == 1;  // the smallest part that is not empty
}

void TrainStep::need_batch_statistics(const Type& x, const Type& y) {
  if (leaves_one_sample(x.shape[0])) trace::need_batch_statistics(state_->whole.graph(rows(x, 1), rows(y, 1)));
}

int64_t TrainStep::trainable(const Type& x, const Type& y) {
  int64_t count = x.shape[0];
  if (!leaves_one_sample(count) || !trace::norm_without_variance(state_->whole.graph(rows(x, 1), rows(y, 1)))) {
    return count;
  }
  while (count > 0 && leaves_one_sample(count)) --count;
  return count;
}

TrainStep::Summary TrainStep::summary(const Type& x, const Type& y) {
  Summary sum;
  // A rank has its own shards, and the others' samples cost as much as its own.
  double others = 1;
  if (state_->sharded) {
    const data::Share own = state_->sharding.deal().pieces();
    int64_t samples = 0;
    for (int64_t i = own.first; i < own.end; ++i) samples += own.rows(i, x.shape[0]).second;
    others = static_cast<double>(x.shape[0]) / static_cast<double>(std::max<int64_t>(samples, 1));
  }
  const std::vector<Run> runs = plans(x, y);
  for (const Run& run : runs) {
    const double ranks = run.of_shard ? others : 1;
    sum.flops += run.plan->total_cost().flops * static_cast<double>(run.times) * ranks;
    sum.arena_bytes = std::max(sum.arena_bytes, run.plan->arena_bytes());
    sum.plan_steps += run.plan->steps().size();
    sum.backend = run.plan->options().backend;
  }
  return sum;
}

std::vector<int64_t> TrainStep::nonfinite_shards() const { return state_->sharded->nonfinite_parts(); }

std::string TrainStep::first_nonfinite(const Array& x, const Array& y) {
  // The graph without parts finds the same layer, since parts only divide the samples.
  State& s = *state_;
  const Graph& graph = s.whole.graph(x, y);
  std::vector<Array> inputs = s.whole.leaves(x, y);
  inputs.insert(inputs.begin(), {x, y});
  const auto states = inputs.begin() + static_cast<int64_t>(graph.leaves(Op::input).size());
  return train::first_nonfinite(graph, {inputs.begin(), states}, {states, inputs.end()}, s.whole.plan(x, y)->options());
}

}  // namespace freight::train
