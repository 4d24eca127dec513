// See loss.h.
#include "freight/models/loss.h"

#include <limits>

#include "freight/nn/container.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/index.h"
#include "freight/ops/reduce.h"
#include "freight/ops/shape.h"
#include "freight/trace/tracer.h"

namespace freight::models {

namespace {

using trace::fail_here;

// One number per value, (1, K).
Tensor per_value(const std::vector<float>& values) {
  return Tensor(Array::of<float>(values, {1, static_cast<int64_t>(values.size())}));
}

Tensor loss_of_labels(const Tensor& outputs, const Tensor& y, Reduction reduction) {
  if (y.dtype() != DType::u8 || y.shape() != outputs.shape()) {
    fail_here("multilabel", "targets do not fit: expected u8 ", outputs.shape(), ", got ", y.type());
  }
  const Tensor logits = cast(outputs, wide(outputs.dtype()));
  const Tensor loss = bce_with_logits(logits, cast(y, logits.dtype()), {.reduction = Reduction::mean});
  return cast(reduction == Reduction::sum ? loss * static_cast<double>(outputs.dim(0)) : loss, outputs.dtype());
}

Tensor loss_of_values(const Model& model, Tensor outputs, const Tensor& y, Reduction reduction) {
  Shape targets = y.shape();
  if (outputs.rank() == 1) outputs = reshape(outputs, {outputs.dim(0), 1});  // a number per sample
  if (targets.rank() == 1) targets.push_back(1);
  if (!is_floating(y.type().dtype) || targets != outputs.shape()) {
    fail_here(to_string(model.loss), "targets do not fit: got ", y.type(), ", the model returns ", outputs.type());
  }
  Tensor values = reshape(y, targets);
  if (const TargetScale& scale = model.target_scale; scale.any()) {
    values = (values - per_value(scale.mean)) / per_value(scale.deviation);
  }
  const Tensor loss = model.loss == Loss::huber ? huber_loss(outputs, values)
                      : model.loss == Loss::mae ? l1_loss(outputs, values)
                                                : mse_loss(outputs, values);
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

// The share of each class in the samples, (N, K): of classes (N) all of one, of mixed ones as they are.
Tensor shares_of(const Tensor& outputs, const Tensor& y, double smoothing) {
  const int64_t n = outputs.dim(0), k = outputs.dim(1);
  const bool mixed = is_floating(y.dtype());
  if (y.shape() != (mixed ? Shape{n, k} : Shape{n})) {
    fail_here("loss", "targets do not fit: got ", y.type(), ", the model returns ", outputs.type());
  }
  const Tensor shares = cast(mixed ? y : one_hot(y, k), wide(outputs.dtype()));
  return smoothing > 0 ? shares * (1 - smoothing) + smoothing / static_cast<double>(k) : shares;
}

// The losses of samples with a class each, (N).
Tensor losses_of_classes(Loss loss, const Tensor& outputs, const Tensor& y, double smoothing) {
  if (loss == Loss::cross_entropy) {
    return cross_entropy(outputs, y, {.label_smoothing = smoothing, .reduction = Reduction::none});
  }
  if (outputs.rank() != 2) fail_here(to_string(loss), "expected results (N, K), got ", outputs.type());
  const Tensor logits = cast(outputs, wide(outputs.dtype())), shares = shares_of(outputs, y, smoothing);
  if (loss == Loss::bce) return sum(bce_with_logits(logits, shares, {.reduction = Reduction::none}), 1);
  const Tensor logs = log_softmax(logits, 1), rest = 1.0 - exp(logs);
  return sum(shares * rest * rest * logs, 1) * -1.0;
}

// The losses of samples (N) times the weights of their classes. That of mixed classes is the sum of each class's loss
// times its share and weight, as PyTorch's cross_entropy of probabilities has it: not the mean weight times the loss,
// which would count a frequent class by the weight of the rare one beside it. All three losses are linear in the
// shares, so this is the loss of the weighted shares, scaled to a sum of 1, times their sum.
Tensor weighted_losses(Loss loss, const Tensor& outputs, const Tensor& y, const LossOptions& o) {
  const Tensor by_class(o.class_weights);
  const bool mixed = is_floating(y.dtype());
  const Tensor weighted = mixed ? y * reshape(by_class, {1, by_class.dim(0)}) : y;
  const Tensor weights = mixed ? sum(weighted, 1, Keep::yes) : gather(by_class, y);  // (N, 1), or (N)
  const Tensor targets =
      mixed ? weighted / maximum(weights, static_cast<double>(std::numeric_limits<float>::min())) : y;
  const Tensor losses = losses_of_classes(loss, outputs, targets, o.label_smoothing);
  return losses * cast(mixed ? reshape(weights, {weights.dim(0)}) : weights, losses.dtype());
}

// What a program's own function gives: its mean over the samples, or as a sum that mean times the targets that count
// (data/feed.h): the samples, or the tokens and places that are not ignored.
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
  const Tensor average = each ? mean(numbers) : numbers;
  if (reduction == Reduction::mean) return average;
  if (y.rank() > 1 && y.dtype() == DType::i32) return average * sum(cast(y >= 0, DType::f32));
  return each ? sum(numbers) : average * static_cast<double>(samples);
}

Tensor loss_of(const Model& model, const Tensor& outputs, const Tensor& y, const LossOptions& o) {
  if (model.own.loss) return over_samples("loss", model.own.loss, outputs, y, o.reduction);
  if (regresses(model.loss)) return loss_of_values(model, outputs, y, o.reduction);
  if (model.loss == Loss::multilabel) return loss_of_labels(outputs, y, o.reduction);
  if (outputs.rank() == 3 && model.loss == Loss::cross_entropy) return token_cross_entropy(outputs, y, o);
  if (model.loss == Loss::cross_entropy && !o.class_weights.defined()) {
    return cross_entropy(outputs, y, {.label_smoothing = o.label_smoothing, .reduction = o.reduction});
  }
  const Tensor losses = o.class_weights.defined() ? weighted_losses(model.loss, outputs, y, o)
                                                  : losses_of_classes(model.loss, outputs, y, o.label_smoothing);
  return cast(o.reduction == Reduction::sum ? sum(losses) : mean(losses), outputs.dtype());
}

}  // namespace

Tensor tempered(const Model& model, const Tensor& outputs) {
  return model.temperature == 1 ? outputs : outputs * (1 / model.temperature);
}

Scored score(const Model& model, const Tensor& x, const Tensor& y, const LossOptions& options) {
  if (options.reduction == Reduction::none) fail_here("score", "the loss is a mean or a sum over the samples");
  const nn::AuxiliaryOutputs heads;
  const Tensor outputs = tempered(model, (*model.net)(x));
  Tensor loss = loss_of(model, outputs, y, options);
  for (const nn::AuxiliaryOutput& head : heads.list)
    loss = loss + loss_of(model, head.output, y, options) * head.weight;
  return {outputs, loss};
}

Tensor predictions_of(const Model& model, const Tensor& outputs) {
  if (const TargetScale& scale = model.target_scale; regresses(model.loss)) {
    return scale.any() ? outputs * per_value(scale.deviation) + per_value(scale.mean) : outputs;
  }
  if (model.loss == Loss::multilabel) return sigmoid(outputs);
  if (model.loss != Loss::bce) return softmax(outputs, -1);
  const Tensor each = sigmoid(outputs);
  return each / sum(each, -1, Keep::yes);
}

bool has_accuracy(const Model& model) {
  return !regresses(model.loss) && model.loss != Loss::multilabel && !model.own.metric;
}

Tensor right_count(const Model& model, const Tensor& outputs, const Tensor& y) {
  if (model.own.metric) return over_samples("metric", model.own.metric, outputs, y, Reduction::sum);
  if (!has_accuracy(model)) return zeros({});
  const Tensor right = cast(equal(argmax(outputs, -1), cast(y, DType::i32)), DType::f32);
  return sum(outputs.rank() == 3 ? right * cast(counted(outputs, y), DType::f32) : right);
}

}  // namespace freight::models
