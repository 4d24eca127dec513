// MobileNets: depthwise convolutions in inverted residuals, for phones. Names, sizes and initial values are
// torchvision's.
#include "freight/models/zoo_internal.h"

namespace freight::models {

namespace {

using nn::Linear;
using nn::Sequential;

constexpr nn::LinearOptions kClassifier{.init = nn::WeightInit::normal, .bias_init = nn::BiasInit::zero};

// 1x1 to `hidden` channels - depthwise 3x3 - 1x1 to `out`. (N, in, H, W) -> (N, out, H / stride, W / stride)
std::shared_ptr<nn::Module> block_v2(int64_t in, int64_t hidden, int64_t out, int64_t stride) {
  Sequential conv;
  if (hidden != in) conv.append(conv_norm(in, hidden, {.kernel = 1, .activation = Activation::relu6}));
  conv.append(conv_norm(hidden, hidden, {.stride = stride, .groups = hidden, .activation = Activation::relu6}));
  conv.append(nn::Conv2d(hidden, out, 1, {.bias = false, .init = nn::WeightInit::he_normal}));
  conv.append(nn::BatchNorm2d(out));
  Sequential block;
  block.append("conv", std::move(conv));
  return with_skip(std::move(block), stride == 1 && in == out);
}

constexpr nn::BatchNormOptions kNormV3{.eps = 1e-3, .momentum = 0.01};

// A line of the tables of Howard et al. 2019.
struct BlockV3 {
  int64_t kernel, hidden, out;
  bool squeeze;
  Activation activation;
  int64_t stride;
};

std::shared_ptr<nn::Module> block_v3(int64_t in, const BlockV3& b) {
  const auto conv = [&](int64_t from, int64_t to, ConvNorm options) {
    options.norm = kNormV3;
    return conv_norm(from, to, options);
  };
  Sequential layers;
  if (b.hidden != in) layers.append(conv(in, b.hidden, {.kernel = 1, .activation = b.activation}));
  layers.append(conv(b.hidden, b.hidden,
                     {.kernel = b.kernel, .stride = b.stride, .groups = b.hidden, .activation = b.activation}));
  if (b.squeeze) {
    const int64_t squeeze = multiple_of_8(static_cast<double>(b.hidden / 4));
    layers.append(squeeze_excitation(b.hidden, {.squeeze = squeeze, .hard_gate = true}));
  }
  layers.append(conv(b.hidden, b.out, {.kernel = 1, .activation = Activation::none}));
  Sequential block;
  block.append("block", std::move(layers));
  return with_skip(std::move(block), b.stride == 1 && in == b.out);
}

Sequential mobilenet_v3(const Task& task, const std::vector<BlockV3>& blocks, int64_t hidden) {
  constexpr Activation kHardswish = Activation::hardswish;
  int64_t channels = 16;
  Sequential features;
  features.append(conv_norm(task.input[0], channels,
                            {.stride = 2, .activation = kHardswish, .norm = kNormV3}));  // (N, 16, H/2, W/2)
  for (const BlockV3& b : blocks) {
    features.append(block_v3(channels, b));
    channels = b.out;
  }
  const int64_t last = 6 * channels;
  features.append(
      conv_norm(channels, last, {.kernel = 1, .activation = kHardswish, .norm = kNormV3}));  // (N, last, H/32, W/32)
  return assemble(std::move(features), 1,
                  Sequential(Linear(last, hidden, kClassifier), nn::Hardswish(), nn::Dropout(0.2),
                             Linear(hidden, task.classes, kClassifier)));
}

}  // namespace

Sequential mobilenet_v2(const Task& task) {
  constexpr struct {
    int64_t expansion, out;
    int blocks;
    int64_t stride;
  } kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                 {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  constexpr int64_t kLast = 1280;
  int64_t channels = 32;
  Sequential features;
  features.append(
      conv_norm(task.input[0], channels, {.stride = 2, .activation = Activation::relu6}));  // (N, 32, H/2, W/2)
  for (const auto& s : kStages) {
    for (int k = 0; k < s.blocks; ++k) {
      features.append(block_v2(channels, s.expansion * channels, s.out, k == 0 ? s.stride : 1));
      channels = s.out;
    }
  }
  features.append(conv_norm(channels, kLast, {.kernel = 1, .activation = Activation::relu6}));  // (N, 1280, H/32, W/32)
  return assemble(std::move(features), 1, Sequential(nn::Dropout(0.2), Linear(kLast, task.classes, kClassifier)));
}

Sequential mobilenet_v3_small(const Task& task) {
  constexpr Activation kRelu = Activation::relu, kSwish = Activation::hardswish;
  return mobilenet_v3(task,
                      {{3, 16, 16, true, kRelu, 2},
                       {3, 72, 24, false, kRelu, 2},
                       {3, 88, 24, false, kRelu, 1},
                       {5, 96, 40, true, kSwish, 2},
                       {5, 240, 40, true, kSwish, 1},
                       {5, 240, 40, true, kSwish, 1},
                       {5, 120, 48, true, kSwish, 1},
                       {5, 144, 48, true, kSwish, 1},
                       {5, 288, 96, true, kSwish, 2},
                       {5, 576, 96, true, kSwish, 1},
                       {5, 576, 96, true, kSwish, 1}},
                      1024);
}

Sequential mobilenet_v3_large(const Task& task) {
  constexpr Activation kRelu = Activation::relu, kSwish = Activation::hardswish;
  return mobilenet_v3(task,
                      {{3, 16, 16, false, kRelu, 1},
                       {3, 64, 24, false, kRelu, 2},
                       {3, 72, 24, false, kRelu, 1},
                       {5, 72, 40, true, kRelu, 2},
                       {5, 120, 40, true, kRelu, 1},
                       {5, 120, 40, true, kRelu, 1},
                       {3, 240, 80, false, kSwish, 2},
                       {3, 200, 80, false, kSwish, 1},
                       {3, 184, 80, false, kSwish, 1},
                       {3, 184, 80, false, kSwish, 1},
                       {3, 480, 112, true, kSwish, 1},
                       {3, 672, 112, true, kSwish, 1},
                       {5, 672, 160, true, kSwish, 2},
                       {5, 960, 160, true, kSwish, 1},
                       {5, 960, 160, true, kSwish, 1}},
                      1280);
}

}  // namespace freight::models
