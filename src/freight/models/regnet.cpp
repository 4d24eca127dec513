// RegNet (Radosavovic et al. 2020): residual bottlenecks whose widths a search has found. Names, sizes and initial
// values are torchvision's.
#include <cmath>

#include "freight/models/zoo_internal.h"

namespace freight::models {

namespace {

using nn::Sequential;

// relu(f(x) + proj(x)), where proj is the identity if no shape changes. (N, in, H, W) -> (N, out, H / stride, W /
// stride)
Sequential regnet_block(int64_t in, int64_t out, int64_t group, int64_t stride) {
  const auto squeeze = static_cast<int64_t>(std::lround(0.25 * static_cast<double>(in)));
  Sequential f;
  f.append("a", conv_norm(in, out, {.kernel = 1}));
  f.append("b", conv_norm(out, out, {.stride = stride, .groups = out / group}));
  f.append("se", squeeze_excitation(out, {.squeeze = squeeze, .bias_init = nn::BiasInit::standard}));
  f.append("c", conv_norm(out, out, {.kernel = 1, .activation = Activation::none}));
  nn::Sum sum;
  if (in != out || stride != 1) {
    sum.append("proj", conv_norm(in, out, {.kernel = 1, .stride = stride, .activation = Activation::none}));
  } else {
    sum.append("input", nn::Identity());
  }
  sum.append("f", std::move(f));
  Sequential layers;
  layers.append("", std::move(sum)).append("activation", nn::ReLU());
  return layers;
}

}  // namespace

Sequential regnet_y(const Task& task, const RegNet& regnet) {
  int64_t channels = 32;
  Sequential net, trunk;
  net.append("stem", conv_norm(task.input[0], channels, {.stride = 2}));  // (N, 32, H/2, W/2)
  for (size_t s = 0; s < regnet.widths.size(); ++s) {                     // each halves H and W
    const std::string name = "block" + std::to_string(s + 1);
    Sequential stage;
    for (int k = 0; k < regnet.blocks[s]; ++k) {
      stage.append(name + "-" + std::to_string(k),
                   regnet_block(channels, regnet.widths[s], regnet.group, k == 0 ? 2 : 1));
      channels = regnet.widths[s];
    }
    trunk.append(name, std::move(stage));
  }
  net.append("trunk_output", std::move(trunk)).append("avgpool", nn::AdaptiveAvgPool2d(1));
  net.append("flatten", nn::Flatten());
  net.append("fc",
             nn::Linear(channels, task.classes, {.init = nn::WeightInit::normal, .bias_init = nn::BiasInit::zero}));
  return net;
}

}  // namespace freight::models
