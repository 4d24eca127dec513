// The flags of commands for one model: a saved model, a built-in one or a spec file, and a batch size.
#pragma once
#include <string>

#include "freight/bench/workload.h"
#include "freight/store/bundle.h"
#include "options.h"

namespace freight::app {

// A built-in model, a spec FILE.json, or the model in a saved FILE.safetensors.
models::Model load_model(const std::string& name_or_file, const models::Options& options = {});

// --num-classes and --input-size, which change a built-in model.
struct ModelSize {
  int64_t classes = 0;
  std::string input_size;

  void declare(Options& o);
  models::Options options() const;
};

struct ModelSource {
  std::string model = "convnet";
  int64_t batch_size = 64;
  ModelSize size;
  std::string optimizer = "sgd";
  std::string backend = "auto";
  std::string precision = "fp32";
  bool deterministic = false;
  std::string recompute = "none";
  std::string offload = "none", device_memory;

  void declare(Options& o);
  void declare_training(Options& o);  // the flags of a training step
  models::Model load() const;
  ArenaLimit limit() const;  // by --offload and --device-memory
  // The options of the training step, or of inference. Prints a note if the device lacks the precision.
  bench::WorkloadOptions options(bench::Pass pass) const;
  // The compiled training step, or inference.
  bench::Workload workload(bench::Pass pass) const;
};

}  // namespace freight::app
