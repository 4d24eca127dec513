// ConvNeXt (Liu et al. 2022): depthwise 7x7 convolutions and a perceptron per pixel, with LayerNorm. Names, sizes and
// initial values are torchvision's.
#include "freight/models/zoo_internal.h"

namespace freight::models {

namespace {

using nn::LayerNorm2d;
using nn::Linear;
using nn::Sequential;

constexpr double kConvNextEps = 1e-6;
constexpr double kConvNextDeviation = 0.02;  // of the initial weights

nn::Conv2d convnext_conv(int64_t in, int64_t out, int64_t kernel, nn::ConvLayerOptions options) {
  options.init = nn::WeightInit::normal;
  options.bias_init = nn::BiasInit::zero;
  options.deviation = kConvNextDeviation;
  return nn::Conv2d(in, out, kernel, options);
}
Linear convnext_linear(int64_t in, int64_t out) {
  return Linear(in, out,
                {.init = nn::WeightInit::normal, .bias_init = nn::BiasInit::zero, .deviation = kConvNextDeviation});
}

// x + factor * branch(x), with the pixels (N, H, W, C) between the Permutes. (N, C, H, W) -> (N, C, H, W)
std::shared_ptr<nn::Module> convnext_block(int64_t channels, double skipped) {
  Sequential branch(convnext_conv(channels, channels, 7, {.padding = 3, .groups = channels}), nn::Permute({0, 2, 3, 1}),
                    nn::LayerNorm(channels, {.eps = kConvNextEps}), convnext_linear(channels, 4 * channels), nn::GELU(),
                    convnext_linear(4 * channels, channels), nn::Permute({0, 3, 1, 2}));
  Sequential main;
  main.append("block", std::move(branch)).append("layer_scale", nn::LayerScale({channels, 1, 1}));
  if (skipped > 0) main.append("stochastic_depth", nn::StochasticDepth(skipped));
  return with_skip(std::move(main), true);
}

}  // namespace

Sequential convnext(const Task& task, const std::vector<int>& blocks) {
  constexpr double kMostSkipped = 0.1;
  int all = 0, before = 0;
  for (const int n : blocks) all += n;
  int64_t channels = 96;
  Sequential features;
  features.append(Sequential(convnext_conv(task.input[0], channels, 4, {.stride = 4}),  // (N, 96, H/4, W/4)
                             LayerNorm2d(channels, {.eps = kConvNextEps})));
  for (size_t s = 0; s < blocks.size(); ++s) {
    Sequential stage;
    if (s > 0) {  // halves H and W
      features.append(Sequential(LayerNorm2d(channels, {.eps = kConvNextEps}),
                                 convnext_conv(channels, 2 * channels, 2, {.stride = 2})));
      channels *= 2;
    }
    for (int k = 0; k < blocks[s]; ++k, ++before)
      stage.append(convnext_block(channels, kMostSkipped * before / (all - 1)));
    features.append(std::move(stage));
  }
  Sequential net;
  net.append("features", std::move(features)).append("avgpool", nn::AdaptiveAvgPool2d(1));  // (N, 768, 1, 1)
  net.append("classifier", Sequential(LayerNorm2d(channels, {.eps = kConvNextEps}), nn::Flatten(),
                                      convnext_linear(channels, task.classes)));
  return net;
}

}  // namespace freight::models
