// See workload.h.
#include "freight/bench/workload.h"

#include <algorithm>

#include "freight/base/normal_draws.h"
#include "freight/base/philox.h"
#include "freight/models/loss.h"
#include "freight/ops/neural.h"
#include "freight/optim/create.h"
#include "freight/run/plan.h"
#include "freight/train/step.h"

namespace freight::bench {

Tensor WorkloadStep::operator()(const Tensor& x, const Tensor& y) const {
  if (!optimizer) {
    return models::predictions_of(*model, models::tempered(*model, (*model->net)(x)));
  }
  const Tensor loss = models::score(*model, x, y).loss;
  optimizer->step(loss);
  return loss;
}

namespace {

Array random_inputs(const models::Model& model, int64_t batch, PhiloxStream& rng) {
  const Type type = model.batch_type(batch);
  Array x(type.dtype, type.shape);
  if (model.reads_tokens()) {
    const auto tokens = static_cast<uint32_t>(std::max<int64_t>(model.vocabulary() - 1, 1));
    for (int64_t i = 0; i < x.numel(); ++i) x.data<int32_t>()[i] = static_cast<int32_t>(1 + rng.below(tokens));
  } else {
    normal_draws(x.data<float>(), x.numel(), 0, 0, 0);
  }
  return x;
}

Array random_targets(const models::Model& model, int64_t batch, const Array& x, PhiloxStream& rng) {
  if (model.language_model()) return x;
  const auto outputs = static_cast<uint32_t>(model.classes());
  if (models::regresses(model.loss)) {
    Array y(DType::f32, {batch, outputs});
    for (int64_t i = 0; i < y.numel(); ++i) y.data<float>()[i] = rng.normal();
    return y;
  }
  if (model.loss == models::Loss::multilabel) {
    Array y(DType::u8, {batch, outputs});
    for (int64_t i = 0; i < y.numel(); ++i) y.data<uint8_t>()[i] = static_cast<uint8_t>(rng.below(2));
    return y;
  }
  Array y(DType::i64, {batch});
  for (int64_t i = 0; i < y.numel(); ++i) y.data<int64_t>()[i] = rng.below(outputs);
  return y;
}

}  // namespace

std::pair<Array, Array> random_batch(const models::Model& model, int64_t batch) {
  PhiloxStream rng(0, 0, 1);
  Array x = random_inputs(model, batch, rng), y = random_targets(model, batch, x, rng);
  return {std::move(x), std::move(y)};
}

Workload::Workload(models::Model model, const WorkloadOptions& o) : model_(std::move(model)) {
  if (o.pass == Pass::training) {
    model_.net->train();
    optimizer_ = optim::create(o.optimizer, *model_.net, {});
    const Offload offload = o.compile.limit.offload;
    if (offload == Offload::optimizer || offload == Offload::all) train::keep_on_host(*optimizer_);
  } else {
    model_.net->eval();
  }
  const auto [x, y] = random_batch(model_, o.batch);
  CompileOptions compile = o.compile;
  compile.frozen = o.pass == Pass::inference;
  compile.input_names = {"images", "labels"};
  step_ = std::make_unique<Compiled<WorkloadStep>>(WorkloadStep{&model_, optimizer_.get()}, compile);
  const Graph& g = step_->graph(x, y);
  inputs_ = {x, y};
  results_ = {Array(g.type(g.outputs[0]).dtype, g.type(g.outputs[0]).shape)};
  executable_ = &step_->executable(x, y);  // which draws the weights beside the plan
}

}  // namespace freight::bench
