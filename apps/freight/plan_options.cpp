// See plan_options.h.
#include "plan_options.h"

#include <malloc.h>

#include <cstdio>

#include "config_options.h"
#include "freight/base/error.h"
#include "freight/base/memory_size.h"
#include "freight/base/usage.h"
#include "freight/io/file.h"
#include "freight/io/json_library.h"
#include "freight/train/learner.h"
#include "plan_table.h"

namespace freight::app {

namespace {

// Adds the device that the flags describe, with its price, to the catalog.
void add_described(const PlanFlags& f, const Options& o, MemoryAlone alone, plan::Catalog& catalog) {
  // With --offload, the memory alone is the limit of the run.
  const bool limit = f.config.offload != "none" || alone == MemoryAlone::answered;
  const bool any = (f.device_bytes() > 0 && !limit) || f.device_bandwidth > 0 || f.device_tflops > 0;
  if (!any) {
    for (const char* flag : {"--device-name", "--device-watts", "--device-price"}) {
      requires_flag({flag, o.given(flag)}, {"--device-memory, --device-bandwidth and --device-tflops"},
                    "it describes no device on its own");
    }
    return;
  }
  const std::pair<const char*, double> needed[] = {{"--device-memory", f.device_bytes()},
                                                   {"--device-bandwidth", f.device_bandwidth},
                                                   {"--device-tflops", f.device_tflops}};
  for (const auto& [flag, value] : needed) {
    need_positive(flag, "a described device needs all three", value);
  }
  plan::Device d{.name = f.device_name,
                 .kind = "gpu",
                 .vendor = {},
                 .arch = {},
                 .memory_gib = f.device_bytes() / 0x1p30,
                 .bandwidth_gb = f.device_bandwidth,
                 .tflops = {{"fp32", f.device_tflops}, {"bf16", f.device_tflops}, {"fp16", f.device_tflops}},
                 .tdp_watts = f.device_watts,
                 .source = "the command line",
                 .date = {},
                 .note = {}};
  catalog.devices.insert(catalog.devices.begin(), d);
  if (o.given("--device-price")) {
    need_positive("--device-price", "dollars", f.device_price);
    catalog.prices.push_back({.provider = "yours",
                              .instance = f.device_name,
                              .device = f.device_name,
                              .count = 1,
                              .usd = f.device_price,
                              .region = {},
                              .date = {},
                              .source = "the command line",
                              .note = {}});
  }
}

// If the data set is not on this machine, the message names what a plan accepts instead.
void need_data(const train::Config& probe, const data::Source& source) {
  try {
    source.need();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::data) throw;
    throw Error(e.kind(), e.op(),
                cat(e.message(), "; a plan needs no data: --model ", probe.model.empty() ? "NAME" : probe.model,
                    " --samples N, the number of training samples"));
  }
}

}  // namespace

double PlanFlags::device_bytes() const { return memory_size("--device-memory", device_memory); }

void PlanFlags::declare(Options& o) {
  o.positional("data", &config.data, "a built-in dataset (freight data list), a directory or a file", false);
  declare_config(o, config);
  o.group("Planning (docs/plan.md)");
  o.add("--input-shape", &input_shape, "shape of one sample, instead of data: 3x224x224, or the tokens of a text",
        {.value = "CxHxW"});
  o.add("--samples", &samples, "training samples, without data; for times of epochs", {.min = 1});
  o.add("--catalog", &catalog, "device catalog instead of catalog/devices.json", {.value = "FILE"});
  o.add("--prices", &prices, "price catalog instead of catalog/prices.json", {.value = "FILE"});
  o.add("--rates", &rates, "rates of this machine, written by freight calibrate -o", {.value = "FILE"});
  o.add("--device-name", &device_name, "name of a device that is not in the catalog, described by the next options");
  o.add("--device-memory", &device_memory,
        "memory of that device; without the others: limit of the run's device memory", {.value = "4GiB"});
  o.add("--device-bandwidth", &device_bandwidth, "memory bandwidth of that device, in GB/s", {.min = 0});
  o.add("--device-tflops", &device_tflops, "dense matmul rate of that device at the precision of the run, in TFLOP/s",
        {.min = 0});
  o.add("--device-watts", &device_watts, "rated power of that device, in watts", {.min = 0});
  o.add("--device-price", &device_price, "price of that device, in dollars per hour");
  o.add("--json", &json, "print JSON");
}

std::optional<PlanInput> read_plan_input(const Args& args, PlanFlags& flags,
                                         const std::function<std::unique_ptr<Options>()>& make, Trees trees,
                                         MemoryAlone alone) {
  // Passes allocate and free graphs of megabytes again and again. The heap keeps them: otherwise the kernel takes a
  // tenth of the time to clear pages.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  // The recipe determines the defaults, and the data set the recipe, so these two are read first.
  flags.config.data.clear();
  make()->peek(args);
  const train::Config probe = flags.config;
  if (probe.data.empty() && probe.model.empty()) {
    const auto o = make();  // the help needs no model
    if (o->parse(args) == Options::Outcome::done) return std::nullopt;
    fail(ErrorKind::usage, "--model",
         "nothing to plan: expected a dataset (freight data list), or a model (freight models list) with --samples N "
         "for "
         "the times of epochs: freight plan --model resnet50 --samples 1281167");
  }
  flags = {};
  PlanInput in;
  if (!probe.data.empty()) {
    in.source = train::source_of(probe);
    need_data(probe, in.source);
    flags.config = train::recipe(in.source, probe.recipe);
  }
  flags.config.data = probe.data;
  if (const std::string model = train::asked_model(probe, in.source); !model.empty()) {
    train::set_model(flags.config, model, in.source);
  }
  train::set_picture_sizes(flags.config, probe);
  const auto o = make();
  if (o->parse(args) == Options::Outcome::done) return std::nullopt;
  if (trees == Trees::planned && in.source) in.trees = planned_trees(flags.config, in.source);
  if (!in.trees) {
    train::need_net_model(flags.config.model, "a plan");
    train::validate(flags.config);
  }
  in.catalog = plan::load_catalog(flags.catalog, flags.prices);
  add_described(flags, *o, alone, in.catalog);
  for (const std::string& q : in.catalog.questions) std::fprintf(stderr, "freight: warning: %s\n", q.c_str());
  if (in.trees) return in;
  const Shape input = flags.input_shape.empty() ? Shape() : plan::parse_input_shape(flags.input_shape);
  in.setup = plan::make_setup(flags.config, input, in.source);
  plan::Rates rates;
  if (!flags.rates.empty()) {
    in.rates = plan::Rates::parse(io::read_text(flags.rates), flags.rates);
  } else if (plan::own_rates(rates)) {
    in.rates = std::move(rates);
  }
  return in;
}

nlohmann::ordered_json json_of(const plan::ByBound& shares) {
  nlohmann::ordered_json j;
  for (size_t i = 0; i < plan::kBounds; ++i) j[plan::to_string(static_cast<plan::Bound>(i))] = shares.at[i];
  return j;
}

}  // namespace freight::app
