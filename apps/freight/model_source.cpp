// See model_source.h.
#include "model_source.h"

#include "freight/base/error.h"
#include "freight/models/models.h"

namespace freight::app {

void ModelSource::declare(Options& o) {
  o.add("--model", &model, "a named model, a spec FILE.json or a stored model", {.aliases = {"-a", "--arch"}});
  o.add("-b,--batch-size", &batch_size, "samples per step", {.min = 1});
  o.add("--classes", &classes, "number of classes (0: the model's own)", {.min = 0});
  o.add("--optimizer", &optimizer, "optimizer of the training step", {.one_of = {"sgd", "adam", "adamw"}});
  o.add("--device", &backend, "auto, cpu or ref");
  o.add("--precision", &precision, "fp32", {.one_of = {"fp32"}});
  o.add("--deterministic", &deterministic, "fixed kernel choices, no measurement");
}

models::Model load_model(const std::string& name_or_file, const models::Options& options) {
  if (ends_with(name_or_file, ".safetensors")) return train::load_bundle(name_or_file).model;
  return models::load(name_or_file, options);
}

models::Model ModelSource::load() const { return load_model(model, {.classes = classes}); }

CompileOptions ModelSource::compile_options() const {
  return {.backend = backend == "auto" ? std::string() : backend,
          .deterministic = deterministic,
          .input_names = {"images", "labels"}};
}

}  // namespace freight::app
