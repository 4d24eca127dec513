// The nets of the registry, one function per family. Letters: C channels, H W image, K classes, T tokens, V vocabulary.
#pragma once
#include <vector>

#include "freight/models/models.h"
#include "freight/nn/nn.h"

namespace freight::models {

// A named net is built for this task: the options with the model's defaults filled in.
struct Task {
  Shape input;             // of one sample; (C, H, W) for convolutional nets
  int64_t classes;         // K
  int64_t vocabulary = 0;  // V of nets that read tokens; their input is (T)
  Options options = {};    // the others, as given
};

enum class Norm { none, batch };
enum class Block { basic, bottleneck };

// Krizhevsky 2014 (one tower), as torchvision has it.
nn::Sequential alexnet(const Task& task);
// Simonyan and Zisserman 2015: 3x3 convolutions, `stages[i]` of them before pooling i.
nn::Sequential vgg(const Task& task, const std::vector<int>& stages, Norm norm);
// Szegedy et al. 2015 with BatchNorm and two auxiliary heads, as torchvision has it.
nn::Sequential googlenet(const Task& task);
// The 3x3 convolutions of bottlenecks: how many groups, of how many channels each at the first stage.
struct Groups {
  int64_t count = 1, width = 64;
};
// He et al. 2016: `stages[i]` blocks at stage i; the bottleneck's stride is at its 3x3 convolution. With groups Xie et
// al. 2017, with wider ones Zagoruyko and Komodakis 2016.
nn::Sequential resnet(const Task& task, Block block, const std::vector<int>& stages, const Groups& groups = {});
// The same, section 4.2: three stages of 16, 32 and 64 channels for small images.
nn::Sequential small_resnet(const Task& task, int blocks_per_stage);

// Huang et al. 2017: `blocks[i]` dense layers in block i.
nn::Sequential densenet(const Task& task, const std::vector<int>& blocks);
// Iandola et al. 2016. Version 1.1 pools earlier.
enum class SqueezeNet { v1_0, v1_1 };
nn::Sequential squeezenet(const Task& task, SqueezeNet version);
// Sandler et al. 2018.
nn::Sequential mobilenet_v2(const Task& task);
// Howard et al. 2019.
nn::Sequential mobilenet_v3_small(const Task& task);
nn::Sequential mobilenet_v3_large(const Task& task);
// Tan and Le 2019: factors of the channels and of the number of blocks, and the dropout before the last layer.
struct EfficientNet {
  double width, depth, dropout;
};
nn::Sequential efficientnet(const Task& task, const EfficientNet& size);
// Radosavovic et al. 2020, with squeeze-and-excitation: stages of residual bottlenecks, in groups of `group` channels.
struct RegNet {
  std::vector<int64_t> widths;
  std::vector<int> blocks;
  int64_t group;
};
nn::Sequential regnet_y(const Task& task, const RegNet& net);
// Liu et al. 2022: `blocks[i]` blocks at stage i, of 96 channels and twice as many at each further stage.
nn::Sequential convnext(const Task& task, const std::vector<int>& blocks);
// Dosovitskiy et al. 2021: patches of 16 x 16 pixels as tokens.
nn::Sequential vit_b_16(const Task& task);

// Parts that several families share (blocks.cpp).
enum class Activation { none, relu, relu6, silu, hardswish };
struct ConvNorm {
  int64_t kernel = 3, stride = 1, groups = 1;
  Activation activation = Activation::relu;
  nn::BatchNormOptions norm = {};
};
// features (N, C, h, w) - pooled to (N, C, cells, cells) whatever the image - flat - classifier.
nn::Sequential assemble(nn::Sequential features, int64_t cells, nn::Sequential classifier);
// Convolution without bias - BatchNorm - activation: (N, in, H, W) -> (N, out, H / stride, W / stride).
nn::Sequential conv_norm(int64_t in, int64_t out, const ConvNorm& options);
// Hu et al. 2018: x times a factor per channel, which two 1x1 convolutions over `squeeze` channels make of the means.
struct SqueezeExcitation {
  int64_t squeeze;
  Activation activation = Activation::relu;
  bool hard_gate = false;  // Hardsigmoid instead of Sigmoid
  nn::BiasInit bias_init = nn::BiasInit::zero;
};
nn::Product squeeze_excitation(int64_t channels, const SqueezeExcitation& options);
// The layers, and their input added to the result where `skip`.
std::shared_ptr<nn::Module> with_skip(nn::Sequential layers, bool skip);
// The multiple of 8 next to a number of channels, at least 8 and at least 90 % of it.
int64_t multiple_of_8(double channels);

// Kim 2014.
nn::Sequential textcnn(const Task& task);
// A bag of words: the mean of their vectors, one linear layer.
nn::Sequential text_bow(const Task& task);
// A decoder of pre-norm blocks, as GPT-2 (Radford et al. 2019) but for its own output layer: (N, T) -> (N, T, V).
nn::Sequential gpt_char(const Task& task);
// Embedding, recurrent layers, one linear layer on the state behind the last token: (N, T) -> (N, K).
nn::Sequential lstm_text(const Task& task);
nn::Sequential gru_text(const Task& task);

}  // namespace freight::models
