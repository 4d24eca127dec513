// Residual networks: ResNet, ResNeXt and wide ResNet. Names of layers are torchvision's.
#include "freight/models/zoo_internal.h"

namespace freight::models {

namespace {

using nn::BatchNorm2d;
using nn::Conv2d;
using nn::ReLU;
using nn::Sequential;

nn::ConvLayerOptions unbiased(int64_t stride, int64_t padding) {
  return {.stride = stride, .padding = padding, .bias = false, .init = nn::WeightInit::he_normal};
}

// activation(main(x) + x), the shortcut projected where the shape changes.
// (N, in, H, W) -> (N, out, H / stride, W / stride)
std::shared_ptr<nn::Module> residual(Sequential main, int64_t in, int64_t out, int64_t stride) {
  std::shared_ptr<Sequential> shortcut;
  if (stride != 1 || in != out) {
    shortcut = std::make_shared<Sequential>(Conv2d(in, out, 1, unbiased(stride, 0)), BatchNorm2d(out));
  }
  return std::make_shared<nn::Residual>(std::make_shared<Sequential>(std::move(main)), shortcut,
                                        std::make_shared<ReLU>());
}

// conv3x3 - BN - ReLU - conv3x3 - BN.
std::shared_ptr<nn::Module> basic_block(int64_t in, int64_t width, int64_t stride) {
  Sequential main;
  main.append("conv1", Conv2d(in, width, 3, unbiased(stride, 1))).append("bn1", BatchNorm2d(width));
  main.append("relu", ReLU());
  main.append("conv2", Conv2d(width, width, 3, unbiased(1, 1))).append("bn2", BatchNorm2d(width));
  return residual(std::move(main), in, width, stride);
}

constexpr int64_t kExpansion = 4;  // of a bottleneck's width

// conv1x1 - BN - ReLU - conv3x3 - BN - ReLU - conv1x1 to 4 x planes - BN; between them planes / 64 x those of `groups`.
std::shared_ptr<nn::Module> bottleneck(int64_t in, int64_t planes, int64_t stride, const Groups& groups) {
  const int64_t out = kExpansion * planes, width = planes * groups.width / 64 * groups.count;
  nn::ConvLayerOptions grouped = unbiased(stride, 1);
  grouped.groups = groups.count;
  Sequential main;
  main.append("conv1", Conv2d(in, width, 1, unbiased(1, 0))).append("bn1", BatchNorm2d(width));
  main.append("relu1", ReLU());
  main.append("conv2", Conv2d(width, width, 3, grouped)).append("bn2", BatchNorm2d(width));
  main.append("relu2", ReLU());
  main.append("conv3", Conv2d(width, out, 1, unbiased(1, 0))).append("bn3", BatchNorm2d(out));
  return residual(std::move(main), in, out, stride);
}

// Appends layer1, layer2, ... of width 1, 2, 4, ... times `width`; all but the first halve the image. Returns the
// channels at the end.
int64_t append_stages(Sequential& net, Block block, int64_t in, int64_t width, const std::vector<int>& stages,
                      const Groups& groups = {}) {
  for (size_t s = 0; s < stages.size(); ++s, width *= 2) {
    Sequential blocks;
    for (int k = 0; k < stages[s]; ++k) {
      const int64_t stride = k == 0 && s > 0 ? 2 : 1;
      blocks.append(block == Block::basic ? basic_block(in, width, stride) : bottleneck(in, width, stride, groups));
      in = block == Block::basic ? width : kExpansion * width;
    }
    net.append("layer" + std::to_string(s + 1), std::move(blocks));
  }
  return in;
}

void append_head(Sequential& net, int64_t channels, int64_t classes) {
  net.append("avgpool", nn::AdaptiveAvgPool2d(1)).append("flatten", nn::Flatten());  // (N, channels)
  net.append("fc", nn::Linear(channels, classes));
}

}  // namespace

Sequential resnet(const Task& task, Block block, const std::vector<int>& stages, const Groups& groups) {
  Sequential net;
  net.append("conv1", Conv2d(task.input[0], 64, 7, unbiased(2, 3)));  // (N, 64, H/2, W/2)
  net.append("bn1", BatchNorm2d(64)).append("relu", ReLU());
  net.append("maxpool", nn::MaxPool2d({.kernel = 3, .stride = 2, .padding = 1}));  // (N, 64, H/4, W/4)
  append_head(net, append_stages(net, block, 64, 64, stages, groups), task.classes);
  return net;
}

Sequential small_resnet(const Task& task, int blocks_per_stage) {
  Sequential net;
  net.append("conv1", Conv2d(task.input[0], 16, 3, unbiased(1, 1)));  // (N, 16, H, W)
  net.append("bn1", BatchNorm2d(16)).append("relu", ReLU());
  const std::vector<int> stages(3, blocks_per_stage);
  append_head(net, append_stages(net, Block::basic, 16, 16, stages), task.classes);
  return net;
}

}  // namespace freight::models
