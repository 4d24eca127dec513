// See mlp_net.h.
#include "freight/tables/mlp_net.h"

#include <cmath>

#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/index.h"
#include "freight/ops/linalg.h"
#include "freight/ops/neural.h"
#include "freight/ops/reduce.h"
#include "freight/ops/shape.h"

namespace freight::tables {

namespace {

constexpr uint32_t kFirstWeights = 0x6d6c7000;  // streams of draws, one for each variable from here on
constexpr double kFarInLine = 4;                // deviations beyond which a number's linear part stays as it is

enum class MlpDraw { uniform, normal };
// Every element within `size` of 0, or of that deviation.
void draw_weights(const Variable& to, MlpDraw how, double size, PhiloxStream stream) {
  Array values(DType::f32, to.shape());
  auto* const v = values.data<float>();
  const auto s = static_cast<float>(size);
  for (int64_t i = 0; i < values.numel(); ++i)
    v[i] = how == MlpDraw::normal ? s * stream.normal() : stream.uniform(-s, s);
  to.set(values);
}

}  // namespace

MlpNet::MlpNet(const MlpColumns& columns, const MlpSizes& sizes, int64_t outputs)
    : sizes_(sizes), numbers_(columns.numbers()), words_(columns.words()), outputs_(outputs) {
  const int64_t f = numbers_, b = columns.bins(), d = sizes.embedding, k = sizes.members;
  const Init zero = nn::init::constant(0);
  if (f > 0) {
    starts_ = buffer("bin_starts", {f, 1, b}, 0);
    slopes_ = buffer("bin_slopes", {f, 1, b}, 0);
    starts_.set(columns.bin_starts().reshaped({f, 1, b}));
    slopes_.set(columns.bin_slopes().reshaped({f, 1, b}));
    bin_weight_ = parameter("bin_weight", {f, b, d}, zero);
    linear_ = parameter("linear", {f, 1, d}, zero);
    bias_ = parameter("bias", {f, 1, d}, zero);
    gone_ = parameter("missing", {f, 1, d}, zero);
  }
  if (words_ > 0) word_table_ = parameter("words", {columns.embeddings(), d}, zero);
  int64_t in = (f + words_) * d;
  scaling_ = parameter("scaling", {1, k, in}, nn::init::constant(1));
  for (int64_t i = 0; i < sizes.layers; ++i) {
    layers_.push_back(&add<nn::Linear>(cat("layer", i), in, sizes.width));
    in = sizes.width;
  }
  head_weight_ = parameter("head_weight", {k, in, outputs}, zero);
  head_bias_ = parameter("head_bias", {k, outputs}, zero);
}

void MlpNet::start(uint64_t seed) {
  uint32_t next = kFirstWeights;
  const auto draw = [&](const Variable& to, MlpDraw how, double size) {
    draw_weights(to, how, size, PhiloxStream(seed, 0, next++));
  };
  const int64_t d = sizes_.embedding, k = sizes_.members;
  if (numbers_ > 0) {
    const double bound = 1 / std::sqrt(static_cast<double>(bin_weight_.shape()[1]));
    draw(bin_weight_, MlpDraw::uniform, bound);
    draw(linear_, MlpDraw::uniform, 0.1);
    draw(bias_, MlpDraw::uniform, bound);
  }
  if (words_ > 0) draw(word_table_, MlpDraw::normal, 0.3);
  // Members differ at first in how they scale the columns, all numbers of one alike, and in their last layers.
  Array scaling(DType::f32, scaling_.shape());
  PhiloxStream normal(seed, 0, next++);
  for (int64_t i = 0; i < k * (numbers_ + words_); ++i) {
    std::fill_n(scaling.data<float>() + i * d, d, normal.normal());
  }
  scaling_.set(scaling);
  for (const nn::Linear* layer : layers_) {
    const double bound = 1 / std::sqrt(static_cast<double>(layer->fields().in));
    draw(layer->weight, MlpDraw::uniform, bound);
    draw(layer->bias, MlpDraw::uniform, bound);
  }
  const double bound = 1 / std::sqrt(static_cast<double>(head_weight_.shape()[1]));
  draw(head_weight_, MlpDraw::uniform, bound);
  draw(head_bias_, MlpDraw::uniform, bound);
}

Tensor MlpNet::embedded(const Tensor& numbers) const {
  const int64_t n = numbers.dim(0), f = numbers_, d = sizes_.embedding;
  const Tensor x = reshape(transpose(numbers), {f, n, 1});
  const Tensor there = is_finite(x), v = where(there, x, 0);
  const Tensor bins = clamp((v - starts_) * slopes_, 0, 1);  // (F, N, B)
  const Tensor sum = matmul(bins, bin_weight_) + clamp(v, -kFarInLine, kFarInLine) * linear_ + bias_;
  return reshape(permute(where(there, relu(sum), gone_), {1, 0, 2}), {n, f * d});
}

Tensor MlpNet::forward(const Tensor& numbers, const Tensor& words) {
  const int64_t n = numbers.dim(0), k = sizes_.members;
  std::vector<Tensor> parts;
  if (numbers_ > 0) parts.push_back(embedded(numbers));
  if (words_ > 0) parts.push_back(reshape(embedding(words, word_table_), {n, words_ * sizes_.embedding}));
  Tensor h = parts.size() == 1 ? parts[0] : concat(parts, 1);  // (N, (F + C) D)
  h = reshape(unsqueeze(h, 1) * scaling_, {n * k, h.dim(1)});  // (N K, (F + C) D)
  for (nn::Linear* layer : layers_) h = relu((*layer)(h));     // (N K, H)
  h = reshape(h, {n, k, h.dim(1)});                            // (N, K, H)
  if (outputs_ == 1) {
    const Tensor weight = reshape(head_weight_, {1, k, h.dim(2)});
    return sum(h * weight, -1, Keep::yes) + head_bias_;
  }
  return permute(matmul(permute(h, {1, 0, 2}), head_weight_), {1, 0, 2}) + head_bias_;
}

Tensor mlp_answers(const Tensor& outputs, int64_t classes) {
  if (classes == 0) return mean(outputs, 1);
  if (classes != 2) return mean(softmax(outputs, 2), 1);
  // Each by an own sigmoid, so that the smaller one is not lost beside 1.
  return concat({mean(sigmoid(-outputs), 1), mean(sigmoid(outputs), 1)}, 1);
}

Tensor mlp_loss(const Tensor& outputs, const Tensor& targets, const Tensor& weights, int64_t classes) {
  const int64_t n = outputs.dim(0), k = outputs.dim(1);
  const Tensor target = broadcast_to(unsqueeze(targets, 1), {n, k});
  const auto each = [&] {  // (N, K), or (N K)
    if (classes == 0) return mse_loss(reshape(outputs, {n, k}), target, Reduction::none);
    if (classes == 2)
      return bce_with_logits(reshape(outputs, {n, k}), cast(target, DType::f32), {.reduction = Reduction::none});
    return cross_entropy(reshape(outputs, {n * k, outputs.dim(2)}), reshape(target, {n * k}),
                         {.reduction = Reduction::none});
  };
  return mean(reshape(each(), {n, k}) * unsqueeze(weights, 1));
}

}  // namespace freight::tables
