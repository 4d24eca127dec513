// DenseNet (Huang et al. 2017): every layer of a block sees the results of all layers before it. Names, sizes and
// initial values are torchvision's.
#include <cmath>

#include "freight/models/zoo_internal.h"

namespace freight::models {

namespace {

using nn::BatchNorm2d;
using nn::ReLU;
using nn::Sequential;

constexpr int64_t kGrowth = 32;  // channels that a layer adds

// He et al.'s initial values with the fan in.
nn::Conv2d dense_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1) {
  return nn::Conv2d(in, out, kernel,
                    {.stride = stride,
                     .padding = kernel / 2,
                     .bias = false,
                     .init = nn::WeightInit::normal,
                     .deviation = std::sqrt(2 / static_cast<double>(in * kernel * kernel))});
}

// (N, in, H, W) -> (N, in + growth, H, W)
nn::Concat dense_layer(int64_t in) {
  constexpr int64_t kNarrow = 4 * kGrowth;
  Sequential layer;
  layer.append("norm1", BatchNorm2d(in)).append("relu1", ReLU()).append("conv1", dense_conv(in, kNarrow, 1));
  layer.append("norm2", BatchNorm2d(kNarrow)).append("relu2", ReLU()).append("conv2", dense_conv(kNarrow, kGrowth, 3));
  nn::Concat joined;
  joined.append("input", nn::Identity()).append("", std::move(layer));
  return joined;
}

// (N, in, H, W) -> (N, in / 2, H / 2, W / 2)
Sequential transition(int64_t in) {
  Sequential layers;
  layers.append("norm", BatchNorm2d(in)).append("relu", ReLU()).append("conv", dense_conv(in, in / 2, 1));
  layers.append("pool", nn::AvgPool2d(2));
  return layers;
}

}  // namespace

Sequential densenet(const Task& task, const std::vector<int>& blocks) {
  int64_t channels = 64;
  Sequential features;
  features.append("conv0", dense_conv(task.input[0], channels, 7, 2));  // (N, 64, H/2, W/2)
  features.append("norm0", BatchNorm2d(channels)).append("relu0", ReLU());
  features.append("pool0", nn::MaxPool2d({.kernel = 3, .stride = 2, .padding = 1}));  // (N, 64, H/4, W/4)
  for (size_t b = 1; b <= blocks.size(); ++b) {
    Sequential block;
    for (int k = 1; k <= blocks[b - 1]; ++k, channels += kGrowth) {
      block.append("denselayer" + std::to_string(k), dense_layer(channels));
    }
    features.append("denseblock" + std::to_string(b), std::move(block));
    if (b == blocks.size()) break;
    features.append("transition" + std::to_string(b), transition(channels));
    channels /= 2;
  }
  features.append("norm5", BatchNorm2d(channels));
  Sequential net;
  net.append("features", std::move(features)).append("relu", ReLU());  // (N, C, H/32, W/32)
  net.append("avgpool", nn::AdaptiveAvgPool2d(1)).append("flatten", nn::Flatten());
  net.append("classifier", nn::Linear(channels, task.classes, {.bias_init = nn::BiasInit::zero}));
  return net;
}

}  // namespace freight::models
