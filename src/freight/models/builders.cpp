// The registry of named models, and the small ones among them. Letters: C channels, H W image, K classes.
#include <algorithm>
#include <functional>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/io/weights_file.h"
#include "freight/models/models.h"
#include "freight/models/zoo_internal.h"
#include "freight/trace/tracer.h"

namespace freight::models {

namespace {

using nn::Conv2d;
using nn::Linear;
using nn::ReLU;
using nn::Sequential;

// One linear layer; its loss makes it linear or logistic regression.
Sequential affine(const Task& task) {
  Sequential net;
  net.append("flatten", nn::Flatten()).append("fc", Linear(task.input.numel(), task.classes));
  return net;
}

Sequential perceptron(const Task& task, const std::vector<int64_t>& hidden) {
  Sequential net(nn::Flatten{});
  int64_t width = task.input.numel();
  for (int64_t h : hidden) {
    net.append(Linear(width, h)).append(ReLU());
    width = h;
  }
  net.append(Linear(width, task.classes));
  return net;
}

// LeCun et al. 1998.
Sequential lenet(const Task& task) {
  // 28 -> conv 28 -> pool 14 -> conv 10 -> pool 5
  const auto side = [](int64_t n) { return std::max<int64_t>((n / 2 - 4) / 2, 1); };
  const int64_t flat = 16 * side(task.input[1]) * side(task.input[2]);
  return Sequential(Conv2d(task.input[0], 6, 5, {.padding = 2}), ReLU(), nn::MaxPool2d(2),  // (N, 6, H/2, W/2)
                    Conv2d(6, 16, 5), ReLU(), nn::MaxPool2d(2),                             // (N, 16, H/4-2, W/4-2)
                    nn::Flatten(), Linear(flat, 120), ReLU(), Linear(120, 84), ReLU(), Linear(84, task.classes));
}

// Two strided convolutions take 28 x 28 to 7 x 7, a third without padding to 5 x 5; larger images are averaged to that.
// Found by a search over nets of under 0.5 MMAC for the test accuracy after one epoch of MNIST.
Sequential convnet(const Task& task) {
  const auto plain = [](int64_t stride, int64_t padding) {
    return nn::ConvLayerOptions{.stride = stride, .padding = padding, .bias = false, .init = nn::WeightInit::he_normal};
  };
  return Sequential(Conv2d(task.input[0], 8, 5, plain(2, 2)), nn::BatchNorm2d(8), ReLU(),  // (N, 8, H/2, W/2)
                    Conv2d(8, 32, 3, plain(2, 1)), nn::BatchNorm2d(32), ReLU(),            // (N, 32, H/4, W/4)
                    Conv2d(32, 32, 3, plain(1, 0)), nn::BatchNorm2d(32), ReLU(),           // (N, 32, H/4-2, W/4-2)
                    nn::AdaptiveAvgPool2d(5), nn::Flatten(), Linear(800, task.classes));
}

// Jordan 2024, "94 % on CIFAR-10 in 3.29 seconds", arXiv:2404.00498, with narrower first stages: a stem of fixed
// whitening filters, then six 3x3 convolutions that begin by passing their channels on, pooled before the norm. The
// window of 2 makes the image odd (31, 15, 7, 3 for 32), so that each pooling drops an edge.
Sequential cifarnet(const Task& task) {
  Sequential net;
  int64_t channels = 8 * task.input[0];  // both signs of all filters of 2 x 2 windows
  net.append(Conv2d(task.input[0], channels, 2, {.bias = false, .init = nn::WeightInit::whiten})).append(nn::GELU());
  const auto conv = [&](int64_t out, bool pool) {
    net.append(Conv2d(channels, out, 3, {.padding = 1, .bias = false, .init = nn::WeightInit::dirac}));
    if (pool) net.append(nn::MaxPool2d(2));
    net.append(nn::BatchNorm2d(out)).append(nn::GELU());
    channels = out;
  };
  for (int64_t out : {64, 128, 256}) {  // (N, 256, (H-1)/8, (W-1)/8) in the end
    conv(out, true);
    conv(out, false);
  }
  const int64_t rows = (task.input[1] - 1) / 8, columns = (task.input[2] - 1) / 8;
  const int64_t side = std::max<int64_t>(std::min(rows, columns), 1);
  const int64_t flat = 256 * std::max<int64_t>(rows / side, 1) * std::max<int64_t>(columns / side, 1);
  net.append(nn::MaxPool2d(side)).append(nn::Flatten()).append(Linear(flat, task.classes));
  return net;
}

enum class Takes { images, any, tokens };  // (C, H, W), samples of any shape, i32 (T)
struct Row {
  Entry entry;
  Sequential (*net)(const Task& task);
  Takes takes = Takes::images;
};
const std::vector<Row>& rows() {
  using T = Task;
  using V = std::vector<int>;
  constexpr Norm kBatch = Norm::batch, kNone = Norm::none;
  constexpr Block kBasic = Block::basic, kNeck = Block::bottleneck;
  const Shape digit{1, 28, 28}, small{3, 32, 32};
  const auto photo = [](const char* name, const char* description, int64_t side = 224, int64_t resize = 256) {
    return Entry{name, description, {3, side, side}, 1000, Loss::cross_entropy, 0, resize};
  };
  // clang-format off
  static const std::vector<Row> kRows = {
      {{"linear_regression", "one linear layer, mean squared error", {8}, 1, Loss::mse}, affine, Takes::any},
      {{"logistic_regression", "one linear layer, cross-entropy", digit, 10}, affine, Takes::any},
      {{"mlp", "multilayer perceptron 784-128-10", digit, 10}, [](const T& t) { return perceptron(t, {128}); }, Takes::any},
      {{"mlp_wide", "multilayer perceptron 784-1024-1024-10", digit, 10},
       [](const T& t) { return perceptron(t, {1024, 1024}); }, Takes::any},
      {{"lenet", "LeNet-5 with ReLU and max pooling", digit, 10}, lenet},
      {{"convnet", "small CNN: three convolutions with BatchNorm, the first two strided", digit, 10}, convnet},
      {{"cifarnet", "whitening stem and six convolutions in three stages for 32x32 images, quick to train", small, 10}, cifarnet},
      {{"resnet20", "residual network of 20 layers for 32x32 images", small, 10}, [](const T& t) { return small_resnet(t, 3); }},
      {{"resnet32", "residual network of 32 layers for 32x32 images", small, 10}, [](const T& t) { return small_resnet(t, 5); }},
      {{"resnet56", "residual network of 56 layers for 32x32 images", small, 10}, [](const T& t) { return small_resnet(t, 9); }},
      {photo("alexnet", "AlexNet, one tower"), alexnet},
      {photo("vgg11", "VGG, configuration A"), [](const T& t) { return vgg(t, V{1, 1, 2, 2, 2}, kNone); }},
      {photo("vgg11_bn", "VGG A with BatchNorm"), [](const T& t) { return vgg(t, V{1, 1, 2, 2, 2}, kBatch); }},
      {photo("vgg13", "VGG, configuration B"), [](const T& t) { return vgg(t, V{2, 2, 2, 2, 2}, kNone); }},
      {photo("vgg13_bn", "VGG B with BatchNorm"), [](const T& t) { return vgg(t, V{2, 2, 2, 2, 2}, kBatch); }},
      {photo("vgg16", "VGG, configuration D"), [](const T& t) { return vgg(t, V{2, 2, 3, 3, 3}, kNone); }},
      {photo("vgg16_bn", "VGG D with BatchNorm"), [](const T& t) { return vgg(t, V{2, 2, 3, 3, 3}, kBatch); }},
      {photo("vgg19", "VGG, configuration E"), [](const T& t) { return vgg(t, V{2, 2, 4, 4, 4}, kNone); }},
      {photo("vgg19_bn", "VGG E with BatchNorm"), [](const T& t) { return vgg(t, V{2, 2, 4, 4, 4}, kBatch); }},
      {photo("googlenet", "GoogLeNet with BatchNorm and two auxiliary heads"), googlenet},
      {photo("resnet18", "residual network of 18 layers"), [](const T& t) { return resnet(t, kBasic, {2, 2, 2, 2}); }},
      {photo("resnet34", "residual network of 34 layers"), [](const T& t) { return resnet(t, kBasic, {3, 4, 6, 3}); }},
      {photo("resnet50", "residual network of 50 layers, bottlenecks"), [](const T& t) { return resnet(t, kNeck, {3, 4, 6, 3}); }},
      {photo("resnet101", "residual network of 101 layers, bottlenecks"), [](const T& t) { return resnet(t, kNeck, {3, 4, 23, 3}); }},
      {photo("resnet152", "residual network of 152 layers, bottlenecks"), [](const T& t) { return resnet(t, kNeck, {3, 8, 36, 3}); }},
      {photo("resnext50_32x4d", "residual network of 50 layers, 32 groups of channels"), [](const T& t) { return resnet(t, kNeck, {3, 4, 6, 3}, {.count = 32, .width = 4}); }},
      {photo("wide_resnet50_2", "residual network of 50 layers, twice as wide inside the bottlenecks"), [](const T& t) { return resnet(t, kNeck, {3, 4, 6, 3}, {.width = 128}); }},
      {photo("densenet121", "DenseNet of 121 layers"), [](const T& t) { return densenet(t, {6, 12, 24, 16}); }},
      {photo("squeezenet1_0", "SqueezeNet 1.0, small in bytes"), [](const T& t) { return squeezenet(t, SqueezeNet::v1_0); }},
      {photo("squeezenet1_1", "SqueezeNet 1.1, 2.4 times less to compute"), [](const T& t) { return squeezenet(t, SqueezeNet::v1_1); }},
      {photo("mobilenet_v2", "MobileNet V2, inverted residuals"), mobilenet_v2},
      {photo("mobilenet_v3_small", "MobileNet V3 small, squeeze-and-excitation, Hardswish"), mobilenet_v3_small},
      {photo("mobilenet_v3_large", "MobileNet V3 large, squeeze-and-excitation, Hardswish"), mobilenet_v3_large},
      {photo("efficientnet_b0", "EfficientNet B0"), [](const T& t) { return efficientnet(t, {1.0, 1.0, 0.2}); }},
      {photo("efficientnet_b1", "EfficientNet B1", 240, 256), [](const T& t) { return efficientnet(t, {1.0, 1.1, 0.2}); }},
      {photo("efficientnet_b2", "EfficientNet B2", 288, 288), [](const T& t) { return efficientnet(t, {1.1, 1.2, 0.3}); }},
      {photo("efficientnet_b3", "EfficientNet B3", 300, 320), [](const T& t) { return efficientnet(t, {1.2, 1.4, 0.3}); }},
      {photo("regnet_y_400mf", "RegNetY of 400 MFLOPs"), [](const T& t) { return regnet_y(t, {{48, 104, 208, 440}, {1, 3, 6, 6}, 8}); }},
      {photo("convnext_tiny", "ConvNeXt tiny, depthwise 7x7 convolutions, LayerNorm", 224, 236), [](const T& t) { return convnext(t, {3, 3, 9, 3}); }},
      {photo("vit_b_16", "vision transformer of 12 layers on patches of 16x16 pixels"), vit_b_16},
      {{"textcnn", "text: convolutions over 3, 4 and 5 words, the largest response of each filter", {64}, 2, Loss::cross_entropy, 20000}, textcnn, Takes::tokens},
      {{"text_bow", "text: the mean of the word embeddings and one linear layer", {64}, 2, Loss::cross_entropy, 20000}, text_bow, Takes::tokens},
      {{"lstm_text", "text: LSTM over the word embeddings, linear layer on the last state", {200}, 4, Loss::cross_entropy, 20000}, lstm_text, Takes::tokens},
      {{"gru_text", "text: GRU over the word embeddings, linear layer on the last state", {200}, 4, Loss::cross_entropy, 20000}, gru_text, Takes::tokens},
      {{"gpt_char", "character-level language model: a transformer of 6 layers", {256}, 65, Loss::cross_entropy, 65}, gpt_char, Takes::tokens},
  };
  // clang-format on
  return kRows;
}

const Row& row_of(const std::string& name) {
  std::vector<std::string> names;
  for (const Row& r : rows()) {
    if (r.entry.name == name) return r;
    names.emplace_back(r.entry.name);
  }
  refuse_unknown("model", {.kind = "model",
                           .got = name,
                           .known = names,
                           .all = cat(" (known: ", join(names, ", "), "; or a path of a spec file)")});
}

// The options with the defaults of the named model filled in.
Task task_of(const Row& row, const Options& options) {
  const Entry& e = row.entry;
  Task t{options.input.empty() ? e.input : options.input, options.classes == 0 ? e.classes : options.classes,
         options.vocabulary == 0 ? e.vocabulary : options.vocabulary, options};
  need_at_least(e.name, "classes", static_cast<double>(t.classes), 1);
  const bool tokens = row.takes == Takes::tokens;
  if (!tokens && options.of_tokens()) {
    fail(ErrorKind::usage, e.name,
         "does not read text and has no vocabulary, length, layers, width, directions or dropout: its input is ",
         e.input);
  }
  if (options.length != 0) t.input = {options.length};
  if (tokens && (t.vocabulary < 3 || t.input.rank() != 1)) {
    fail(ErrorKind::usage, e.name, "reads tokens (T) of a vocabulary of 3 or more: got samples ", t.input,
         ", vocabulary ", t.vocabulary);
  }
  if (!options.size.empty()) {
    if (t.input.rank() != 3) {
      fail(ErrorKind::usage, e.name, "an input size of ", options.size, " needs images (C, H, W): the input is ",
           t.input);
    }
    t.input = {t.input[0], options.size[0], options.size[1]};
  }
  const bool any = row.takes == Takes::any;
  bool ok = any ? t.input.rank() >= 1 : t.input.rank() == (tokens ? 1 : 3);
  for (int64_t d : t.input) ok = ok && d > 0;
  if (!ok) {
    const char* need = any ? "a shape" : tokens ? "(T)" : "(C, H, W)";
    fail(ErrorKind::usage, e.name, "input must be ", need, " with positive sizes: got ", t.input);
  }
  return t;
}

}  // namespace

namespace {
constexpr std::pair<const char*, Loss> kLosses[] = {{"cross_entropy", Loss::cross_entropy},
                                                    {"focal", Loss::focal},
                                                    {"bce", Loss::bce},
                                                    {"mse", Loss::mse},
                                                    {"huber", Loss::huber},
                                                    {"mae", Loss::mae},
                                                    {"multilabel", Loss::multilabel}};
}  // namespace

std::vector<std::string> loss_names() {
  std::vector<std::string> names;
  for (const auto& [name, loss] : kLosses) names.emplace_back(name);
  return names;
}

std::string to_string(Loss loss) {
  for (const auto& [name, known] : kLosses) {
    if (known == loss) return name;
  }
  return {};
}

bool regresses(Loss loss) { return loss == Loss::mse || loss == Loss::huber || loss == Loss::mae; }

bool parse_loss(const std::string& name, Loss& out) {
  for (const auto& [known, loss] : kLosses) {
    if (name == known) return out = loss, true;
  }
  return false;
}

Type Model::batch_type(int64_t batch) const {
  Shape s = input.shape;
  s.insert(0, batch);
  return {input.dtype, s};
}

Type Model::output_type(int64_t batch) const {
  const auto tape = std::make_shared<trace::Trace>(trace::Trace::Mode::compile);
  const trace::Recording recording(tape);
  return (*net)(tape->input("x", batch_type(batch))).type();
}

int64_t Model::classes() const { return output_type(1).shape.back(); }

bool Model::language_model() const { return reads_tokens() && output_type(1).shape.rank() == 3; }

bool Model::takes(const Shape& sample) const {
  try {
    Model other = *this;
    other.input.shape = sample;
    other.output_type(1);
    return true;
  } catch (const Error&) {
    return false;
  }
}

int64_t Model::vocabulary() const {
  const std::function<int64_t(const nn::Module&)> rows = [&](const nn::Module& m) -> int64_t {
    const nn::Config config = m.config();
    if (config.type == "Embedding" || config.type == "EmbeddingBag") return m.variables()[0].variable.shape()[0];
    for (const nn::Child& c : m.children()) {
      if (const int64_t n = rows(*c.module); n > 0) return n;
    }
    return 0;
  };
  return rows(*net);
}

Shape parse_size(const std::string& text) {
  constexpr int64_t kMax = 1 << 16;
  Shape size;
  for (const std::string& part : split(text, 'x')) {
    const int64_t v = parse_number<int64_t>(part).value_or(0);
    if (v < 1 || v > kMax || size.rank() == 2) {
      refuse_text("input size", "H or HxW in pixels, like 224 or 224x192", text);
    }
    size.push_back(v);
  }
  if (size.rank() == 1) size.push_back(size[0]);
  return size;
}

const std::vector<Entry>& registry() {
  static const std::vector<Entry> kEntries = [] {
    std::vector<Entry> out;
    for (const Row& r : rows()) out.push_back(r.entry);
    return out;
  }();
  return kEntries;
}

Model create(const std::string& name, const Options& options) {
  const Row& row = row_of(name);
  const Task task = task_of(row, options);
  const DType dtype = row.takes == Takes::tokens ? DType::i32 : DType::f32;
  Model m{name, {dtype, task.input}, std::make_shared<Sequential>(row.net(task)), row.entry.loss};
  try {
    m.output_type(2);  // checks that the net takes its input
  } catch (const Error& e) {
    const bool smaller = task.input.rank() == 3 && row.entry.input.rank() == 3 &&
                         (task.input[1] < row.entry.input[1] || task.input[2] < row.entry.input[2]);
    if (!smaller) throw;
    throw Error(e.kind(), e.op(),
                cat(e.message(), "; ", name, " is made for ", row.entry.input, " and got ", task.input,
                    ": try a larger --input-size"),
                e.where());
  }
  return m;
}

Model load(const std::string& name_or_file, const Options& options) {
  const bool file = name_or_file.find('/') != std::string::npos || ends_with(name_or_file, ".json") ||
                    ends_with(name_or_file, ".safetensors") || io::names_torch_file(name_or_file);
  if (!file) return create(name_or_file, options);
  if (options.classes != 0 || !options.input.empty() || !options.size.empty() || options.of_tokens()) {
    fail(ErrorKind::usage, "model",
         "class count, sizes, vocabulary and dropout belong to built-in models: ", name_or_file, " sets its own");
  }
  return from_spec_file(name_or_file);
}

}  // namespace freight::models
