// Models: nets with their input shape, made by C++ builders, by name, or from JSON specs. A builder's model prints as
// the spec file of the same name under models/. Spec form: docs of from_spec; listing: summary.h.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "freight/nn/module.h"

namespace freight::models {

struct Model {
  std::string name;
  Type input;  // of one sample, without the batch axis: f32[1,28,28]
  std::shared_ptr<nn::Module> net;

  // Type of the net's input for a batch.
  Type batch_type(int64_t batch) const;
  // The net's result for a batch of the input; traced, never run.
  Type output_type(int64_t batch) const;
  // Extent of the last axis of the result.
  int64_t classes() const;
};

// Zero or empty: the model's default.
struct Options {
  int64_t classes = 0;
  Shape input = {};  // of one sample: {1, 28, 28}
};

struct Entry {
  const char* name;
  const char* description;
  Shape input;
  int64_t classes;
};
// The named models.
const std::vector<Entry>& registry();

// A named model. Throws Error(usage) naming the nearest name, or the layer that the input does not fit.
Model create(const std::string& name, const Options& options = {});

// 784-128-10 and 784-1024-1024-10 multilayer perceptrons with ReLU.
Model mlp(const Options& options = {});
Model mlp_wide(const Options& options = {});
// LeNet-5 with ReLU and max pooling (LeCun et al. 1998).
Model lenet(const Options& options = {});
// A small modern CNN: three strided convolutions with BatchNorm, global average pooling.
Model convnet(const Options& options = {});
// He et al. 2016, section 4.2: 20 layers for 32x32 images, projection shortcuts.
Model resnet20(const Options& options = {});

// Builds a model from a spec, {"format": "freight-model-1", "name": ..., "input": [1,28,28], "net": LAYER}. A LAYER is
// an object with a "type" and that type's settings, or a list (Sequential). Sizes that follow from the input ("in",
// "channels") may be left out. "defs" names layers that {"ref": NAME} repeats with parameters of their own.
// Throws Error(usage) with the layer path and `source` for unknown layers or keys (the nearest is named), missing keys,
// cycles, and shapes that do not fit (both are named). Grammar: docs/model-spec.md.
Model from_spec(const std::string& text, const std::string& source = "spec");
// Reads a file and builds from it; throws Error(usage) when it cannot be read.
Model from_spec_file(const std::string& path);
// The spec of a model; from_spec(to_spec(m)) is equal to m. Throws Error(usage) for modules without a spec form.
std::string to_spec(const Model& model);
// A registered name, or the path of a spec file (anything with a slash or ending in .json). Options need a name.
Model load(const std::string& name_or_file, const Options& options = {});

}  // namespace freight::models
