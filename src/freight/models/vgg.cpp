// AlexNet and the VGG nets: convolutions, then a classifier of three linear layers. Names, sizes and initial values are
// torchvision's.
#include "freight/models/zoo_internal.h"

#include <algorithm>

namespace freight::models {

namespace {

using nn::Conv2d;
using nn::Dropout;
using nn::Linear;
using nn::MaxPool2d;
using nn::ReLU;
using nn::Sequential;

constexpr int64_t kHidden = 4096;  // width of the classifier

}  // namespace

Sequential alexnet(const Task& task) {
  const auto pool = [] { return MaxPool2d({.kernel = 3, .stride = 2}); };
  constexpr int64_t kCells = 6;
  Sequential features(Conv2d(task.input[0], 64, 11, {.stride = 4, .padding = 2}), ReLU(), pool(),  // (N, 64, H/8, W/8)
                      Conv2d(64, 192, 5, {.padding = 2}), ReLU(), pool(),  // (N, 192, H/16, W/16)
                      Conv2d(192, 384, 3, {.padding = 1}), ReLU(), Conv2d(384, 256, 3, {.padding = 1}), ReLU(),
                      Conv2d(256, 256, 3, {.padding = 1}), ReLU(), pool());  // (N, 256, H/32, W/32)
  return assemble(std::move(features), kCells,
                  Sequential(Dropout(), Linear(256 * kCells * kCells, kHidden), ReLU(), Dropout(),
                             Linear(kHidden, kHidden), ReLU(), Linear(kHidden, task.classes)));
}

Sequential vgg(const Task& task, const std::vector<int>& stages, Norm norm) {
  const auto linear = [](int64_t in, int64_t out) {
    return Linear(in, out, {.init = nn::WeightInit::normal, .bias_init = nn::BiasInit::zero});
  };
  constexpr int64_t kCells = 7, kWidest = 512;
  Sequential features;
  int64_t in = task.input[0], width = 64;
  for (const int convolutions : stages) {
    for (int k = 0; k < convolutions; ++k) {
      features.append(
          Conv2d(in, width, 3, {.padding = 1, .init = nn::WeightInit::he_normal, .bias_init = nn::BiasInit::zero}));
      if (norm == Norm::batch) features.append(nn::BatchNorm2d(width));
      features.append(ReLU());
      in = width;
    }
    features.append(MaxPool2d(2));  // halves H and W
    width = std::min(2 * width, kWidest);
  }
  return assemble(std::move(features), kCells,
                  Sequential(linear(in * kCells * kCells, kHidden), ReLU(), Dropout(), linear(kHidden, kHidden), ReLU(),
                             Dropout(), linear(kHidden, task.classes)));
}

}  // namespace freight::models
