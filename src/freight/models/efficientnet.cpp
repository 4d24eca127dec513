// EfficientNets (Tan and Le 2019): inverted residuals with squeeze-and-excitation, scaled in width and depth. Names,
// sizes and initial values are torchvision's.
#include <algorithm>
#include <cmath>

#include "freight/models/zoo_internal.h"

namespace freight::models {

namespace {

using nn::Sequential;

// Of the smallest net.
constexpr struct {
  int64_t expansion, kernel, stride, out;
  int blocks;
} kEfficientStages[] = {{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
                        {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};

struct MBConv {
  int64_t expansion, kernel, stride;
  double skipped;  // probability that a sample skips the block in training
};

// 1x1 - depthwise - squeeze-and-excitation - 1x1. (N, in, H, W) -> (N, out, H / stride, W / stride)
std::shared_ptr<nn::Module> mbconv(int64_t in, int64_t out, const MBConv& b) {
  constexpr Activation kSilu = Activation::silu;
  const int64_t hidden = b.expansion * in;
  Sequential layers;
  if (hidden != in) layers.append(conv_norm(in, hidden, {.kernel = 1, .activation = kSilu}));
  layers.append(
      conv_norm(hidden, hidden, {.kernel = b.kernel, .stride = b.stride, .groups = hidden, .activation = kSilu}));
  layers.append(squeeze_excitation(hidden, {.squeeze = std::max<int64_t>(in / 4, 1), .activation = kSilu}));
  layers.append(conv_norm(hidden, out, {.kernel = 1, .activation = Activation::none}));
  const bool skip = b.stride == 1 && in == out;
  Sequential block;
  block.append("block", std::move(layers));
  if (skip && b.skipped > 0) block.append("stochastic_depth", nn::StochasticDepth(b.skipped));
  return with_skip(std::move(block), skip);
}

}  // namespace

Sequential efficientnet(const Task& task, const EfficientNet& size) {
  constexpr double kMostSkipped = 0.2;
  const auto wide = [&](int64_t channels) { return multiple_of_8(static_cast<double>(channels) * size.width); };
  const auto deep = [&](int blocks) { return static_cast<int>(std::ceil(blocks * size.depth)); };
  int all = 0, before = 0;
  for (const auto& s : kEfficientStages) all += deep(s.blocks);
  int64_t channels = wide(32);
  Sequential features;
  features.append(
      conv_norm(task.input[0], channels, {.stride = 2, .activation = Activation::silu}));  // (N, C, H/2, W/2)
  for (const auto& s : kEfficientStages) {
    Sequential stage;
    for (int k = 0; k < deep(s.blocks); ++k, ++before) {
      stage.append(mbconv(channels, wide(s.out),
                          {.expansion = s.expansion,
                           .kernel = s.kernel,
                           .stride = k == 0 ? s.stride : 1,
                           .skipped = kMostSkipped * before / all}));
      channels = wide(s.out);
    }
    features.append(std::move(stage));
  }
  const int64_t last = 4 * channels;
  features.append(conv_norm(channels, last, {.kernel = 1, .activation = Activation::silu}));  // (N, last, H/32, W/32)
  // Uniform within 1 / sqrt(classes), whose standard deviation is that by sqrt(3).
  const double deviation = 1 / std::sqrt(3.0 * static_cast<double>(task.classes));
  return assemble(
      std::move(features), 1,
      Sequential(
          nn::Dropout(size.dropout),
          nn::Linear(last, task.classes,
                     {.init = nn::WeightInit::uniform, .bias_init = nn::BiasInit::zero, .deviation = deviation})));
}

}  // namespace freight::models
