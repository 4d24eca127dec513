// `freight bench compare`: its flags, and the comparison of devices for a network over batch sizes.
#include "bench_compare.h"

#include <cstdio>

#include "bench_output.h"
#include "bench_trees.h"
#include "device_list.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/optim/create.h"
#include "freight/plan/catalog.h"
#include "freight/store/precision.h"
#include "freight/train/learner.h"
#include "lists.h"
#include "plan_table.h"

namespace freight::app {
namespace {

// The kinds of comparisons, each of which has its own flags.
enum Compared : unsigned { kNets = 1, kTrees = 2, kWorlds = 4, kClassic = 8 };
constexpr std::pair<Compared, const char*> kComparedNames[] = {
    {kNets, "networks"}, {kTrees, "trees of a table"}, {kWorlds, "--world"}, {kClassic, "--workloads classic"}};

// The flags that only some comparisons use.
constexpr std::pair<const char*, unsigned> kTakers[] = {
    {"--model", kNets | kTrees | kWorlds},
    {"--target", kTrees},
    {"--input-shape", kNets},
    {"--input-size", kNets},
    {"--num-classes", kNets},
    {"--optimizer", kNets | kWorlds},
    {"--precision", kNets | kWorlds},
    {"--predict", kNets},
    {"--batches", kNets | kWorlds | kClassic},
    {"--rows", kTrees},
    {"--most-seconds", kNets | kClassic},
    {"--deterministic", kNets | kWorlds},
    {"--host-link", kNets},
    {"--samples", kNets},
    {"--peaks", kNets},
    {"--hourly", kNets | kTrees},
    {"--watts", kNets},
    {"--catalog", kNets},
    {"--prices", kNets},
    {"--html", kNets | kClassic},
    {"--trace", kNets},
    {"--shards", kWorlds},
    {"--workers", kWorlds},
    {"--overlap", kWorlds},
    {"--rates", kWorlds},
    {"--scratch", kWorlds},
    {"--comm", kWorlds},
    {"--interface", kWorlds},
    {"--token-file", kWorlds},
    {"--comm-timeout", kWorlds},
    {"--only", kClassic},
    {"--threads", kClassic},
    {"--quick", kClassic},
    {"--most-steps", kClassic},
};

std::string names_of(unsigned compared) {
  std::vector<std::string> names;
  for (const auto& [bit, name] : kComparedNames) {
    if (compared & bit) names.emplace_back(name);
  }
  return join(names, ", ");
}

void need_flags_of(const Options& o, Compared compared) {
  for (const auto& [flag, takers] : kTakers) {
    if (!o.given(flag) || (takers & compared)) continue;
    refuse_flag_of(flag, names_of(takers), cat("this compares ", names_of(compared)));
  }
}

train::Config config_of(const CompareFlags& f, const data::Source& source) {
  if (f.data.empty() && f.model.empty()) {
    fail(ErrorKind::usage, "--model", "nothing to compare: name a model (freight models list), or data that have a ",
         "recipe");
  }
  train::Config c = source ? train::recipe(source) : train::Config{};
  c.data = f.data;
  c.data_dir = f.data_dir;
  if (!f.target.empty()) c.target = f.target;
  train::Config asked;
  asked.target = f.target;
  asked.model = f.model;
  if (const std::string model = train::asked_model(asked, source); !model.empty()) train::set_model(c, model, source);
  return c;
}

void compare_table(const CompareFlags& f, const Options& o, const train::Config& config, const data::Source& source,
                   const tables::RowLearner& learner) {
  TreeComparisonOptions options{.devices = {}, .rows = {}, .seconds = f.run.seconds};
  if (!f.devices.empty() && f.devices != "all") options.devices = parse_devices(f.devices);
  if (!f.rows.empty()) options.rows = parse_counts("--rows", f.rows);
  options.hourly = parse_figures("--hourly", f.prices, options.devices.empty() ? devices_here() : options.devices);
  const TreeComparison c = compare_trees(config, source, learner, options, [&](const std::string& what) {
    if (!o.quiet()) std::fprintf(stderr, "%s\n", what.c_str());
  });
  if (!print_json(f, to_json(c))) print(c);
}

plan::TrainingSetup setup_of(const CompareFlags& f, const data::Source& source, train::Config c) {
  if (!f.optimizer.empty()) c.optimizer = f.optimizer;
  c.precision = f.precision;
  c.input_size = f.input_size;
  c.num_classes = f.classes;
  train::need_net_model(c.model, "a plan");
  train::validate(c);
  return plan::make_setup(c, f.input_shape.empty() ? Shape() : plan::parse_input_shape(f.input_shape), source);
}

int compare_nets(CompareFlags& f, const Options& o, const train::Config& config, const data::Source& source) {
  bench::CompareOptions& run = f.run;
  run.devices = parse_devices(f.devices);
  if (!f.predict.empty()) run.predicted = parse_list("--predict", f.predict);
  run.batches = parse_counts("--batches", f.batches);
  run.peaks = parse_figures("--peaks", f.peaks, run.devices);
  run.prices = parse_figures("--hourly", f.prices, run.devices);
  run.watts = parse_figures("--watts", f.watts, run.devices);
  const plan::Catalog catalog = plan::load_catalog(f.catalog, f.price_file);
  for (const std::string& q : catalog.questions) std::fprintf(stderr, "freight: warning: %s\n", q.c_str());
  // There is nothing to save, so a signal ends the process, even during a long step.
  const bench::Comparison c = bench::compare(setup_of(f, source, config), catalog, run, [&](const std::string& what) {
    if (!o.quiet()) std::fprintf(stderr, "%s\n", what.c_str());
    return true;
  });
  write_output(f.html, f.html.empty() ? "" : bench::to_html(c));
  write_output(f.trace, f.trace.empty() ? "" : bench::chrome_trace(c));
  if (print_json(f, bench::to_json(c))) return 0;
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

}  // namespace

void CompareFlags::declare(Options& o) {
  o.positional("data", &data, "a built-in dataset (freight data list), a directory or a file", false);
  o.add("--model", &model, "a built-in model or a spec FILE.json (default: the dataset's)",
        {.aliases = {"-a", "--arch"}});
  o.add("--data-dir", &data_dir, "directory that is searched first for built-in datasets", {.value = "DIR"});
  o.add("--target", &target, "the target column of a table, by name or number", {.value = "COL"});
  o.add("--input-shape", &input_shape, "shape of one sample, instead of data: 3x224x224, or the tokens of a text",
        {.value = "CxHxW"});
  o.add("--input-size", &input_size, "image size H or HxW", {.value = "H|HxW"});
  o.add("--num-classes", &classes, "classes of a built-in model (0: its own)", {.min = 0, .aliases = {"--classes"}});
  o.add("--optimizer", &optimizer, "optimizer of the training step (default: the dataset's, or sgd)",
        {.value = "NAME"});
  o.add("--precision", &precision, "fp32, tf32, bf16 or fp16", {.one_of = store::precision_names()});
  o.group("What is compared");
  o.add("--devices", &devices,
        "devices of this machine, compared with the first: cpu,opencl:0, all, or a count (default: all); with "
        "--world the device of each rank, cpu or ref",
        {.value = "LIST|N"});
  o.add("--predict", &predict, "devices of the catalog to predict (freight plan)", {.value = "LIST"});
  o.add("-b,--batches", &batches, "batch sizes, ascending; one with --world or --workloads (default: the usual one)",
        {.value = "LIST", .aliases = {"--batch-sizes", "--batch-size"}});
  o.add("--rows", &rows, "numbers of rows of a table, ascending (default: a sixteenth, a quarter and all)",
        {.value = "LIST"});
  o.add("--world", &world, "numbers of devices, like 1,2,4, that train the same: scaling, and causes of lost time",
        {.value = "LIST"});
  o.add("--workloads", &workloads, "classic: the networks of a study of 2017 on each device, next to published figures",
        {.one_of = {"classic"}});
  o.add("--seconds", &run.seconds,
        "seconds to measure each point, after warm-up (default: 3 with --world, 2 with --workloads)",
        {.min = 0.01, .max = 3600});
  o.add("--most-seconds", &run.most_seconds,
        "skip batch sizes or networks whose steps would take longer (default: 60 with --workloads)", {.min = 0.01});
  o.add("--deterministic", &run.deterministic, "fixed kernel choices, no measurement");
  // Not --link: `freight plan` uses that for the network between machines, in Gbit/s.
  o.add("--host-link", &run.link_gb, "GB/s between the host and predicted devices, for times with moved batches",
        {.value = "GB/S", .min = 0});
  o.group("Utilization, money, energy");
  o.add("--samples", &run.samples, "samples per epoch, without data", {.min = 0});
  o.add("--peaks", &peaks, "peak dense TFLOP/s of measured devices: cpu=0.9 (default: the fastest matmul measured)",
        {.value = "LIST"});
  o.add("--hourly", &prices, "dollars per hour of measured devices: cpu=0.17,opencl:0=0.5", {.value = "LIST"});
  o.add("--watts", &watts, "power of measured devices under load: cpu=65", {.value = "LIST"});
  o.add("--catalog", &catalog, "devices instead of catalog/devices.json", {.value = "FILE"});
  o.add("--prices", &price_file, "prices instead of catalog/prices.json", {.value = "FILE"});
  o.group("With --world (docs/scaling.md)");
  o.add("--shards", &shards, "shards per batch; results are then bitwise identical on any number of devices (0: off)",
        {.min = 0});
  o.add("-j,--workers", &workers, "data-loading threads of each rank (-1: chosen automatically)",
        {.min = -1, .aliases = {"--num-workers"}});
  o.add("--overlap", &overlap, "gradient all-reduce during the backward pass, as freight train has it",
        {.one_of = {"auto", "yes", "no"}});
  o.add("--rates", &rates, "rates of this machine, written by freight calibrate -o, for the predictions",
        {.value = "FILE"});
  o.add("--scratch", &scratch, "a folder for the runs, which are removed (default: the system's temporary one)",
        {.value = "DIR"});
  declare_job(o, *this);
  o.group("With --workloads classic");
  o.add("--only", &only, "networks and trainings: fcn5,fcn8,alexnet,resnet50,lstm32,lstm64,mnist,text",
        {.value = "LIST"});
  o.add("--threads", &threads, "numbers of CPU threads, ascending (default: 1, 2, 4 and so on up to the cores)",
        {.value = "LIST"});
  o.add("--quick", &quick,
        "one and all threads alone, a third of a second per network, steps of 5 s and trainings of 200 steps at most");
  o.add("--most-steps", &most_steps, "maximum steps of a training (0: those of its recipe)", {.min = 0});
  o.group("Output");
  o.add("--json", &json, "print JSON");
  o.add("--out", &out, "also write the JSON to a file", {.value = "FILE"});
  o.add("--html", &html, "write a page: of networks with curves, roofline and timeline", {.value = "FILE"});
  o.add("--trace", &trace, "write the steps of one batch as a Chrome trace", {.value = "FILE"});
}

int64_t one_batch(const CompareFlags& f, const Options& o) {
  if (!o.given("--batches")) return 0;
  const std::vector<int64_t> all = parse_counts("--batches", f.batches);
  if (all.size() > 1) {
    refuse_text("--batches", cat("one batch size with ", f.workloads.empty() ? "--world" : "--workloads"), f.batches);
  }
  return all[0];
}

bool print_json(const CompareFlags& f, const std::string& json) {
  write_output(f.out, f.out.empty() ? "" : json + "\n");
  if (f.json) std::printf("%s\n", json.c_str());
  return f.json;
}

int bench_compare_command(const Args& args) {
  CompareFlags f;
  Options o(
      "bench compare", "Times training steps or fits of trees on several devices, or on 1, 2, 4 devices together.",
      "[DATA] [options]",
      "A missing device is an error (exit code 4); use --predict for those.\n"
      "  freight bench compare --model lenet --devices cpu,opencl:0 --html lenet.html\n"
      "  freight bench compare cifar10 --model resnet20 --predict 'GeForce RTX 4090,H100 SXM'\n"
      "  freight bench compare --model resnet50 --devices cpu --batches 1,4,16 --watts cpu=65 --samples 1281167\n"
      "  freight bench compare adult --model gbdt --devices cpu,cuda:0   trees: does the GPU pay off for this table?\n"
      "With --world each number of devices trains DATA (default: digits) for some seconds, as freight train --devices\n"
      "does; time lost compared with linear scaling is attributed to its causes, next to the times that freight plan\n"
      "predicts on a calibrated machine. Ranks of one machine share its cores (OMP_NUM_THREADS=1: one for each rank).\n"
      "  freight bench compare cifar10 --model resnet20 -b 128 --world 1,2,4 --out scaling.json\n"
      "  torchrun --no-python --nproc-per-node 2 freight bench compare digits --json\n"
      "With --workloads classic: FCN-5, FCN-8, AlexNet, ResNet-50, LSTM-32 and LSTM-64 by the training step, then\n"
      "MNIST and a text classification end to end (docs/bench.md). What does not fit or takes too long is skipped.\n"
      "  freight bench compare --workloads classic --quick --html classic.html");
  f.declare(o);
  o.essentials({"data", "--model", "--target", "--devices", "--predict", "--world", "--workloads", "--batches",
                "--rows", "--seconds", "--precision", "--json", "--html", "--out", "--help"});
  if (o.parse(args) == Options::Outcome::done) return 0;
  for (const std::string& path : {f.html, f.trace, f.out}) need_writable(path);
  if (!f.workloads.empty()) {
    for (const GivenFlag& other : {GivenFlag{"--world", !f.world.empty()}, {f.data, !f.data.empty()}}) {
      excludes({"--workloads", true}, other, "it has networks and data of its own");
    }
    need_flags_of(o, kClassic);
    return compare_classic(f, o);
  }
  if (!f.world.empty() || comm::read_launch_environment().world > 1) {
    need_flags_of(o, kWorlds);
    return compare_worlds(f, o, args);
  }
  const data::Source source = f.data.empty() ? data::Source() : data::Source(f.data, {.data_dir = f.data_dir});
  const train::Config config = config_of(f, source);
  if (const tables::RowLearner* trees = source ? planned_trees(config, source) : nullptr) {
    need_flags_of(o, kTrees);
    compare_table(f, o, config, source, *trees);
    return 0;
  }
  need_flags_of(o, kNets);
  return compare_nets(f, o, config, source);
}

}  // namespace freight::app
