// GoogLeNet (Szegedy et al. 2015) as torchvision has it: BatchNorm after every convolution, 3x3 where the paper has
// 5x5, two auxiliary heads that only training runs. Names of layers are torchvision's.
#include "freight/models/zoo_internal.h"

namespace freight::models {

namespace {

using nn::Linear;
using nn::MaxPool2d;
using nn::ReLU;
using nn::Sequential;

// conv - BN - ReLU. (N, in, H, W) -> (N, out, H / stride, W / stride)
Sequential unit(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1) {
  Sequential s;
  s.append("conv",
           nn::Conv2d(in, out, kernel,
                      {.stride = stride, .padding = kernel / 2, .bias = false, .init = nn::WeightInit::normal}));
  s.append("bn", nn::BatchNorm2d(out, {.eps = 1e-3})).append("relu", ReLU());
  return s;
}

Linear linear(int64_t in, int64_t out) { return Linear(in, out, {.init = nn::WeightInit::normal}); }

MaxPool2d halving(int64_t kernel) { return MaxPool2d({.kernel = kernel, .stride = 2, .ceil_mode = true}); }

// Channels of an inception block: the branches' results, and the 1x1 reductions before their 3x3 convolutions.
struct Widths {
  int64_t one, reduce3, three, reduce5, five, pool;
  int64_t out() const { return one + three + five + pool; }
};

// (N, in, H, W) -> (N, w.out(), H, W)
nn::Concat inception(int64_t in, const Widths& w) {
  nn::Concat block;
  block.append("branch1", unit(in, w.one, 1));
  block.append("branch2", Sequential(unit(in, w.reduce3, 1), unit(w.reduce3, w.three, 3)));
  block.append("branch3", Sequential(unit(in, w.reduce5, 1), unit(w.reduce5, w.five, 3)));
  block.append("branch4",
               Sequential(MaxPool2d({.kernel = 3, .stride = 1, .padding = 1, .ceil_mode = true}), unit(in, w.pool, 1)));
  return block;
}

// (N, in, H, W) -> (N, K)
nn::Auxiliary auxiliary_head(int64_t in, int64_t classes) {
  constexpr int64_t kCells = 4, kWidth = 128;
  auto head = std::make_shared<Sequential>();
  head->append("pool", nn::AdaptiveAvgPool2d(kCells)).append("conv", unit(in, kWidth, 1));  // (N, 128, 4, 4)
  head->append("flatten", nn::Flatten()).append("fc1", linear(kWidth * kCells * kCells, 1024)).append("relu", ReLU());
  head->append("dropout", nn::Dropout(0.7)).append("fc2", linear(1024, classes));
  return nn::Auxiliary(std::move(head), 0.3);
}

}  // namespace

Sequential googlenet(const Task& task) {
  Sequential net;
  int64_t channels = 192;
  const auto block = [&](const char* name, const Widths& w) {
    net.append(name, inception(channels, w));
    channels = w.out();
  };
  net.append("conv1", unit(task.input[0], 64, 7, 2)).append("maxpool1", halving(3));  // (N, 64, H/4, W/4)
  net.append("conv2", unit(64, 64, 1)).append("conv3", unit(64, 192, 3)).append("maxpool2", halving(3));  // H/8
  block("inception3a", {64, 96, 128, 16, 32, 32});
  block("inception3b", {128, 128, 192, 32, 96, 64});
  net.append("maxpool3", halving(3));  // (N, 480, H/16, W/16)
  block("inception4a", {192, 96, 208, 16, 48, 64});
  net.append("aux1", auxiliary_head(channels, task.classes));
  block("inception4b", {160, 112, 224, 24, 64, 64});
  block("inception4c", {128, 128, 256, 24, 64, 64});
  block("inception4d", {112, 144, 288, 32, 64, 64});
  net.append("aux2", auxiliary_head(channels, task.classes));
  block("inception4e", {256, 160, 320, 32, 128, 128});
  net.append("maxpool4", halving(2));  // (N, 832, H/32, W/32)
  block("inception5a", {256, 160, 320, 32, 128, 128});
  block("inception5b", {384, 192, 384, 48, 128, 128});
  net.append("avgpool", nn::AdaptiveAvgPool2d(1)).append("flatten", nn::Flatten());  // (N, 1024)
  net.append("dropout", nn::Dropout(0.2)).append("fc", linear(channels, task.classes));
  return net;
}

}  // namespace freight::models
