// See model_source.h.
#include "model_source.h"

#include <cstdio>

#include "freight/backend/backend.h"
#include "freight/base/error.h"
#include "freight/models/models.h"
#include "freight/optim/create.h"
#include "freight/store/precision.h"
#include "freight/train/learner.h"
#include "memory_size.h"

namespace freight::app {

void ModelSource::declare(Options& o) {
  o.add("--model", &model, "a named model, a spec FILE.json or a stored model", {.aliases = {"-a", "--arch"}});
  o.add("-b,--batch-size", &batch_size, "samples per step", {.min = 1, .max = 1 << 24});
  size.declare(o);
  o.add("--optimizer", &optimizer, "optimizer of the training step", {.one_of = optim::names()});
  o.add("--device", &backend, "auto, cpu, ref, cuda:N or opencl:N");
  o.add("--recompute", &recompute, "activations computed again in the backward half: auto (the cheap ones) or all",
        {.one_of = recompute_names()});
  o.add("--offload", &offload,
        "what may go to host memory: the optimizer's state, and, within --device-memory, activations or, with auto and "
        "all, whatever of computing again and copying is cheaper",
        {.one_of = offload_names()});
  o.add("--device-memory", &device_memory, "with --offload: what the step's arena may take (default: any size)",
        {.value = "4GiB", .aliases = {"--memory-limit"}});
  o.add("--precision", &precision, "of the arithmetic: fp32, tf32, bf16 or fp16", {.one_of = store::precision_names()});
  o.add("--deterministic", &deterministic, "fixed kernel choices, no measurement");
}

models::Model load_model(const std::string& name_or_file, const models::Options& options) {
  train::need_net_model(name_or_file, "a list of layers, a plan or a profile");
  if (!ends_with(name_or_file, ".safetensors")) return models::load(name_or_file, options);
  if (options.classes != 0 || !options.size.empty()) {
    fail(ErrorKind::usage, "model", "class count and input size belong to named models: ", name_or_file,
         " says its own");
  }
  return store::load_net(name_or_file, "a list of layers, a plan or a profile").model;
}

void ModelSize::declare(Options& o) {
  o.add("--num-classes", &classes, "classes of a named model (0: its own)", {.min = 0, .aliases = {"--classes"}});
  o.add("--input-size", &input_size, "pictures of H or HxW for a named model (default: its own)", {.value = "H|HxW"});
}

models::Options ModelSize::options() const {
  return {.classes = classes, .size = input_size.empty() ? Shape() : models::parse_size(input_size)};
}

models::Model ModelSource::load() const { return load_model(model, size.options()); }

ArenaLimit ModelSource::limit() const {
  const Offload mode = parse_offload(offload);
  const auto bytes = static_cast<size_t>(memory_size("--device-memory", device_memory));
  if (mode == Offload::none && bytes > 0) {
    fail(ErrorKind::usage, "--device-memory", "limits what is kept there: need --offload beside it");
  }
  if ((mode == Offload::activations || mode == Offload::automatic) && bytes == 0) {
    fail(ErrorKind::usage, "--offload", "activations stay where all have room: need --device-memory beside it");
  }
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
