// The runs and predictions of a comparison. See compare.h.
#include <algorithm>
#include <cmath>

#include "freight/backend/backend.h"
#include "freight/base/error.h"
#include "freight/bench/capacity_internal.h"
#include "freight/bench/compare.h"
#include "freight/bench/timing.h"
#include "freight/bench/workload.h"
#include "freight/run/plan.h"
#include "freight/store/precision.h"

namespace freight::bench {

namespace {

// The average power of long training runs, as a fraction of the rated power (docs/plan.md).
constexpr double kAveragePower = 0.6;

std::string teraflops(double flops) {
  return cat(fixed(flops * 1e-12, flops < 1e12 ? 3 : flops < 1e13 ? 2 : 0), " TFLOP/s");
}

double given(const std::map<std::string, double>& values, const std::string& device) {
  const auto it = values.find(device);
  return it == values.end() ? 0 : it->second;
}

// The measured roofs as a speed, so that plan::seconds_of determines what limits a step.
plan::Speed speed_of(const Curve& c) {
  const double f = c.roof_flops;
  return {.f32 = f, .f64 = f / 2, .bf16 = f, .f16 = f, .plain = 0.5 * f, .bytes = c.roof_bytes, .launch = c.launch};
}

class Measurement {
 public:
  Measurement(const plan::TrainingSetup& setup, const CompareOptions& options, const Progress& progress,
              const std::vector<plan::StepPlan>& step_plans)
      : setup_(setup), options_(options), progress_(progress), step_plans_(step_plans) {}

  Curve curve(const std::string& device) const {
    Curve c;
    c.name = device;
    c.description = backend(device).description();
    const store::ComputeType compute = store::compute_type(setup_.config.precision, device);
    const Roofs plain = measure_roofs(device, DType::f32, options_.seconds / 2);
    const Roofs roofs =
        compute.dtype == DType::f32 ? plain : measure_roofs(device, compute.dtype, options_.seconds / 2);
    c.roof_flops = roofs.flops;
    c.roof_bytes = plain.bytes;
    c.launch = plain.launch;
    const double peak = given(options_.peaks, device);
    c.peak_flops = peak > 0 ? peak * 1e12 : roofs.flops;
    c.peak = teraflops(c.peak_flops) + (peak > 0 ? " dense" : "");
    c.peak_source = peak > 0 ? "as given" : "the fastest matmul measured on it";
    c.assumed = cat("measured: products ", teraflops(c.roof_flops), ", memory ", fixed(c.roof_bytes * 1e-9, 1),
                    " GB/s, ", fixed(c.launch * 1e6, 2), " us for a kernel that does nothing",
                    compute.note.empty() ? "" : "; ", compute.note);
    c.usd_per_hour = given(options_.prices, device);
    if (c.usd_per_hour > 0) c.price = cat("$", c.usd_per_hour, " per hour, as given");
    c.watts_low = c.watts_high = given(options_.watts, device);
    if (c.watts_high > 0) c.power = cat(c.watts_high, " W, as given");
    for (const plan::StepPlan& step_plan : step_plans_) c.points.push_back(point(c, step_plan, compute));
    return c;
  }

  // The times of the plan's steps at one batch size.
  std::vector<StepTime> step_times(const Curve& c, int64_t batch) const {
    const store::ComputeType compute = store::compute_type(setup_.config.precision, c.name);
    const Workload w = workload(c.name, batch, compute);
    const std::vector<double> times = time_plan_steps(w, options_.seconds);
    const std::vector<plan::Work> work = plan::work_of(w.plan());
    const plan::Speed roofs = speed_of(c);
    std::vector<StepTime> all;
    for (size_t i = 0; i < work.size(); ++i) {
      StepTime p{work[i], times[i]};
      plan::seconds_of(p.work, roofs, &p.bound);
      all.push_back(std::move(p));
    }
    return all;
  }

 private:
  Workload workload(const std::string& device, int64_t batch, const store::ComputeType& compute) const {
    return {setup_.make_model(),
            {.batch = batch,
             .optimizer = setup_.config.optimizer,
             .compile = {.backend = device,
                         .deterministic = options_.deterministic,
                         .compute = compute.dtype,
                         .tf32 = compute.tf32}}};
  }

  BatchPoint point(const Curve& c, const plan::StepPlan& step_plan, const store::ComputeType& compute) const {
    BatchPoint p;
    p.batch = step_plan.options.batch;
    p.skipped = lacks_memory(step_plan, c.name);
    if (p.skipped.empty() && !c.points.empty()) {
      const BatchPoint& last = c.points.back();
      const double expected = last.seconds * static_cast<double>(p.batch) / static_cast<double>(last.batch);
      if (!last.known()) p.skipped = last.skipped;
      if (expected > options_.most_seconds) {
        p.skipped = cat("a step would take about ", fixed(expected, 0), " s");
      }
    }
    if (p.skipped.empty() && !progress_(cat(c.name, ", batch ", p.batch))) p.skipped = "stopped";
    if (!p.skipped.empty()) return p;
    try {
      const Workload w = workload(c.name, p.batch, compute);
      p.flops = w.plan().total_cost().flops;
      const Timed still = time_steps(w, options_.seconds, Batches::resident);
      p.seconds = still.median;
      p.range = {still.least, still.median};
      const bool apart = backend(c.name).memory() != nullptr;
      p.moved_seconds = apart ? time_steps(w, options_.seconds, Batches::moved).median : p.seconds;
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::capacity && e.kind() != ErrorKind::device) throw;
      p.seconds = 0;
      p.skipped = e.what();
    }
    return p;
  }

  const plan::TrainingSetup& setup_;
  const CompareOptions& options_;
  const Progress& progress_;
  const std::vector<plan::StepPlan>& step_plans_;
};

Curve predicted(const plan::Device& d, const plan::Catalog& catalog, const CompareOptions& options,
                const std::vector<plan::StepPlan>& step_plans, double batch_bytes) {
  Curve c;
  c.name = d.name;
  c.description = cat(d.vendor, d.vendor.empty() ? "" : " ", d.kind, d.year > 0 ? cat(" of ", d.year) : "");
  c.predicted = true;
  const DType compute = step_plans[0].options.compute;
  const plan::Assumption a = plan::assumption(d, compute);
  c.peak_flops = d.rate(compute).first * 1e12;
  c.peak = a.peak;
  c.peak_source = cat(d.source, ", ", d.date);
  c.roof_flops = c.peak_flops * a.best_matmul;
  c.roof_bytes = d.bandwidth_gb * 1e9 * a.best_bandwidth;
  c.launch = a.best_launch;
  if (d.tdp_watts > 0) {
    c.watts_low = d.tdp_watts * kAveragePower;
    c.watts_high = d.tdp_watts;
    c.power = cat(fixed(100 * kAveragePower, 0), " to 100 % of the rated ", d.tdp_watts, " W, without the host");
  }
  if (const auto offer = catalog.cheapest(d.name)) {
    const plan::Price& price = *offer->price;
    c.usd_per_hour = offer->usd();
    c.price = cat("$", offer->usd(), " per hour: ", price.provider, " ", price.instance, ", ", price.date);
  }
  for (size_t i = 0; i < step_plans.size(); ++i) {
    // The memory formula needs a second batch size.
    const std::vector<plan::StepPlan> pair = {step_plans[i], step_plans[i == 0 ? 1 : i - 1]};
    const plan::Estimate e = plan::estimate(pair, d, catalog, {});
    c.assumed = cat("predicted, not measured: ", e.assumed);
    BatchPoint p;
    p.batch = step_plans[i].options.batch;
    p.flops = step_plans[i].flops;
    if (e.fits && !*e.fits) {
      p.skipped =
          cat("needs ", human_bytes(static_cast<double>(step_plans[i].total())), ", has ", human_bytes(e.memory_bytes));
    } else {
      p.range = e.step_seconds;
      p.seconds = e.step_seconds.middle();
      if (options.link_gb > 0) {
        p.moved_seconds = p.seconds + batch_bytes * static_cast<double>(p.batch) / (options.link_gb * 1e9);
      }
    }
    c.points.push_back(std::move(p));
  }
  return c;
}

// Each step's time at the middle of its range.
std::vector<StepTime> predicted_step_times(const plan::Device& d, const plan::StepPlan& step_plan) {
  const plan::Assumption a = plan::assumption(d, step_plan.options.compute);
  const plan::Speed best_speed = plan::best_speed(d, a), usual_speed = plan::usual_speed(d, a);
  std::vector<StepTime> all;
  for (const plan::StepPlan::Stage& stage : step_plan.stages) {
    for (const plan::Work& w : stage.work) {
      StepTime p{w};
      const double usual = plan::seconds_of(w, usual_speed, &p.bound), best = plan::seconds_of(w, best_speed);
      p.seconds = plan::Range{best, usual}.middle() * stage.times;
      all.push_back(std::move(p));
    }
  }
  return all;
}

// The largest batch size that all curves have, or else the largest of the first.
int64_t detail_of(const std::vector<Curve>& curves) {
  int64_t of_all = 0, of_first = 0;
  for (const BatchPoint& p : curves[0].points) {
    if (!p.known()) continue;
    of_first = p.batch;
    if (std::all_of(curves.begin(), curves.end(), [&](const Curve& c) { return c.at(p.batch) != nullptr; })) {
      of_all = p.batch;
    }
  }
  return of_all > 0 ? of_all : of_first;
}

}  // namespace

Comparison compare(const plan::TrainingSetup& setup, const plan::Catalog& catalog, const CompareOptions& options,
                   const Progress& progress) {
  for (const std::string& d : options.devices) backend(d);
  std::vector<const plan::Device*> predicted_devices;
  for (const std::string& name : options.predicted) predicted_devices.push_back(&catalog.device(name));
  std::vector<plan::StepPlan> step_plans;
  for (const int64_t batch : options.batches) {
    plan::StepPlanOptions o = plan::options_of(setup);
    o.batch = batch;
    o.parts = 1;
    step_plans.push_back(plan::plan_step(setup, o));
  }
  Comparison c;
  const auto [x, y] = setup.batch_types(1);
  c.model = setup.config.model;
  c.input = to_string(x);
  c.precision = setup.config.precision;
  c.optimizer = setup.config.optimizer;
  c.unit = setup.unit;
  c.data = setup.data;
  c.parameters = step_plans[0].parameters;
  c.samples = options.samples > 0 ? options.samples : static_cast<double>(setup.train_count);
  const Measurement measurement(setup, options, progress, step_plans);
  for (const std::string& d : options.devices) c.curves.push_back(measurement.curve(d));
  const bool any = std::any_of(c.curves.begin(), c.curves.end(), [](const Curve& k) { return k.fastest() != nullptr; });
  if (!any) {
    fail(ErrorKind::capacity, "bench compare", "no batch size could be run: ", c.curves[0].points[0].skipped);
  }
  if (!predicted_devices.empty() && step_plans.size() == 1) {
    plan::StepPlanOptions o = step_plans[0].options;
    o.batch *= 2;
    step_plans.push_back(plan::plan_step(setup, o));  // for the memory formula
  }
  const auto batch_bytes = static_cast<double>(x.bytes() + y.bytes());
  for (const plan::Device* d : predicted_devices) {
    c.curves.push_back(predicted(*d, catalog, options, step_plans, batch_bytes));
    c.curves.back().points.resize(options.batches.size());
  }
  c.detail = detail_of(c.curves);
  for (size_t i = 0; i < c.curves.size(); ++i) {
    Curve& curve = c.curves[i];
    if (!curve.at(c.detail)) continue;
    if (!curve.predicted) {
      if (progress(cat(curve.name, ", layers at batch ", c.detail)))
        curve.step_times = measurement.step_times(curve, c.detail);
      continue;
    }
    const auto step_plan = std::find_if(step_plans.begin(), step_plans.end(),
                                        [&](const plan::StepPlan& d) { return d.options.batch == c.detail; });
    curve.step_times = predicted_step_times(*predicted_devices[i - options.devices.size()], *step_plan);
  }
  return c;
}

}  // namespace freight::bench
