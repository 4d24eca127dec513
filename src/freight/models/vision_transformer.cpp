// Vision transformer (Dosovitskiy et al. 2021): a transformer over patches of an image. P patches, C numbers per token.
// Names, sizes and initial values are torchvision's, except that the perceptrons' biases are 0 and not within 1e-6 of
// it.
#include <cmath>

#include "freight/base/error.h"
#include "freight/models/zoo_internal.h"

namespace freight::models {

namespace {

using nn::Linear;
using nn::Sequential;

constexpr nn::LayerNormOptions kTransformerNorm{.eps = 1e-6};

Linear xavier(int64_t in, int64_t out) {
  return Linear(in, out, {.init = nn::WeightInit::xavier_uniform, .bias_init = nn::BiasInit::zero});
}

// x + attention(ln_1(x)), then x + mlp(ln_2(x)). (N, 1 + P, C) -> (N, 1 + P, C)
Sequential encoder_layer(int64_t width, int64_t heads) {
  const int64_t hidden = 4 * width;
  Sequential attention, mlp, perceptron;
  attention.append("ln_1", nn::LayerNorm(width, kTransformerNorm))
      .append("self_attention", nn::MultiheadAttention(width, heads));
  // torchvision's numbers count the dropouts, which are off.
  mlp.append("0", xavier(width, hidden)).append("1", nn::GELU()).append("3", xavier(hidden, width));
  perceptron.append("ln_2", nn::LayerNorm(width, kTransformerNorm)).append("mlp", std::move(mlp));
  Sequential layer;
  layer.append("", with_skip(std::move(attention), true)).append("", with_skip(std::move(perceptron), true));
  return layer;
}

}  // namespace

Sequential vit_b_16(const Task& task) {
  constexpr int64_t kPatch = 16, kWidth = 768, kHeads = 12;
  constexpr int kLayers = 12;
  const int64_t rows = task.input[1], columns = task.input[2];
  if (rows % kPatch != 0 || columns % kPatch != 0) {
    fail(ErrorKind::usage, "vit_b_16", "splits images into patches of ", kPatch, " x ", kPatch,
         " pixels: expected sides that are multiples of ", kPatch, ", got ", rows, " x ", columns);
  }
  const int64_t patches = rows / kPatch * (columns / kPatch);
  const double deviation = std::sqrt(1.0 / static_cast<double>(task.input[0] * kPatch * kPatch));
  Sequential net, encoder, layers, heads;
  net.append("conv_proj", nn::Conv2d(task.input[0], kWidth, kPatch,
                                     {.stride = kPatch,
                                      .init = nn::WeightInit::normal,
                                      .bias_init = nn::BiasInit::zero,
                                      .deviation = deviation}));               // (N, C, H/16, W/16)
  net.append("flatten", nn::Flatten(2)).append("transpose", nn::Transpose());  // (N, P, C)
  net.append("class_token", nn::ClassToken(kWidth));                           // (N, 1 + P, C)
  for (int k = 0; k < kLayers; ++k) layers.append("encoder_layer_" + std::to_string(k), encoder_layer(kWidth, kHeads));
  encoder.append("pos_embedding", nn::PositionEmbedding(1 + patches, kWidth, {.batch_axis = true}));
  encoder.append("layers", std::move(layers)).append("ln", nn::LayerNorm(kWidth, kTransformerNorm));
  net.append("encoder", std::move(encoder)).append("token", nn::Select());  // (N, C)
  heads.append("head", Linear(kWidth, task.classes,
                              {.init = nn::WeightInit::normal, .bias_init = nn::BiasInit::zero, .deviation = 0}));
  net.append("heads", std::move(heads));
  return net;
}

}  // namespace freight::models
