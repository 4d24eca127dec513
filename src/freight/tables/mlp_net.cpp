// See mlp_net.h.
#include "freight/tables/mlp_net.h"

#include <cmath>
#include <limits>

#include "freight/base/strings.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/index.h"
#include "freight/ops/linalg.h"
#include "freight/ops/neural.h"
#include "freight/ops/random.h"
#include "freight/ops/reduce.h"
#include "freight/ops/shape.h"

namespace freight::tables {

namespace {

constexpr double kFarInLine = 4;  // deviations beyond which a number's linear part stays as it is

Init within(double bound) { return nn::init::uniform(-bound, bound); }

}  // namespace

MlpNet::MlpNet(const MlpColumns& columns, int64_t bins, int64_t classes)
    : numbers_(static_cast<int64_t>(columns.numbers().size())),
      words_(static_cast<int64_t>(columns.words().size())),
      bins_(bins),
      classes_(classes) {
  const int64_t f = numbers_, b = bins, d = kEmbedding, k = kMembers, outputs = classes > 2 ? classes : 1;
  if (f > 0) {
    mean_ = buffer("mean", {f, 1, 1}, 0);
    slope_ = buffer("slope", {f, 1, 1}, 0);
    bin_start_ = buffer("bin_start", {f, 1, b}, 0);
    bin_slope_ = buffer("bin_slope", {f, 1, b}, 0);
    const double bound = 1 / std::sqrt(static_cast<double>(b));
    bin_weight_ = parameter("bin_weight", {f, b, d}, within(bound));
    linear_ = parameter("linear", {f, 1, d}, within(0.1));
    bias_ = parameter("bias", {f, 1, d}, within(bound));
    missing_ = parameter("missing", {f, 1, d}, nn::init::zeros());
  }
  if (words_ > 0) word_table_ = parameter("words", {columns.embeddings(), d}, nn::init::normal(0, 0.3));
  int64_t in = (f + words_) * d;
  scaling_ = parameter("scaling", {1, k, in}, nn::init::ones());
  for (int64_t i = 0; i < kLayers; ++i) {
    layers_.push_back(&add<nn::Linear>(cat("layer", i), in, kWidth));
    in = kWidth;
  }
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  head_weight_ = parameter("head_weight", {k, in, outputs}, within(bound));
  head_bias_ = parameter("head_bias", {k, outputs}, within(bound));
  target_mean_ = buffer("target_mean", {1}, 0);
  target_deviation_ = buffer("target_deviation", {1}, 1);
}

void MlpNet::set(const MlpBins& bins, double mean, double deviation) const {
  if (numbers_ > 0) {
    mean_.set(bins.mean.reshaped(mean_.shape()));
    slope_.set(bins.slope.reshaped(slope_.shape()));
    bin_start_.set(bins.bin_start.reshaped(bin_start_.shape()));
    bin_slope_.set(bins.bin_slope.reshaped(bin_slope_.shape()));
  }
  target_mean_.set(mean);
  target_deviation_.set(deviation);
}

void MlpNet::draw_scaling() const {
  const int64_t columns = numbers_ + words_;
  const Tensor of_columns = randn({1, kMembers, columns, 1});
  scaling_.set(broadcast_to(of_columns, {1, kMembers, columns, kEmbedding}).array().reshaped(scaling_.shape()));
}

Tensor MlpNet::embedded(const Tensor& x) const {
  const int64_t n = x.dim(0), f = numbers_;
  const auto part = [&](int64_t first) { return reshape(transpose(narrow(x, 1, first, f)), {f, n, 1}); };
  const Tensor z = clamp((part(0) - mean_) * slope_, -kMlpFarthest, kMlpFarthest);  // (F, N, 1)
  const Tensor bins = clamp((z - bin_start_) * bin_slope_, 0, 1);                   // (F, N, B)
  const Tensor sum = matmul(bins, bin_weight_) + clamp(z, -kFarInLine, kFarInLine) * linear_ + bias_;
  return reshape(permute(where(part(f) > 0, relu(sum), missing_), {1, 0, 2}), {n, f * kEmbedding});
}

Tensor MlpNet::forward(const Tensor& x) {
  const int64_t n = x.dim(0), k = kMembers;
  std::vector<Tensor> parts;
  if (numbers_ > 0) parts.push_back(embedded(x));
  if (words_ > 0) {
    const Tensor rows = cast(narrow(x, 1, 2 * numbers_, words_), DType::i32);
    parts.push_back(reshape(embedding(rows, word_table_), {n, words_ * kEmbedding}));
  }
  Tensor h = parts.size() == 1 ? parts[0] : concat(parts, 1);  // (N, (F + C) D)
  h = reshape(unsqueeze(h, 1) * scaling_, {n * k, h.dim(1)});  // (N K, (F + C) D)
  for (nn::Linear* layer : layers_) h = relu((*layer)(h));     // (N K, H)
  h = reshape(h, {n, k, h.dim(1)});                            // (N, K, H)
  if (classes_ <= 2) {
    const Tensor weight = reshape(head_weight_, {1, k, h.dim(2)});
    return sum(h * weight, -1, Keep::yes) + head_bias_;
  }
  return permute(matmul(permute(h, {1, 0, 2}), head_weight_), {1, 0, 2}) + head_bias_;
}

Tensor MlpNet::predictions(const Tensor& outputs) const {
  if (classes_ == 0) return mean(outputs, 1) * target_deviation_ + target_mean_;
  if (classes_ != 2) return mean(softmax(outputs, 2), 1);
  // Each by a sigmoid of its own, so that the smaller one is not lost beside 1.
  return concat({mean(sigmoid(-outputs), 1), mean(sigmoid(outputs), 1)}, 1);
}

Tensor MlpNet::loss_of_members(const Tensor& outputs, const Tensor& targets) const {
  const int64_t n = outputs.dim(0), k = outputs.dim(1);
  const Tensor target = broadcast_to(narrow(targets, 1, 0, 1), {n, k});
  const auto each = [&] {  // (N, K), or (N K)
    if (classes_ == 0) return mse_loss(reshape(outputs, {n, k}), target, Reduction::none);
    if (classes_ == 2) return bce_with_logits(reshape(outputs, {n, k}), target, {.reduction = Reduction::none});
    return cross_entropy(reshape(outputs, {n * k, outputs.dim(2)}), cast(reshape(target, {n * k}), DType::i32),
                         {.reduction = Reduction::none});
  };
  return mean(reshape(each(), {n, k}), 1) * select(targets, 1, 1);
}

Tensor MlpNet::loss_of_mean(const Tensor& outputs, const Tensor& targets) const {
  const Tensor target = narrow(targets, 1, 0, 1), weight = select(targets, 1, 1);
  if (classes_ == 0) return sum(square(mean(outputs, 1) - target), 1) * weight;
  const Tensor p = gather_elements(predictions(outputs), cast(target, DType::i32), 1);  // (N, 1)
  return -log(maximum(select(p, 1, 0), std::numeric_limits<float>::min())) * weight;
}

}  // namespace freight::tables
