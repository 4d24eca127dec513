// The loss of a model on a batch, one definition for training, evaluation and measurements. N batch, T tokens, K
// classes or values.
#pragma once
#include "freight/models/models.h"
#include "freight/ops/neural.h"

namespace freight::models {

// Settings of score.
struct LossOptions {
  double label_smoothing = 0;             // of classes
  Reduction reduction = Reduction::mean;  // over the samples
  // f32 (K): the loss of a sample counts so often, by its class; that of mixed classes is the sum of each class's loss
  // times its share and weight. Neither mean nor sum divides by these weights, so that the losses of parts of a batch
  // add up to that of the batch.
  Array class_weights = {};
};
// The results of a batch and their loss.
struct Scored {
  Tensor outputs;  // (N, K), or (N, T, K), at the model's temperature
  Tensor loss;     // scalar: over the samples their mean or sum
};
// Runs the net on x and compares with y: losses of classes take classes i64 (N), or their shares f32 (N, K); losses of
// values take f32 (N, K), or (N) where K is 1, and average over them, at the model's target_scale; multilabel takes u8
// (N, K). A language model's results (N, T, K) are scored
// token by token against classes (N, T): a target below 0 is ignored, and neither mean nor sum nor count has its
// place. In training the auxiliary heads' losses are added, each times its weight. A loss of the model's own takes the
// place of both. Throws Error(usage) for targets of another kind or shape.
Scored score(const Model& model, const Tensor& x, const Tensor& y, const LossOptions& options = {});

// Results at the model's temperature: logits divided by it.
Tensor tempered(const Model& model, const Tensor& outputs);
// The predictions that a user gets for results at the model's temperature: probabilities of classes (N, K), or (N, T,
// K), those of bce scaled to a sum of 1; of labels each its own; or the values, in the units of the targets.
Tensor predictions_of(const Model& model, const Tensor& outputs);

// True where right_count counts: the model predicts classes, and has no metric of its own.
bool has_accuracy(const Model& model);
// How many outputs have their largest entry at y: f32 scalar. 0 for models of values and of labels. Where the model has
// a metric of its own, the sum of that over the samples.
Tensor right_count(const Model& model, const Tensor& outputs, const Tensor& y);

}  // namespace freight::models
