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
    fail_here("mse", "targets do not fit: got ", y.type(), ", the model gives ", outputs.type());
  }
  const Tensor loss = mse_loss(outputs, reshape(y, targets), Reduction::mean);
  return reduction == Reduction::sum ? loss * static_cast<double>(outputs.dim(0)) : loss;
}

Tensor loss_of(const Model& model, const Tensor& outputs, const Tensor& y, const LossOptions& o) {
  if (model.loss == Loss::mse) return mean_squared_error(outputs, y, o.reduction);
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

Tensor right_count(const Model& model, const Tensor& outputs, const Tensor& y) {
  if (model.loss == Loss::mse) return zeros({});
  return sum(cast(equal(argmax(outputs, 1), cast(y, DType::i32)), DType::f32));
}

}  // namespace freight::models
