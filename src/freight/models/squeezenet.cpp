// SqueezeNet (Iandola et al. 2016): 1x1 convolutions that narrow the image before 1x1 and 3x3 ones side by side. Names,
// sizes and initial values are torchvision's.
#include "freight/models/zoo_internal.h"

namespace freight::models {

namespace {

using nn::Conv2d;
using nn::ReLU;
using nn::Sequential;

nn::ConvLayerOptions squeeze_options(int64_t stride, int64_t padding) {
  return {.stride = stride, .padding = padding, .init = nn::WeightInit::he_uniform, .bias_init = nn::BiasInit::zero};
}

nn::MaxPool2d squeeze_pool() { return nn::MaxPool2d({.kernel = 3, .stride = 2, .ceil_mode = true}); }

// (N, in, H, W) -> (N, 2 half, H, W)
Sequential fire(int64_t in, int64_t squeeze, int64_t half) {
  nn::Concat expand;
  expand.append("expand1x1", Conv2d(squeeze, half, 1, squeeze_options(1, 0)));
  expand.append("expand3x3", Conv2d(squeeze, half, 3, squeeze_options(1, 1)));
  Sequential layers;
  layers.append("squeeze", Conv2d(in, squeeze, 1, squeeze_options(1, 0))).append("squeeze_activation", ReLU());
  layers.append("", std::move(expand)).append("expand_activation", ReLU());
  return layers;
}

}  // namespace

Sequential squeezenet(const Task& task, SqueezeNet version) {
  const bool first = version == SqueezeNet::v1_0;
  int64_t channels = first ? 96 : 64;
  Sequential features(Conv2d(task.input[0], channels, first ? 7 : 3, squeeze_options(2, 0)), ReLU(), squeeze_pool());
  constexpr struct {
    int64_t squeeze, half;
  } kFires[] = {{16, 64}, {16, 64}, {32, 128}, {32, 128}, {48, 192}, {48, 192}, {64, 256}, {64, 256}};
  int k = 0;
  for (const auto& f : kFires) {
    features.append(fire(channels, f.squeeze, f.half));
    channels = 2 * f.half;
    ++k;
    if (first ? k == 3 || k == 7 : k == 2 || k == 4)
      features.append(squeeze_pool());  // in the end (N, 512, H/16, W/16)
  }
  const nn::ConvLayerOptions last{.init = nn::WeightInit::normal, .bias_init = nn::BiasInit::zero};
  Sequential net;
  net.append("features", std::move(features));
  net.append("classifier", Sequential(nn::Dropout(0.5), Conv2d(channels, task.classes, 1, last), ReLU(),
                                      nn::AdaptiveAvgPool2d(1)));  // (N, K, 1, 1)
  net.append("flatten", nn::Flatten());
  return net;
}

}  // namespace freight::models
