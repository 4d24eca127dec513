// The named models and their registry. Letters: C channels, H W image, K classes.
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/models/models.h"
#include "freight/nn/nn.h"
#include "freight/trace/tracer.h"

namespace freight::models {

namespace {

using nn::BatchNorm2d;
using nn::Conv2d;
using nn::Linear;
using nn::ReLU;
using nn::Sequential;

struct Row {
  Entry entry;
  Model (*build)(const Options& options);
};
const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = {
      {{"mlp", "multilayer perceptron 784-128-10", {1, 28, 28}, 10}, mlp},
      {{"mlp_wide", "multilayer perceptron 784-1024-1024-10", {1, 28, 28}, 10}, mlp_wide},
      {{"lenet", "LeNet-5 with ReLU and max pooling", {1, 28, 28}, 10}, lenet},
      {{"convnet", "small CNN: three strided convolutions with BatchNorm, global pooling", {1, 28, 28}, 10}, convnet},
      {{"resnet20", "residual network of 20 layers for 32x32 images", {3, 32, 32}, 10}, resnet20},
  };
  return kRows;
}

const Entry& entry_of(const std::string& name) {
  std::vector<std::string> names;
  for (const Row& r : rows()) {
    if (r.entry.name == name) return r.entry;
    names.emplace_back(r.entry.name);
  }
  const std::string near = nearest(name, names);
  fail(ErrorKind::usage, "model", "unknown model '", name, "'", near.empty() ? "" : "; did you mean '" + near + "'?",
       " (known: ", join(names, ", "), "; or a path of a spec file)");
}

// Options with the defaults of the named model filled in.
struct Resolved {
  Shape input;
  int64_t classes;
};
Resolved resolve(const char* name, const Options& options) {
  const Entry& e = entry_of(name);
  const Resolved r{options.input.empty() ? e.input : options.input, options.classes == 0 ? e.classes : options.classes};
  if (r.classes < 1) fail(ErrorKind::usage, name, "classes must be positive: got ", r.classes);
  bool ok = r.input.rank() == 3;
  for (int64_t d : r.input) ok = ok && d > 0;
  if (!ok) fail(ErrorKind::usage, name, "input must be (C, H, W) with positive extents: got ", r.input);
  return r;
}

// Checks that the net takes its input: traces it once.
Model finish(const char* name, const Resolved& r, Sequential net) {
  Model m{name, {DType::f32, r.input}, std::make_shared<Sequential>(std::move(net))};
  m.output_type(2);
  return m;
}

Model perceptron(const char* name, const Options& options, const std::vector<int64_t>& hidden) {
  const Resolved r = resolve(name, options);
  Sequential net(nn::Flatten{});
  int64_t width = r.input.numel();
  for (int64_t h : hidden) {
    net.append(Linear(width, h)).append(ReLU());
    width = h;
  }
  net.append(Linear(width, r.classes));
  return finish(name, r, std::move(net));
}

nn::ConvLayerOptions plain(int64_t stride, int64_t padding) {
  return {.stride = stride, .padding = padding, .bias = false, .init = nn::WeightInit::he_normal};
}

// conv3x3 - BN - ReLU - conv3x3 - BN, plus the input (projected where the shape changes), ReLU.
std::shared_ptr<nn::Module> basic_block(int64_t in, int64_t out, int64_t stride) {
  auto main = std::make_shared<Sequential>();
  main->append("conv1", Conv2d(in, out, 3, plain(stride, 1))).append("bn1", BatchNorm2d(out)).append("relu", ReLU());
  main->append("conv2", Conv2d(out, out, 3, plain(1, 1))).append("bn2", BatchNorm2d(out));
  std::shared_ptr<Sequential> shortcut;
  if (stride != 1 || in != out) {
    shortcut = std::make_shared<Sequential>(Conv2d(in, out, 1, plain(stride, 0)), BatchNorm2d(out));
  }
  return std::make_shared<nn::Residual>(main, shortcut, std::make_shared<ReLU>());
}

}  // namespace

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

const std::vector<Entry>& registry() {
  static const std::vector<Entry> kEntries = [] {
    std::vector<Entry> out;
    for (const Row& r : rows()) out.push_back(r.entry);
    return out;
  }();
  return kEntries;
}

Model create(const std::string& name, const Options& options) {
  entry_of(name);
  for (const Row& r : rows()) {
    if (r.entry.name == name) return r.build(options);
  }
  return {};
}

Model mlp(const Options& options) { return perceptron("mlp", options, {128}); }
Model mlp_wide(const Options& options) { return perceptron("mlp_wide", options, {1024, 1024}); }

Model lenet(const Options& options) {
  const Resolved r = resolve("lenet", options);
  // 28 -> conv 28 -> pool 14 -> conv 10 -> pool 5
  const auto side = [](int64_t n) { return std::max<int64_t>((n / 2 - 4) / 2, 1); };
  const int64_t flat = 16 * side(r.input[1]) * side(r.input[2]);
  return finish("lenet", r,
                Sequential(Conv2d(r.input[0], 6, 5, {.padding = 2}), ReLU(), nn::MaxPool2d(2),  // (N, 6, H/2, W/2)
                           Conv2d(6, 16, 5), ReLU(), nn::MaxPool2d(2),                          // (N, 16, H/4-2, W/4-2)
                           nn::Flatten(), Linear(flat, 120), ReLU(), Linear(120, 84), ReLU(), Linear(84, r.classes)));
}

Model convnet(const Options& options) {
  const Resolved r = resolve("convnet", options);
  Sequential net;
  int64_t in = r.input[0];
  for (int64_t out : {16, 32, 64}) {  // (N, out, H/2, W/2) each
    net.append(Conv2d(in, out, 3, plain(2, 1))).append(BatchNorm2d(out)).append(ReLU());
    in = out;
  }
  net.append(nn::AdaptiveAvgPool2d(1)).append(nn::Flatten()).append(Linear(in, r.classes));
  return finish("convnet", r, std::move(net));
}

Model resnet20(const Options& options) {
  const Resolved r = resolve("resnet20", options);
  Sequential net;
  net.append("conv1", Conv2d(r.input[0], 16, 3, plain(1, 1))).append("bn1", BatchNorm2d(16)).append("relu", ReLU());
  int64_t in = 16;
  int stage = 1;
  for (int64_t out : {16, 32, 64}) {
    Sequential blocks;
    for (int k = 0; k < 3; ++k) {
      blocks.append(basic_block(in, out, k == 0 && stage > 1 ? 2 : 1));
      in = out;
    }
    net.append("layer" + std::to_string(stage++), std::move(blocks));
  }
  net.append("avgpool", nn::AdaptiveAvgPool2d(1)).append("flatten", nn::Flatten()).append("fc", Linear(64, r.classes));
  return finish("resnet20", r, std::move(net));
}

Model load(const std::string& name_or_file, const Options& options) {
  const bool file = name_or_file.find('/') != std::string::npos || ends_with(name_or_file, ".json");
  if (!file) return create(name_or_file, options);
  return from_spec_file(name_or_file);
}

}  // namespace freight::models
