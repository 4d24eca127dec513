// See loss.h.
#include "freight/models/loss.h"

#include "freight/nn/container.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/reduce.h"
#include "freight/ops/shape.h"
#include "freight/trace/tracer.h"

namespace freight::models {

namespace {

using trace::fail_here;

Tensor mean_squared_error(const Tensor& outputs, const Tensor& y, Reduction reduction) {
  Shape targets = y.shape();
  if (targets.rank() == 1) targets.push_back(1);
  if (!is_floating(y.type().dtype) || targets != outputs.shape()) {
    fail_here("mse", "targets do not fit: got ", y.type(), ", the model returns ", outputs.type());
  }
  const Tensor loss = mse_loss(outputs, reshape(y, targets), Reduction::mean);
  return reduction == Reduction::sum ? loss * static_cast<double>(outputs.dim(0)) : loss;
}

// Classes (N, T) of results (N, T, K): whether a target counts, which one below 0 does not.
Tensor counted(const Tensor& outputs, const Tensor& y) {
  if (is_floating(y.dtype()) || y.rank() != 2 || y.dim(0) != outputs.dim(0) || y.dim(1) != outputs.dim(1)) {
    fail_here("cross_entropy", "targets do not fit: got ", y.type(), ", the model returns ", outputs.type());
  }
  return y >= 0;
}

Tensor token_cross_entropy(const Tensor& outputs, const Tensor& y, const LossOptions& o) {
  const int64_t places = y.numel();
  const Tensor counts = reshape(counted(outputs, y), {places});
  const Tensor labels = where(counts, reshape(y, {places}), 0);
  const DType exact = wide(outputs.dtype());  // 16 bits cannot count far
  const Tensor losses = cross_entropy(cast(reshape(outputs, {places, outputs.dim(2)}), exact), labels,
                                      {.label_smoothing = o.label_smoothing, .reduction = Reduction::none});
  const Tensor total = sum(where(counts, losses, 0.0));
  const Tensor loss = o.reduction == Reduction::sum ? total : total / maximum(sum(cast(counts, exact)), 1.0);
  return cast(loss, outputs.dtype());
}

// Mean or sum over the samples of what a program's own function gives.
Tensor over_samples(const char* what, const Objective::Function& function, const Tensor& outputs, const Tensor& y,
                    Reduction reduction) {
  const Tensor given = function(outputs, y);
  const auto samples = outputs.dim(0);
  if (!given.defined()) {
    fail_here(cat("the model's own ", what),
              "returned an undefined tensor, Tensor(): expected a number per sample, f32[", samples,
              "], or their mean, f32[]");
  }
  const bool each = given.rank() == 1 && given.dim(0) == samples && samples != 0;
  if (!is_floating(given.dtype()) || !(each || given.rank() == 0)) {
    fail_here(cat("the model's own ", what), "expected a number per sample, f32[", samples,
              "], or their mean, f32[], got ", given.type());
  }
  const Tensor numbers = cast(given, DType::f32);
  if (each) return reduction == Reduction::sum ? sum(numbers) : mean(numbers);
  return reduction == Reduction::sum ? numbers * static_cast<double>(samples) : numbers;
}

Tensor loss_of(const Model& model, const Tensor& outputs, const Tensor& y, const LossOptions& o) {
  if (model.own.loss) return over_samples("loss", model.own.loss, outputs, y, o.reduction);
  if (model.loss == Loss::mse) return mean_squared_error(outputs, y, o.reduction);
  if (outputs.rank() == 3) return token_cross_entropy(outputs, y, o);
  return cross_entropy(outputs, y, {.label_smoothing = o.label_smoothing, .reduction = o.reduction});
}

}  // namespace

Scored score(const Model& model, const Tensor& x, const Tensor& y, const LossOptions& options) {
  if (options.reduction == Reduction::none) fail_here("score", "the loss is a mean or a sum over the samples");
  const nn::AuxiliaryOutputs heads;
  const Tensor outputs = (*model.net)(x);
  Tensor loss = loss_of(model, outputs, y, options);
  for (const nn::AuxiliaryOutput& head : heads.list)
    loss = loss + loss_of(model, head.output, y, options) * head.weight;
  return {outputs, loss};
}

bool tells_top1(const Model& model) { return model.loss != Loss::mse && !model.own.metric; }

Tensor right_count(const Model& model, const Tensor& outputs, const Tensor& y) {
  if (model.own.metric) return over_samples("metric", model.own.metric, outputs, y, Reduction::sum);
  if (model.loss == Loss::mse) return zeros({});
  const Tensor right = cast(equal(argmax(outputs, -1), cast(y, DType::i32)), DType::f32);
  return sum(outputs.rank() == 3 ? right * cast(counted(outputs, y), DType::f32) : right);
}

}  // namespace freight::models
