// `freight plan`: memory, time and cost of a training run on this machine and on every device of the catalog, before
// anything runs.
#include <algorithm>
#include <cstdio>

#include "device_list.h"
#include "freight/base/cpu_info.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/io/json_library.h"
#include "freight/plan/estimate.h"
#include "freight/plan/preflight.h"
#include "lists.h"
#include "plan_devices.h"
#include "plan_options.h"
#include "plan_table.h"
#include "plan_text.h"
#include "plan_world.h"
#include "text_table.h"

namespace freight::app {
namespace {

using Json = nlohmann::ordered_json;
using plan::Estimate;
using plan::Formula;
using plan::Part;
using plan::Range;
using plan::StepPlan;

constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr int kSizes[] = {4, 8, 12, 16, 24, 40, 48, 80, 141, 192};  // in GiB

struct PlanCommandFlags : PlanFlags {
  std::string devices, world, on;
  FleetFlags shared;
  std::string sort = "speed";
  bool csv = false, means = false;
  int64_t top = 20;
};

// True if only the memory of the described device is known.
bool memory_alone(const PlanFlags& f) {
  const bool described = f.device_bandwidth > 0 || f.device_tflops > 0 || f.config.offload != "none";
  return f.device_bytes() > 0 && !described;
}

// With names, --devices measures and prints its own table, so the other parts of the plan are refused.
void refuse_beside_names(const PlanCommandFlags& f) {
  const std::pair<const char*, bool> others[] = {{"--csv", f.csv},
                                                 {"--means", f.means},
                                                 {"--on", !f.on.empty()},
                                                 {"--offload", f.config.offload != "none"},
                                                 {"--rate-of-one", f.shared.rate_of_one > 0}};
  for (const auto& [flag, given] : others) {
    excludes({cat("--devices ", f.devices), true}, {flag, given}, "it measures these devices");
  }
}

std::string bytes(double n) { return human_bytes(n); }

// The changes that another way to compute makes to memory and FLOPs.
struct Means {
  std::string flag;
  double total = 0, flops = 0;
};
std::vector<Means> means_of(const plan::TrainingSetup& s, const StepPlan& base) {
  std::vector<Means> all;
  const auto add = [&](const std::string& flag, plan::StepPlanOptions o) {
    const StepPlan d = plan::plan_step(s, o);
    all.push_back({flag, static_cast<double>(d.total()), d.flops});
  };
  plan::StepPlanOptions o = base.options;
  for (const char* mode : {"auto", "all"}) {
    o.recompute = parse_recompute(mode);
    if (o.recompute != base.options.recompute) add(cat("--recompute ", mode), o);
  }
  o = base.options;
  for (const int64_t parts : {int64_t{2}, int64_t{4}}) {
    o.parts = base.options.parts * parts;
    if (o.parts <= o.batch) add(cat("--grad-accum ", o.parts), o);
  }
  o = base.options;
  o.offload = Offload::optimizer;
  if (base.part(Part::optimizer) > 0) add("--offload optimizer", o);
  o = base.options;
  o.compute = DType::bf16;
  if (base.options.compute == DType::f32) add("--precision bf16", o);
  return all;
}

// The plan with --offload, next to the one without.
struct Within {
  StepPlan step_plan;
  double device_bytes = 0;
  double slowdown = 0;
  std::string text;
};
std::optional<Within> within(const PlanInput& in, const StepPlan& base, const PlanFlags& f) {
  const Offload offload = parse_offload(in.setup.config.offload);
  if (offload == Offload::none) return std::nullopt;
  const plan::Rates* rates = in.rates ? &*in.rates : nullptr;
  Within w;
  w.device_bytes = f.device_bytes();
  DeviceSpeed speed = plan::speed_of(rates);
  if (f.device_bandwidth > 0) {  // for a described device: the usual fractions, and an assumed link of PCIe 4.0 x16
    speed = {.transfer = 20e9, .bytes = 0.55e9 * f.device_bandwidth, .flops = 0.4e12 * f.device_tflops, .beside = true};
    rates = nullptr;
  }
  plan::StepPlanOptions o = base.options;
  o.offload = offload;
  o.device_bytes = w.device_bytes;
  o.speed = speed;
  w.step_plan = plan::plan_step(in.setup, o);
  plan::add_lengths(w.step_plan, in.setup);
  w.slowdown = plan::slowdown(base, w.step_plan, rates, speed);
  w.text = plan::offload_text(base, w.step_plan, rates, speed);
  return w;
}
Json json_of(const Within& w) {
  return {
      {"mode", to_string(w.step_plan.options.offload)},
      {"device_memory_bytes", w.device_bytes > 0 ? Json(w.device_bytes) : Json(nullptr)},
      {"fits", w.device_bytes > 0 ? Json(static_cast<double>(w.step_plan.total()) <= w.device_bytes) : Json(nullptr)},
      {"total_bytes", w.step_plan.total()},
      {"host_bytes", w.step_plan.part(Part::host)},
      {"copies", w.step_plan.transfers},
      {"copied_bytes", w.step_plan.transferred},
      {"plan_steps", w.step_plan.plan_steps},
      {"predicted_slowdown", w.slowdown}};
}
void print_within(const Within& w) {
  const auto total = static_cast<double>(w.step_plan.total());
  std::printf("\n--offload %s: %s on the device", to_string(w.step_plan.options.offload).c_str(), bytes(total).c_str());
  if (w.device_bytes > 0) {
    std::printf(", %s %s", total <= w.device_bytes ? "within" : "which does not fit", bytes(w.device_bytes).c_str());
  }
  std::printf("\n  %s\n", w.text.c_str());
}

// A device of which only --device-memory is known, which says whether the run fits, and how.
struct DeviceLimit {
  double bytes = 0;
  bool fits = false;
  std::string means;          // how it fits if it does not as it is; "": no means is known
  int64_t largest_batch = 0;  // 0: none fits
};
std::optional<DeviceLimit> device_limit(const std::vector<StepPlan>& step_plans, const Formula& line,
                                        const PlanCommandFlags& f) {
  if (!memory_alone(f)) return std::nullopt;
  if (f.csv)
    fail(ErrorKind::usage, "--csv",
         "lists devices: without it, or with --json, the plan shows what fits --device-memory");
  DeviceLimit l{.bytes = f.device_bytes(), .fits = false, .means = {}, .largest_batch = line.largest(f.device_bytes())};
  l.fits = static_cast<double>(step_plans[0].total()) <= l.bytes;
  if (!l.fits) l.means = plan::accumulation_for(step_plans, l.bytes);
  return l;
}
void print_limit(const DeviceLimit& l, int64_t batch) {
  std::printf("in %s      %s; ", bytes(l.bytes).c_str(),
              l.fits            ? cat("a batch of ", batch, " fits").c_str()
              : l.means.empty() ? cat("a batch of ", batch, " does not fit").c_str()
                                : cat("a batch of ", batch, " fits with ", l.means).c_str());
  if (l.largest_batch > 0) {
    std::printf("the largest that does is %s\n", with_commas(l.largest_batch).c_str());
  } else {
    std::printf("not even one sample does\n");
  }
  std::printf("              times on such a device need --device-bandwidth and --device-tflops, or --on NAME\n");
}

Json json_of(const std::vector<StepPlan>& step_plans, const Formula& line, const std::vector<Means>& means,
             const std::vector<Estimate>& all, const PlanInput& in, const std::optional<Within>& offloaded,
             const std::optional<DeviceLimit>& limit) {
  const StepPlan& d = step_plans[0];
  const auto [x, y] = in.setup.batch_types(d.options.batch);
  Json j = json_of_run(in.setup, d);
  j["input"] = to_string(x);
  j["targets"] = to_string(y);
  j["grad_accum"] = d.options.parts;
  j["arena_bytes"] = d.arena_bytes;
  for (size_t i = 0; i < plan::kParts; ++i) j["memory"][plan::to_string(static_cast<Part>(i))] = d.bytes[i];
  j["peak"] = {{"at", d.peak}, {"tensors", Json::array()}};
  for (const plan::LiveTensor& h : d.live) {
    j["peak"]["tensors"].push_back({{"path", h.path},
                                    {"op", h.what},
                                    {"type", to_string(h.type)},
                                    {"bytes", h.bytes},
                                    {"kind", plan::to_string(h.part)}});
  }
  j["formula"] = {{"fixed_bytes", line.fixed}, {"bytes_per_sample", line.per_sample}, {"batches", Json::array()}};
  for (const StepPlan& other : step_plans) j["formula"]["batches"].push_back(other.options.batch);
  j["formula"]["error"] = line.third > 0 ? Json(line.error) : Json(nullptr);
  for (const int gib : kSizes) j["largest_batch"][std::to_string(gib) + " GiB"] = line.largest(gib * kGib);
  for (const Means& m : means) {
    j["means"].push_back({{"flag", m.flag}, {"total_bytes", m.total}, {"flops", m.flops}});
  }
  if (offloaded) j["offload"] = json_of(*offloaded);
  if (limit) {
    j["device_memory"] = {{"bytes", limit->bytes},
                          {"fits", limit->fits},
                          {"means", limit->means},
                          {"largest_batch", limit->largest_batch}};
  }
  for (const Estimate& e : all) j["devices"].push_back(freight::app::json_of(e, in.catalog));
  return j;
}

void print_memory(const std::vector<StepPlan>& step_plans, const Formula& line) {
  std::printf("\nmemory of a training step at its peak\n%s", memory_table(step_plans[0]).c_str());
  std::string batches;
  for (size_t i = 0; i < step_plans.size(); ++i) {
    batches += cat(i == 0 ? "" : i + 1 < step_plans.size() ? ", " : " and ", step_plans[i].options.batch);
  }
  std::printf("\nformula   %s + %s x batch, from batches %s", bytes(line.fixed).c_str(), bytes(line.per_sample).c_str(),
              batches.c_str());
  if (line.third > 0) {
    std::printf(line.error > 0.002 ? "; not quite linear: %s %% off at %lld" : "; linear",
                fixed(100 * line.error, 1).c_str(), static_cast<long long>(line.third));
  }
  std::printf("\nlargest batch");
  for (const int gib : kSizes) std::printf("  %d GiB: %lld", gib, static_cast<long long>(line.largest(gib * kGib)));
  std::printf("\n");
}

void print_means(const std::vector<Means>& means, const StepPlan& d) {
  if (means.empty()) return;
  std::vector<std::vector<std::string>> rows;
  for (const Means& m : means) {
    const double less = 100 * (m.total / static_cast<double>(d.total()) - 1), more = 100 * (m.flops / d.flops - 1);
    rows.push_back({"  " + m.flag, bytes(m.total), cat(less > 0 ? "+" : "", fixed(less, 0), " %"),
                    cat(more > 0 ? "+" : "", fixed(more, 0), " %")});
  }
  std::printf("\n%s", text_table({"  with", "total", "memory", "FLOPs"}, rows).c_str());
}

// The same step with less frozen, or with frozen layers computed in every epoch.
struct Otherwise {
  std::string flag;
  double total = 0, flops = 0;
};
std::vector<Otherwise> less_frozen(const plan::TrainingSetup& s, const StepPlan& d) {
  std::vector<Otherwise> all;
  if (s.frozen.empty()) return all;
  const auto add = [&](const char* flag, const plan::TrainingSetup& other) {
    const StepPlan then = plan::plan_step(other, d.options);
    all.push_back({flag, static_cast<double>(then.total()), then.flops});
  };
  if (s.uncached) add("with --feature-cache off", *s.uncached);
  plan::TrainingSetup whole = s.uncached ? *s.uncached : s;
  whole.config.freeze.clear();
  add("without --freeze", whole);
  return all;
}
void print_frozen(const plan::TrainingSetup& s, const std::vector<Otherwise>& otherwise, const StepPlan& d) {
  if (otherwise.empty()) return;
  for (const std::string& line : s.frozen) std::printf("frozen    %s\n", line.c_str());
  std::string text =
      cat("a step takes ", bytes(static_cast<double>(d.total())), " and ", number(d.flops * 1e-9), " GFLOP");
  for (const Otherwise& o : otherwise) text += cat(", ", o.flag, " ", bytes(o.total), " and ", number(o.flops * 1e-9));
  std::printf("          %s%s\n", text.c_str(),
              s.features ? "; times do not include the forward pass that computes them once" : "");
}
Json json_of(const plan::TrainingSetup& s, const std::vector<Otherwise>& otherwise) {
  Json j{{"notes", s.frozen}, {"computed_once", s.features.has_value()}, {"otherwise", Json::array()}};
  for (const Otherwise& o : otherwise) {
    j["otherwise"].push_back({{"flags", o.flag}, {"total_bytes", o.total}, {"flops", o.flops}});
  }
  return j;
}

// The first of the listed devices that waits for its data; null if none does.
const Estimate* held_up(const std::vector<Estimate>& all) {
  for (size_t i = 1; i < std::min<size_t>(all.size(), 4); ++i) {
    if (all[i].timed && all[i].data_seconds.high >= all[i].step_seconds.high) return &all[i];
  }
  return nullptr;
}

void print_devices(const std::vector<Estimate>& all, const StepPlan& step_plan, const PlanCommandFlags& f,
                   const PlanInput& in, int64_t devices) {
  const std::vector<const Estimate*> shown = shown_of(all, f.top);
  std::printf("\n%s", estimate_table(shown, {{Figure::device},
                                             {Figure::fits},
                                             {Figure::largest_batch},
                                             {Figure::rate, cat(in.setup.unit, "/s")},
                                             {Figure::epoch_hours},
                                             {Figure::run_hours},
                                             {Figure::dollars},
                                             {Figure::watt_hours}})
                          .c_str());
  if (all.size() > shown.size()) std::printf("%zu more: --top 0\n", all.size() - shown.size());
  const Estimate& here = all[0];
  std::printf("\nthis machine: %s\n", here.assumed.c_str());
  std::printf(
      "devices: predicted, not measured, from catalog/devices.json: dense peak and bandwidth, each times a fraction;\n"
      "         94 %% of the memory; --json has each device's assumption, source and date\n");
  if (f.config.offload != "none") {
    std::printf(
        "         times and fits are those of the plan that offloads; its copies overlap with its\n"
        "         kernels, which wait where the plan has no memory to spare for that\n");
  }
  if (devices > 1) {
    std::printf(
        "%lld of each, with a batch of %lld on every one: predicted; the all-reduce overlaps with the backward pass\n"
        "         runs (docs/plan.md); memory is that of one, dollars and energy are those of all\n",
        static_cast<long long>(devices), static_cast<long long>(step_plan.options.batch));
  }
  if (const Estimate* slow = held_up(all)) {
    std::printf("reading or sending data may slow down %s: %s s per step\n", slow->device.c_str(),
                range(slow->data_seconds).c_str());
  }
  for (size_t i = 1; i < std::min<size_t>(all.size(), 4); ++i) {
    std::printf("  %s: %s%s\n", all[i].device.c_str(), all[i].assumed.c_str(),
                all[i].offer ? cat("; ", text_of(*all[i].offer)).c_str() : "");
  }
  if (here.run_hours.high <= 0 && all[1].run_hours.high <= 0) {
    std::printf("for hours, dollars and energy add --data NAME, or --samples N with --epochs\n");
  }
}

// Trees are fitted on one device, and do not have these options.
void refuse_beside_trees(const PlanCommandFlags& f) {
  const std::pair<const char*, bool> of_nets[] = {{"--world", !f.world.empty()},
                                                  {"--devices", !f.devices.empty()},
                                                  {"--means", f.means},
                                                  {"--device-memory alone", memory_alone(f)},
                                                  {"--input-shape", !f.input_shape.empty()}};
  for (const auto& [flag, given] : of_nets) {
    if (given) refuse_flag_of(flag, "networks", "trees are fitted to a table by one device");
  }
}

// The table of several numbers of devices does not show these.
void refuse_beside_world(const PlanCommandFlags& f) {
  const std::pair<const char*, bool> others[] = {{"--devices", !f.devices.empty()},
                                                 {"--csv", f.csv},
                                                 {"--means", f.means},
                                                 {"--device-memory alone", memory_alone(f)},
                                                 {"--offload", f.config.offload != "none"}};
  for (const auto& [flag, given] : others) {
    excludes({"--world", true}, {flag, given}, "it prints a separate table");
  }
}

}  // namespace

int plan_command(const Args& args) {
  PlanCommandFlags flags;
  const auto make = [&] {
    auto o = std::make_unique<Options>(
        "plan", "Estimates memory, time and cost of a run in advance, on this and other hardware.", "[DATA] [options]",
        "Accepts the flags of freight train; runs nothing except, for trees, one second of fitting, which is "
        "measured.\n"
        "  freight plan --model resnet50 -b 64\n"
        "  freight plan cifar10 --epochs 30 --sort dollars\n"
        "  freight plan housing.csv --target price   trees of a table: does a GPU pay?\n"
        "  freight plan --model resnet50 -b 1024 --world 1,2,4,8\n"
        "  freight plan digits --devices cpu,opencl:0   is it worth sharing a batch?\n"
        "  freight plan --model resnet50 --per-device-batch-size 256 --precision fp16 --world 1,8,64 \\\n"
        "      --link 400gbit-rdma --on \"A100 SXM4 80GB\"\n"
        "  freight plan --model resnet152 --samples 1281167 --epochs 90 --precision bf16 --means\n"
        "  freight plan --model vgg16 --device-memory 20 --device-bandwidth 600 --device-tflops 40");
    flags.declare(*o);
    o->add("--sort", &flags.sort, "order of the devices: speed, dollars, energy, batch, memory or name",
           {.one_of = {"speed", "dollars", "energy", "batch", "memory", "name"}});
    o->add("--top", &flags.top, "number of devices to show (0: all)", {.min = 0});
    o->add("--devices", &flags.devices,
           "data-parallel devices of each kind (predicted); names like cpu,opencl:0 are devices of "
           "this machine, which are measured",
           {.value = "N"});
    o->add("--world", &flags.world, "numbers of devices, like 1,2,4,8: a table of the scaling", {.value = "LIST"});
    declare(*o, flags.shared);
    o->add("--on", &flags.on, "only this device of the catalog", {.value = "NAME"});
    o->add("--means", &flags.means,
           "also plan with recompute, accumulation, offloading and bf16, and show their effect");
    o->add("--csv", &flags.csv, "print the devices as CSV");
    o->essentials({"data",
                   "--model",
                   "--target",
                   "--input-shape",
                   "--batch-size",
                   "--per-device-batch-size",
                   "--epochs",
                   "--samples",
                   "--precision",
                   "--optimizer",
                   "--recompute",
                   "--offload",
                   "--device-memory",
                   "--devices",
                   "--world",
                   "--link",
                   "--on",
                   "--means",
                   "--sort",
                   "--top",
                   "--json",
                   "--csv",
                   "--help"});
    return o;
  };
  std::optional<PlanInput> in = read_plan_input(args, flags, make, Trees::planned, MemoryAlone::answered);
  if (!in) return 0;
  if (!flags.on.empty()) in->catalog.devices = {plan::Device(in->catalog.device(flags.on))};
  if (in->trees) {
    refuse_beside_trees(flags);
    plan_table(flags.config, *in, flags.samples,
               {.sort = flags.sort, .top = flags.top, .json = flags.json, .csv = flags.csv});
    return 0;
  }
  plan::Fleet fleet = flags.shared.fleet(in->catalog);
  if (!flags.world.empty()) {
    refuse_beside_world(flags);
    print_world(*in, {.devices = parse_counts("--world", flags.world),
                      .fleet = fleet,
                      .batch_of_each = flags.shared.per_device_batch,
                      .rate_of_one = flags.shared.rate_of_one,
                      .samples = flags.samples,
                      .top = flags.top,
                      .sort = flags.sort,
                      .json = flags.json});
    return 0;
  }
  if (!flags.devices.empty()) {
    const DeviceList list = parse_device_list("--devices", flags.devices);
    if (!list.count) {
      refuse_beside_names(flags);
      return plan_devices(*in, {.names = list.names, .json = flags.json}, args);
    }
    fleet.devices = *list.count;
  }
  plan::StepPlanOptions options = plan::options_of_run(in->setup);
  options.batch = batch_of_each("--devices", *in, fleet.devices, flags.shared.per_device_batch);
  options.ranks = fleet.devices;
  options.offload = Offload::none;
  requires_flag({"--rate-of-one", flags.shared.rate_of_one > 0}, {cat("--world 1,", fleet.devices)},
                "it is the rate that --world scales from");
  const std::vector<StepPlan> step_plans = plan::plan_steps(in->setup, options);
  const std::optional<Within> offloaded = within(*in, step_plans[0], flags);
  const Formula line = plan::formula(step_plans);
  const std::optional<DeviceLimit> limit = device_limit(step_plans, line, flags);
  const std::vector<Means> means = flags.means ? means_of(in->setup, step_plans[0]) : std::vector<Means>{};
  const std::vector<Estimate> all = estimates(step_plans, *in,
                                              {.fleet = fleet,
                                               .samples = flags.samples,
                                               .sort = flags.sort,
                                               .batch = flags.shared.per_device_batch * fleet.devices},
                                              offloaded ? &offloaded->step_plan : nullptr);
  if (flags.csv) {
    print_csv(all);
    return 0;
  }
  const std::vector<Otherwise> otherwise = less_frozen(in->setup, step_plans[0]);
  if (flags.json) {
    Json j = json_of(step_plans, line, means, all, *in, offloaded, limit);
    if (!otherwise.empty()) j["frozen"] = json_of(in->setup, otherwise);
    std::printf("%s\n", j.dump(2).c_str());
    return 0;
  }
  const StepPlan& d = step_plans[0];
  const auto [x, y] = in->setup.batch_types(options.batch);
  std::printf("model     %s: %s parameters, %s\n", in->setup.config.model.c_str(), with_commas(d.parameters).c_str(),
              to_string(x).c_str());
  if (!in->setup.data.empty()) {
    std::printf("data      %s: %s train, %s test\n", in->setup.data.c_str(), with_commas(in->setup.train_count).c_str(),
                with_commas(in->setup.test_count).c_str());
  }
  std::fputs(texts_line(in->setup).c_str(), stdout);
  std::printf("step      batch %lld%s, %s, %s: %s GFLOP, %s moved, %s FLOPs per byte, %s plan steps\n",
              static_cast<long long>(options.batch),
              options.parts > 1 ? cat(" in ", options.parts, " parts").c_str() : "", in->setup.config.precision.c_str(),
              in->setup.config.optimizer.c_str(), number(d.flops * 1e-9).c_str(), bytes(d.moved).c_str(),
              number(d.flops / d.moved).c_str(), with_commas(static_cast<int64_t>(d.plan_steps)).c_str());
  print_frozen(in->setup, otherwise, d);
  print_memory(step_plans, line);
  if (limit) print_limit(*limit, options.batch);
  print_means(means, d);
  if (offloaded) print_within(*offloaded);
  print_devices(all, d, flags, *in, fleet.devices);
  return 0;
}

}  // namespace freight::app
