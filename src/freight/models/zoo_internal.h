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
// He et al. 2016: `stages[i]` blocks at stage i; the bottleneck's stride is at its 3x3 convolution.
nn::Sequential resnet(const Task& task, Block block, const std::vector<int>& stages);
// The same, section 4.2: three stages of 16, 32 and 64 channels for small images.
nn::Sequential small_resnet(const Task& task, int blocks_per_stage);

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
