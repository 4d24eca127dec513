// Composite functions of neural networks: activations, normalizations, losses. Each is one node of the graph with a
// plain definition beside it (ir/composite). N batch, C channels or classes.
#pragma once
#include <optional>

#include "freight/ops/options.h"
#include "freight/trace/tensor.h"
#include "freight/trace/variable.h"

namespace freight {

// Along one axis, shape kept: exp(x) / sum exp(x) with the maximum subtracted first.
Tensor softmax(const In& x, Axis axis = -1);
Tensor log_softmax(const In& x, Axis axis = -1);  // log(softmax(x)), stable

enum class GeluKind { erf, tanh };  // by the error function, or by tanh
// x Phi(x), or its tanh approximation. Hendrycks and Gimpel 2016.
Tensor gelu(const In& x, GeluKind kind = GeluKind::erf);
// x sigmoid(x).
Tensor silu(const In& x);
inline constexpr double kLeakySlope = 0.01, kEluAlpha = 1;  // defaults of the two below
// x where positive, else slope x.
Tensor leaky_relu(const In& x, double slope = kLeakySlope);
// x where positive, else alpha (exp(x) - 1).
Tensor elu(const In& x, double alpha = kEluAlpha);
// ln(1 + exp(x)), stable for large |x|.
Tensor softplus(const In& x);

// The result of batch_norm: normalized elements and the statistics of the batch.
struct BatchNormResult {
  Tensor y;         // (N, C, ...)
  Tensor mean;      // (C) of this batch
  Tensor variance;  // (C) of this batch, biased
};
// x (N, C, ...) normalized over all axes but C, then times scale (C) plus shift (C). Ioffe and Szegedy 2015.
BatchNormResult batch_norm(const In& x, const In& scale, const In& shift, double eps = 1e-5);
// The same with given statistics mean (C), variance (C).
Tensor batch_norm_inference(const In& x, const In& scale, const In& shift, const In& mean, const In& variance,
                            double eps = 1e-5);
// Normalizes the last axes, as many as scale and shift have. Ba et al. 2016.
Tensor layer_norm(const In& x, const In& scale, const In& shift, double eps = 1e-5);
// x (N, C, ...) in `groups` groups of channels; scale, shift (C). Wu and He 2018.
Tensor group_norm(const In& x, WholeNumber groups, const In& scale, const In& shift, double eps = 1e-5);

enum class Reduction { mean, sum, none };  // of the losses of all samples; none keeps one each
// Settings of cross_entropy.
struct CrossEntropyOptions {
  double label_smoothing = 0;             // in [0, 1)
  Reduction reduction = Reduction::mean;  // over the rows
  // Rows of this class (often -100) have no loss and no gradient, and the mean is that of the others: NaN of none.
  std::optional<int64_t> ignore_index = std::nullopt;
  // (C) floating numbers: how much each class counts. The mean over integer classes is then divided by the sum of their
  // weights, that over probabilities by N, as in PyTorch. Undefined: every class counts 1.
  Tensor weight = {};
};
// logits (N, C); target (N) integer classes, or (N, C) probabilities of the logits' type. -> scalar, or (N) unreduced.
// Or of (N, C, d1, ...), with targets (N, d1, ...) or (N, C, d1, ...): every place counts as a row. N may be left out.
// Logits of -inf are classes of probability 0. A class outside of [0, C) is an Error(data) when the step runs.
Tensor cross_entropy(const In& logits, const In& target, const CrossEntropyOptions& options = {});
// Settings of nll_loss, as those of cross_entropy.
struct NllOptions {
  Reduction reduction = Reduction::mean;               // over the rows
  std::optional<int64_t> ignore_index = std::nullopt;  // rows of this class have no loss and do not count in the mean
  Tensor weight = {};                                  // (C): how much each class counts
};
// log_probabilities (N, C), target (N) -> scalar: mean of -log p[target]. Or (N, C, d1, ...), (N, d1, ...), or no N.
Tensor nll_loss(const In& log_probabilities, const In& target, const NllOptions& options = {});
// Mean of (a - b)^2. Shapes must be equal, or one of the two a number.
Tensor mse_loss(const In& a, const In& b, Reduction reduction = Reduction::mean);
Tensor l1_loss(const In& a, const In& b, Reduction reduction = Reduction::mean);  // mean of |a - b|; as above
// 0.5 d^2 / beta for |d| = |a - b| below beta, else |d| - beta / 2. Girshick 2015.
Tensor smooth_l1_loss(const In& a, const In& b, double beta = 1, Reduction reduction = Reduction::mean);
// The same times delta. Huber 1964.
Tensor huber_loss(const In& a, const In& b, double delta = 1, Reduction reduction = Reduction::mean);
// Settings of kl_div.
struct KlDivOptions {
  Reduction reduction = Reduction::mean;  // of the elements
  bool log_target = false;                // targets are logarithms of probabilities
};
// target (ln target - log_probabilities) of equal shapes, PyTorch's kl_div; targets are probabilities, 0 ln 0 is 0. The
// divergence per sample is the sum divided by the number of samples, not the mean over all elements.
Tensor kl_div(const In& log_probabilities, const In& target, const KlDivOptions& options = {});
// Settings of bce_with_logits. Both weights broadcast to the logits.
struct BceOptions {
  Reduction reduction = Reduction::mean;  // over all elements
  Tensor weight = {};                     // how much each element counts; the mean is not divided by their sum
  Tensor pos_weight = {};                 // how much the part of the target counts, beside that of 1 - target
};
// Sigmoid and binary cross-entropy in one: logits and targets in [0, 1] of equal shapes, or one target for all.
Tensor bce_with_logits(const In& logits, const In& target, const BceOptions& options = {});
// How many of the N rows of logits (N, C) have their largest entry at target (N): i32 scalar.
Tensor count_correct(const In& logits, const In& target);

}  // namespace freight
