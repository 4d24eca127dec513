// See model_source.h.
#include "model_source.h"

#include <cstdio>

#include "freight/backend/backend.h"
#include "freight/base/error.h"
#include "freight/base/memory_size.h"
#include "freight/base/usage.h"
#include "freight/models/models.h"
#include "freight/optim/create.h"
#include "freight/store/precision.h"
#include "freight/train/learner.h"

namespace freight::app {

void ModelSource::declare(Options& o) {
  o.add("--model", &model, "a built-in model, a spec FILE.json or a saved model", {.aliases = {"-a", "--arch"}});
  o.add("-b,--batch-size", &batch_size, "samples per step", {.min = 1, .max = 1 << 24});
  size.declare(o);
  o.add("--device", &backend, "auto, cpu, ref, cuda:N or opencl:N");
  o.add("--precision", &precision, "fp32, tf32, bf16 or fp16", {.one_of = store::precision_names()});
  o.add("--deterministic", &deterministic, "fixed kernel choices, no measurement");
}

void ModelSource::declare_training(Options& o) {
  o.add("--optimizer", &optimizer, "optimizer of the training step", {.one_of = optim::names()});
  o.add("--recompute", &recompute,
        "gradient checkpointing: recompute activations in the backward pass: auto (the cheap ones) or all",
        {.one_of = recompute_names()});
  o.add("--offload", &offload,
        "offload to host memory: the optimizer state and, with --device-memory, activations, or with auto and "
        "all the cheaper of recomputing and copying",
        {.one_of = offload_names()});
  o.add("--device-memory", &device_memory, "limit of the step's arena with --offload (default: none)",
        {.value = "4GiB", .aliases = {"--memory-limit"}});
}

models::Model load_model(const std::string& name_or_file, const models::Options& options) {
  train::need_net_model(name_or_file, "a list of layers, a plan or a profile");
  if (!ends_with(name_or_file, ".safetensors")) return models::load(name_or_file, options);
  if (options.classes != 0 || !options.size.empty()) {
    fail(ErrorKind::usage, "model", "class count and input size apply to built-in models: ", name_or_file,
         " sets its own");
  }
  return store::load_net(name_or_file, "a list of layers, a plan or a profile").model;
}

void ModelSize::declare(Options& o) {
  o.add("--num-classes", &classes, "classes of a built-in model (0: its own)", {.min = 0, .aliases = {"--classes"}});
  o.add("--input-size", &input_size, "image size H or HxW of a built-in model (default: its own)", {.value = "H|HxW"});
}

models::Options ModelSize::options() const {
  return {.classes = classes, .size = input_size.empty() ? Shape() : models::parse_size(input_size)};
}

models::Model ModelSource::load() const { return load_model(model, size.options()); }

ArenaLimit ModelSource::limit() const {
  const Offload mode = parse_offload(offload);
  const auto bytes = static_cast<size_t>(memory_size("--device-memory", device_memory));
  requires_flag({"--device-memory", bytes > 0}, {"--offload", mode != Offload::none},
                "it limits what stays on the device");
  requires_flag({"--offload", mode == Offload::activations || mode == Offload::automatic},
                {"--device-memory", bytes > 0}, "without a limit all activations stay on the device");
  DeviceSpeed speed;
  speed.beside = freight::backend(backend == "auto" ? current_device() : backend).memory() != nullptr;
  return {.offload = mode, .bytes = bytes, .speed = speed};
}

bench::WorkloadOptions ModelSource::options(bench::Pass pass) const {
  const store::ComputeType compute = store::compute_type(precision, backend);
  if (!compute.note.empty()) std::fprintf(stderr, "note    %s\n", compute.note.c_str());
  return {.batch = batch_size,
          .pass = pass,
          .optimizer = optimizer,
          .compile = {.backend = backend == "auto" ? std::string() : backend,
                      .deterministic = deterministic,
                      .recompute = parse_recompute(recompute),
                      .compute = compute.dtype,
                      .tf32 = compute.tf32,
                      .limit = limit()}};
}

bench::Workload ModelSource::workload(bench::Pass pass) const { return {load(), options(pass)}; }

}  // namespace freight::app
