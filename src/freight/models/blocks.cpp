// Parts that several families of image networks share. Names of layers are torchvision's.
#include <algorithm>

#include "freight/models/zoo_internal.h"

namespace freight::models {

namespace {

std::shared_ptr<nn::Module> activation_module(Activation activation) {
  switch (activation) {
    case Activation::relu: return std::make_shared<nn::ReLU>();
    case Activation::relu6: return std::make_shared<nn::ReLU6>();
    case Activation::silu: return std::make_shared<nn::SiLU>();
    case Activation::hardswish: return std::make_shared<nn::Hardswish>();
    case Activation::none: break;
  }
  return nullptr;
}

}  // namespace

nn::Sequential assemble(nn::Sequential features, int64_t cells, nn::Sequential classifier) {
  nn::Sequential net;
  net.append("features", std::move(features)).append("avgpool", nn::AdaptiveAvgPool2d(cells));
  net.append("flatten", nn::Flatten()).append("classifier", std::move(classifier));
  return net;
}

nn::Sequential conv_norm(int64_t in, int64_t out, const ConvNorm& o) {
  nn::Sequential layers(nn::Conv2d(in, out, o.kernel,
                                   {.stride = o.stride,
                                    .padding = (o.kernel - 1) / 2,
                                    .groups = o.groups,
                                    .bias = false,
                                    .init = nn::WeightInit::he_normal}),
                        nn::BatchNorm2d(out, o.norm));
  if (auto activation = activation_module(o.activation)) layers.append(std::move(activation));
  return layers;
}

nn::Product squeeze_excitation(int64_t channels, const SqueezeExcitation& o) {
  const nn::ConvLayerOptions conv{.init = nn::WeightInit::he_normal, .bias_init = o.bias_init};
  nn::Sequential gate;
  gate.append("avgpool", nn::AdaptiveAvgPool2d(1)).append("fc1", nn::Conv2d(channels, o.squeeze, 1, conv));
  gate.append("activation", activation_module(o.activation)).append("fc2", nn::Conv2d(o.squeeze, channels, 1, conv));
  if (o.hard_gate) {
    gate.append("scale_activation", nn::Hardsigmoid());
  } else {
    gate.append("scale_activation", nn::Sigmoid());
  }
  nn::Product product;
  product.append("", std::move(gate)).append("input", nn::Identity());
  return product;
}

std::shared_ptr<nn::Module> with_skip(nn::Sequential layers, bool skip) {
  auto main = std::make_shared<nn::Sequential>(std::move(layers));
  if (!skip) return main;
  return std::make_shared<nn::Residual>(std::move(main));
}

int64_t multiple_of_8(double channels) {
  const auto rounded = std::max<int64_t>(static_cast<int64_t>(channels + 4) / 8 * 8, 8);
  return static_cast<double>(rounded) < 0.9 * channels ? rounded + 8 : rounded;
}

}  // namespace freight::models
