// Commands that work on one model are told this: a stored bundle, a named model or a spec file, and a batch size.
#pragma once
#include <string>

#include "freight/bench/workload.h"
#include "freight/store/bundle.h"
#include "options.h"

namespace freight::app {

// A named model, a spec FILE.json, or the model of a stored FILE.safetensors.
models::Model load_model(const std::string& name_or_file, const models::Options& options = {});

// --num-classes and --input-size, which change a named model.
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
  void declare_training(Options& o);  // what only a training step reads
  models::Model load() const;
  ArenaLimit limit() const;  // that --offload and --device-memory say
  // The training step, or inference. Says on stderr where the device lacks the precision.
  bench::WorkloadOptions options(bench::Pass pass) const;
  // The same compiled.
  bench::Workload workload(bench::Pass pass) const;
};

}  // namespace freight::app
