// `freight explain`: why a device helps a network or not: FLOPs, bytes and the limit of each layer, and conclusions in
// plain words.
#include <algorithm>
#include <cstdio>
#include <map>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/io/json_library.h"
#include "freight/plan/estimate.h"
#include "plan_options.h"
#include "plan_text.h"
#include "plan_world.h"
#include "text_table.h"

namespace freight::app {
namespace {

using Json = nlohmann::ordered_json;
using plan::Bound;
using plan::Work;

struct ExplainFlags : PlanFlags {
  std::string on = "H100 SXM5 80GB";
  int64_t top = 20;
};

// The figures of a layer, over forward pass, backward pass and update.
struct Layer {
  std::string path;
  double flops = 0, bytes = 0, products = 0;  // products: FLOPs in matmuls and convolutions
  double outputs = 0;                         // independent outputs of its largest product
  double here = 0, there = 0;                 // in seconds; `here` is 0 without rates
  plan::ByBound by;                           // in seconds on the other device
  size_t steps = 0;

  const char* bound() const { return plan::to_string(by.largest()); }
  void add(const Work& w, double times, const plan::Speed& speed, const plan::Rates* rates) {
    flops += w.flops * times;
    bytes += w.bytes * times;
    if (w.product()) products += w.flops * times;
    outputs = std::max(outputs, w.m * w.n);
    Bound bound{};
    const double s = times * plan::seconds_of(w, speed, &bound);
    there += s;
    by[bound] += s;
    if (rates) here += times * rates->seconds(w);
    ++steps;
  }
};

// The layers: the modules of the steps, without their inner parts: "layer1.0.conv1", "blocks.2".
std::vector<Layer> layers_of(const plan::StepPlan& step_plan, const plan::Speed& speed, const plan::Rates* rates) {
  std::vector<Layer> layers;
  std::map<std::string, size_t> number;
  for (const plan::StepPlan::Stage& stage : step_plan.stages) {
    for (const Work& w : stage.work) {
      const std::string path = w.path.empty() ? "(loss and updates)" : w.path;
      const auto [it, fresh] = number.try_emplace(path, layers.size());
      if (fresh) {
        layers.emplace_back();
        layers.back().path = path;
      }
      layers[it->second].add(w, stage.times, speed, rates);
    }
  }
  return layers;
}

// One short paragraph per finding, with the network's figures.
std::vector<std::string> findings(const Layer& all, const plan::StepPlan& step_plan, const plan::Estimate& here,
                                  const plan::Estimate& there, const ExplainFlags& f) {
  std::vector<std::string> out;
  const plan::ByBound shares = all.by.shares();
  const double launch = shares[Bound::launch], memory = shares[Bound::memory], compute = shares[Bound::compute];
  const auto percent = [](double share) { return fixed(100 * share, 0) + " %"; };
  out.push_back(cat(percent(all.products / all.flops), " of the FLOPs are matmuls and convolutions, which GPUs ",
                    "are fastest at; the step does ", fixed(all.flops / all.bytes, 1),
                    " FLOPs per byte that it moves."));
  if (launch > 0.3) {
    out.push_back(cat("Launch-bound on ", f.on, ": ", percent(launch), " of the time is spent on launching ",
                      step_plan.plan_steps, " kernels that end before the next one is launched. The batch of ",
                      step_plan.options.batch, " is too small for the device: a larger one takes hardly more time."));
  }
  if (memory > 0.3) {
    out.push_back(cat("Memory-bound on ", f.on, " for ", percent(memory),
                      " of the time: operations on activations wait for memory, not for arithmetic. ",
                      step_plan.options.compute == DType::f32 ? "--precision bf16 halves their bytes; a" : "A",
                      " device with more bandwidth helps, one with more FLOP/s does not."));
  }
  if (compute > 0.3) {
    out.push_back(cat("Compute-bound on ", f.on, " for ", percent(compute),
                      " of the time: a device with more FLOP/s, or a type with fewer bits, makes this part faster."));
  }
  if (here.timed) {
    out.push_back(cat("A step is predicted to take ", range(here.step_seconds * 1e3), " ms on this machine and ",
                      range(there.step_seconds * 1e3), " ms on ", f.on, ": ",
                      fixed(here.step_seconds.middle() / there.step_seconds.middle(), 1),
                      " times, by the midpoints of both ranges."));
  } else {
    out.push_back("This machine is not calibrated: freight calibrate measures it once.");
  }
  return out;
}

}  // namespace

int explain_command(const Args& args) {
  ExplainFlags flags;
  const auto make = [&] {
    auto o = std::make_unique<Options>("explain", "Explains, layer by layer, why a device speeds up a network or not.",
                                       "[DATA] [options]",
                                       "  freight explain --model resnet50 -b 64\n"
                                       "  freight explain --model mlp --on 'GeForce RTX 4090'");
    flags.declare(*o);
    o->add("--on", &flags.on, "the other device, from the catalog", {.value = "NAME"});
    o->add("--top", &flags.top, "slowest layers to show (0: all)", {.min = 0});
    o->essentials({"data", "--model", "--input-shape", "--batch-size", "--precision", "--on", "--top", "--rates",
                   "--json", "--help"});
    return o;
  };
  std::optional<PlanInput> in = read_plan_input(args, flags, make);
  if (!in) return 0;
  const plan::Device device = in->catalog.device(flags.on);
  flags.on = device.name;
  in->catalog.devices = {device};
  const plan::StepPlanOptions options = plan::options_of_run(in->setup);
  const std::vector<plan::StepPlan> step_plans = plan::plan_steps(in->setup, options);
  const plan::StepPlan& step_plan = step_plans[0];
  const std::vector<plan::Estimate> estimated =
      estimates(step_plans, *in, {.fleet = {}, .samples = flags.samples}, nullptr);
  const plan::Estimate &here = estimated[0], &there = estimated[1];
  const plan::Assumption assumed = plan::assumption(device, options.compute);
  const plan::Rates* rates = in->rates ? &*in->rates : nullptr;
  std::vector<Layer> layers = layers_of(step_plan, plan::usual_speed(device, assumed), rates);
  Layer all;
  for (const Layer& l : layers) {
    all.flops += l.flops;
    all.bytes += l.bytes;
    all.products += l.products;
    all.here += l.here;
    all.there += l.there;
    all.by.add(l.by);
  }
  const std::vector<std::string> found = findings(all, step_plan, here, there, flags);
  if (flags.json) {
    Json j = json_of_run(in->setup, step_plan);
    j["product_share"] = all.products / all.flops;
    j["share"] = json_of(all.by.shares());
    j["findings"] = found;
    for (const plan::Estimate& e : estimated) j["devices"].push_back(json_of(e, in->catalog));
    for (const Layer& l : layers) {
      j["layers"].push_back({{"path", l.path},
                             {"steps", l.steps},
                             {"flops", l.flops},
                             {"bytes", l.bytes},
                             {"flops_per_byte", l.flops / std::max(l.bytes, 1.0)},
                             {"independent_outputs", l.outputs},
                             {"seconds_here", rates ? Json(l.here) : Json(nullptr)},
                             {"seconds_there", l.there},
                             {"bound", l.bound()}});
    }
    std::printf("%s\n", j.dump(2).c_str());
    return 0;
  }
  std::stable_sort(layers.begin(), layers.end(), [](const Layer& a, const Layer& b) { return a.there > b.there; });
  const size_t shown = flags.top == 0 ? layers.size() : std::min(layers.size(), static_cast<size_t>(flags.top));
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < shown; ++i) {
    const Layer& l = layers[i];
    rows.push_back({l.path, fixed(l.flops * 1e-9, 2), human_bytes(l.bytes), fixed(l.flops / std::max(l.bytes, 1.0), 1),
                    l.outputs > 0 ? with_commas(static_cast<int64_t>(l.outputs)) : "-",
                    rates ? fixed(l.here * 1e3, 2) : "-", fixed(l.there * 1e3, 3), l.bound()});
  }
  std::printf("%s, batch %lld, %s; the other device: %s (%s, %s GB/s), predicted\n\n", in->setup.config.model.c_str(),
              static_cast<long long>(options.batch), in->setup.config.precision.c_str(), device.name.c_str(),
              assumed.peak.c_str(), fixed(device.bandwidth_gb, 0).c_str());
  if (!in->setup.length_shares(options.batch).empty()) {
    std::printf("layers: of a step of the longest texts, %lld tokens; devices: the mean over all lengths\n\n",
                static_cast<long long>(in->setup.input.shape[0]));
  }
  std::fputs(
      text_table({"layer", "GFLOP", "bytes", "FLOPs/byte", "outputs", "ms here", "ms there", "bound there"}, rows)
          .c_str(),
      stdout);
  if (layers.size() > shown) std::printf("%zu more: --top 0\n", layers.size() - shown);
  std::printf("\n%s", estimate_table({&here, &there}, {{Figure::device},
                                                       {Figure::total},
                                                       {Figure::fits},
                                                       {Figure::step},
                                                       {Figure::rate, cat(in->setup.unit, "/s")},
                                                       {Figure::run_hours},
                                                       {Figure::dollars}})
                          .c_str());
  for (const std::string& text : found) std::printf("\n%s\n", text.c_str());
  return 0;
}

}  // namespace freight::app
