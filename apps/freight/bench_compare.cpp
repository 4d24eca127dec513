// `freight bench compare`: a model on several devices, over batch sizes.
#include <cstdio>

#include "bench_output.h"
#include "bench_trees.h"
#include "command.h"
#include "device_list.h"
#include "freight/base/error.h"
#include "freight/bench/compare.h"
#include "freight/optim/create.h"
#include "freight/plan/catalog.h"
#include "freight/store/precision.h"
#include "freight/train/learner.h"
#include "lists.h"
#include "options.h"
#include "plan_table.h"

namespace freight::app {
namespace {

struct CompareFlags {
  std::string data, data_dir, model, target, rows, input_shape, input_size, optimizer, precision = "fp32";
  std::string devices, predict, batches = "1,2,4,8,16,32,64";
  std::string peaks, prices, watts, catalog, price_file, html, trace;
  int64_t classes = 0;
  bool json = false;
  bench::CompareOptions run;

  void declare(Options& o) {
    o.positional("data", &data, "a built-in dataset (freight data list) or a directory, for its shape and size", false);
    o.add("--model", &model, "a built-in model or a spec FILE.json (default: the dataset's)",
          {.aliases = {"-a", "--arch"}});
    o.add("--data-dir", &data_dir, "directory that is searched first for built-in datasets", {.value = "DIR"});
    o.add("--target", &target, "target column of a table, by name or number", {.value = "COL"});
    o.add("--input-shape", &input_shape, "shape of one sample, instead of data: 3x224x224, or the tokens of a text",
          {.value = "CxHxW"});
    o.add("--input-size", &input_size, "image size H or HxW", {.value = "H|HxW"});
    o.add("--num-classes", &classes, "classes of a built-in model (0: its own)", {.min = 0, .aliases = {"--classes"}});
    o.add("--optimizer", &optimizer, "optimizer of the training step (default: the dataset's, or sgd)",
          {.value = "NAME"});
    o.add("--precision", &precision, "fp32, tf32, bf16 or fp16", {.one_of = store::precision_names()});
    o.group("What is compared");
    o.add("--devices", &devices,
          "devices of this machine, compared with the first: cpu,opencl:0, all, or a count (default: all)",
          {.value = "LIST|N"});
    o.add("--predict", &predict, "devices of the catalog to predict (freight plan)", {.value = "LIST"});
    o.add("--batches", &batches, "batch sizes, ascending", {.value = "LIST", .aliases = {"--batch-sizes"}});
    o.add("--rows", &rows, "numbers of rows of a table, ascending (default: a sixteenth, a quarter and all)",
          {.value = "LIST"});
    o.add("--seconds", &run.seconds, "seconds to measure each point, after warm-up", {.min = 0.01, .max = 3600});
    o.add("--most-seconds", &run.most_seconds, "skip batch sizes whose steps would take longer", {.min = 0.01});
    o.add("--deterministic", &run.deterministic, "fixed kernel choices, no measurement");
    // Not --link, which `freight plan` has for what lies between machines, in Gbit/s.
    o.add("--host-link", &run.link_gb, "GB/s between the host and predicted devices, for times with moved batches",
          {.value = "GB/S", .min = 0, .old = {"--link"}});
    o.group("Utilisation, money, energy");
    o.add("--samples", &run.samples, "samples per epoch, without data", {.min = 0});
    o.add("--peaks", &peaks, "peak dense TFLOP/s of measured devices: cpu=0.9 (default: the fastest matmul measured)",
          {.value = "LIST"});
    o.add("--hourly", &prices, "dollars per hour of measured devices: cpu=0.17,opencl:0=0.5", {.value = "LIST"});
    o.add("--watts", &watts, "power of measured devices under load: cpu=65", {.value = "LIST"});
    o.add("--catalog", &catalog, "devices instead of catalog/devices.json", {.value = "FILE"});
    o.add("--prices", &price_file, "prices instead of catalog/prices.json", {.value = "FILE"});
    o.group("Output");
    o.add("--json", &json, "print JSON");
    o.add("--html", &html, "write a page with curves, roofline and timeline", {.value = "FILE"});
    o.add("--trace", &trace, "write the steps of one batch as a Chrome trace", {.value = "FILE"});
  }
};

train::Config config_of(const CompareFlags& f) {
  if (f.data.empty() && f.model.empty()) {
    fail(ErrorKind::usage, "--model", "nothing to compare: name a model (freight models list), or data that have a ",
         "recipe");
  }
  train::Config c = f.data.empty() ? train::Config{} : train::recipe(f.data, "default", f.data_dir);
  c.data = f.data;
  c.data_dir = f.data_dir;
  if (!f.target.empty()) c.target = f.target;
  train::Config asked;
  asked.target = f.target;
  asked.model = f.model;
  if (const std::string model = train::asked_model(asked); !model.empty()) train::set_model(c, model);
  return c;
}

// Refuses the flags of the other kind of model.
void refuse(const Options& o, const std::vector<const char*>& flags, const char* why) {
  for (const char* flag : flags) {
    if (o.given(flag)) fail(ErrorKind::usage, flag, why);
  }
}

void compare_table(const CompareFlags& f, const Options& o, const train::Config& config,
                   const train::RowLearner& learner) {
  refuse(o,
         {"--input-shape", "--input-size", "--num-classes", "--optimizer", "--precision", "--batches", "--most-seconds",
          "--deterministic", "--host-link", "--samples", "--peaks", "--watts", "--html", "--trace"},
         "is for networks: trees are fitted to all rows of a table at once");
  refuse(o, {"--predict", "--catalog", "--prices"}, "is for networks: freight plan TABLE predicts other GPUs");
  TreeComparisonOptions options{.devices = {}, .rows = {}, .seconds = f.run.seconds};
  if (!f.devices.empty() && f.devices != "all") options.devices = parse_devices(f.devices);
  if (!f.rows.empty()) options.rows = parse_counts("--rows", f.rows);
  options.hourly = parse_figures("--hourly", f.prices, options.devices.empty() ? devices_here() : options.devices);
  print(compare_trees(config, learner, options,
                      [&](const std::string& what) {
                        if (!o.quiet()) std::fprintf(stderr, "%s\n", what.c_str());
                      }),
        f.json);
}

plan::Subject subject_of(const CompareFlags& f, train::Config c) {
  if (!f.optimizer.empty()) c.optimizer = f.optimizer;
  c.precision = f.precision;
  c.input_size = f.input_size;
  c.num_classes = f.classes;
  train::need_net_model(c.model, "a plan");
  train::validate(c);
  return plan::make_subject(c, f.input_shape.empty() ? Shape() : plan::parse_input_shape(f.input_shape));
}

}  // namespace

int bench_compare_command(const Args& args) {
  CompareFlags f;
  Options o(
      "bench compare",
      "Times a model's training step on several devices over batch sizes, or a fit of trees over rows.",
      "[DATA] [options]",
      "A missing device is an error (exit code 4); use --predict for those.\n"
      "  freight bench compare --model lenet --devices cpu,opencl:0 --html lenet.html\n"
      "  freight bench compare cifar10 --model resnet20 --predict 'GeForce RTX 4090,H100 SXM'\n"
      "  freight bench compare --model resnet50 --devices cpu --batches 1,4,16 --watts cpu=65 --samples 1281167\n"
      "  freight bench compare adult --model gbdt --devices cpu,cuda:0   trees: does the GPU pay for this table?");
  f.declare(o);
  o.essentials({"data", "--model", "--target", "--input-shape", "--precision", "--devices", "--predict", "--batches",
                "--rows", "--seconds", "--hourly", "--watts", "--json", "--html", "--trace", "--help"});
  if (o.parse(args) == Options::Outcome::done) return 0;
  const train::Config config = config_of(f);
  if (const train::RowLearner* trees = config.data.empty() ? nullptr : planned_trees(config)) {
    compare_table(f, o, config, *trees);
    return 0;
  }
  refuse(o, {"--rows", "--target"}, "is for trees that are fitted to a table: --model gbdt or forest");
  bench::CompareOptions& run = f.run;
  run.devices = parse_devices(f.devices);
  if (!f.predict.empty()) run.predicted = parse_list("--predict", f.predict);
  run.batches = parse_counts("--batches", f.batches);
  run.peaks = parse_figures("--peaks", f.peaks, run.devices);
  run.prices = parse_figures("--hourly", f.prices, run.devices);
  run.watts = parse_figures("--watts", f.watts, run.devices);
  const plan::Catalog catalog = plan::load_catalog(f.catalog, f.price_file);
  for (const std::string& q : catalog.questions) std::fprintf(stderr, "freight: warning: %s\n", q.c_str());
  for (const std::string& path : {f.html, f.trace}) need_writable(path);
  // There is nothing to save, so a signal ends the process, also in the middle of a long step.
  const bench::Comparison c = bench::compare(subject_of(f, config), catalog, run, [&](const std::string& what) {
    if (!o.quiet()) std::fprintf(stderr, "%s\n", what.c_str());
    return true;
  });
  write_output(f.html, f.html.empty() ? "" : bench::to_html(c));
  write_output(f.trace, f.trace.empty() ? "" : bench::chrome_trace(c));
  if (f.json) {
    std::printf("%s\n", bench::to_json(c).c_str());
    return 0;
  }
  std::printf("%s: training step, %s, %s, one sample %s, %s parameters\n", c.model.c_str(), c.precision.c_str(),
              c.optimizer.c_str(), c.input.c_str(), with_commas(c.parameters).c_str());
  for (const bench::Curve& curve : c.curves) {
    std::printf("%s%s: %s\n  dense peak %s: %s\n  %s\n", curve.predicted ? "~ " : "", curve.name.c_str(),
                curve.description.c_str(), curve.peak.c_str(), curve.peak_source.c_str(), curve.assumed.c_str());
  }
  std::printf("\n");
  print(bench::figures_of(c));
  if (c.detail > 0) {
    std::printf("\nlayers at batch %lld\n", static_cast<long long>(c.detail));
    print(bench::layer_listing(c, 12));
  }
  std::printf("\n");
  for (const std::string& text : bench::findings(c)) std::printf("%s\n", text.c_str());
  return 0;
}

}  // namespace freight::app
