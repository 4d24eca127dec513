// See estimate.h. Formulas: a step takes max(FLOPs / (fraction x dense peak), bytes / (fraction x bandwidth)) plus what
// a kernel costs to start; a training step is their sum (Williams et al. 2009, "Roofline"; docs/planner.md).
#include "freight/plan/estimate.h"

#include <algorithm>
#include <cmath>

#include "freight/base/cpu_info.h"
#include "freight/base/error.h"
#include "freight/base/threads.h"

namespace freight::plan {

namespace {

// Where the catalogue has no measured fraction. Best: the median of those it has, 0.80 of the peak and 0.80 of the
// bandwidth. Usual: what whole training steps of others reached (docs/planner.md, "Against published rates").
constexpr double kBestMatmul = 0.80, kUsualMatmul = 0.40, kBestBandwidth = 0.80, kUsualBandwidth = 0.55;
// A kernel of a replayed graph, and one that a framework launches from the host.
constexpr double kBestLaunch = 2e-6, kUsualLaunch = 8e-6;
// What a device's driver and libraries take of its memory.
constexpr double kReserved = 0.06;

struct Timed {
  double total = 0, by[3] = {0, 0, 0};
};
Timed time_of(const std::vector<Work>& work, const Device& d, double matmul, double bandwidth, double launch) {
  Timed t;
  for (const Work& w : work) {
    Bound bound{};
    const double s = seconds_of(w, d, matmul, bandwidth, launch, &bound);
    t.total += s;
    t.by[static_cast<size_t>(bound)] += s;
  }
  return t;
}

// `evaluation`: seconds per sample.
void fill_run(Estimate& e, const Draft& d, const Range& evaluation, const RunLength& length) {
  const auto batch = static_cast<double>(d.options.batch);
  e.timed = true;
  e.samples_per_second = {batch / e.step_seconds.high, batch / e.step_seconds.low};
  if (length.steps_per_epoch <= 0) return;
  e.epoch_hours = e.step_seconds * (length.steps_per_epoch / 3600);
  const double evaluated = length.evaluations * length.evaluation_samples / 3600;
  e.run_hours = {e.epoch_hours.low * length.epochs + evaluation.low * evaluated,
                 e.epoch_hours.high * length.epochs + evaluation.high * evaluated};
}

void fill_fit(Estimate& e, const std::vector<Draft>& drafts, double memory) {
  e.memory_bytes = memory;
  if (memory <= 0) return;
  const Draft& d = drafts[0];
  e.largest_batch = formula(drafts).largest(memory);
  e.fits = static_cast<double>(d.total()) <= memory;
  if (*e.fits) return;
  e.means = accumulation_for(drafts, memory);
}

}  // namespace

double Range::middle() const { return std::sqrt(low * high); }

const char* to_string(Bound bound) {
  return bound == Bound::compute ? "compute" : bound == Bound::memory ? "memory" : "launch";
}

Assumption assumption(const Device& d, DType compute) {
  Assumption a;
  const auto [peak, rate] = d.rate(compute);
  a.peak = cat(rate, " ", fixed(peak, peak < 10 ? 2 : 0), " TFLOP/s dense");
  const bool measured = d.matmul_fraction > 0, bandwidth = d.bandwidth_fraction > 0;
  a.best_matmul = measured ? d.matmul_fraction : kBestMatmul;
  a.best_bandwidth = bandwidth ? d.bandwidth_fraction : kBestBandwidth;
  a.usual_matmul = a.best_matmul * kUsualMatmul / kBestMatmul;
  a.usual_bandwidth = a.best_bandwidth * kUsualBandwidth / kBestBandwidth;
  const bool host = d.kind == "cpu";  // no launches: a kernel is a call
  a.best_launch = host ? 5e-7 : kBestLaunch;
  a.usual_launch = host ? 5e-6 : kUsualLaunch;
  a.matmul_source = measured ? "published for this device" : "the median of published ones";
  a.bandwidth_source = bandwidth ? "published for this device" : "the median of published ones";
  return a;
}

double seconds_of(const Work& w, const Device& d, double matmul, double bandwidth, double launch, Bound* bound) {
  const DType type = w.product() && is_floating(w.dtype) ? w.dtype : DType::f32;
  // Arithmetic outside of products runs on the plain units; where their rate is unknown its bytes alone count.
  const double plain = d.peak("fp32"), peak = w.product() ? d.rate(type).first : plain;
  const double flops = peak > 0 ? w.flops / (peak * 1e12 * (w.product() ? matmul : 0.5)) : 0;
  const double bytes = w.bytes / (d.bandwidth_gb * 1e9 * bandwidth);
  if (bound) {
    *bound = launch > std::max(flops, bytes) ? Bound::launch : flops > bytes ? Bound::compute : Bound::memory;
  }
  return std::max(flops, bytes) + launch;
}

RunLength RunLength::of(const Subject& s, int64_t samples) {
  RunLength l;
  const int64_t count = samples > 0 ? samples : s.train_count;
  if (count <= 0) return l;
  const train::Config& c = s.config;
  l.steps_per_epoch = std::max(1.0, std::floor(static_cast<double>(count) / static_cast<double>(c.batch_size)));
  l.epochs = static_cast<double>(c.epochs);
  if (c.max_steps > 0) {
    const double most = static_cast<double>(c.max_steps) / l.steps_per_epoch;
    l.epochs = c.epochs > 0 ? std::min(l.epochs, most) : most;
  }
  l.evaluations = std::ceil(l.epochs / static_cast<double>(c.eval_every));
  l.evaluation_samples = static_cast<double>(s.test_count);
  return l;
}

std::string accumulation_for(const std::vector<Draft>& drafts, double bytes) {
  const Draft& d = drafts[0];
  const Formula line = formula(drafts);
  const auto weights = static_cast<double>(d.parameters) * 4;
  const double more = d.options.parts > 1 ? 0 : weights;  // accumulators
  for (int64_t parts = std::max<int64_t>(2, d.options.parts); parts <= d.options.batch; ++parts) {
    const int64_t part = (d.options.batch + parts - 1) / parts * d.options.parts;
    if (line.at(part) + more <= bytes) return cat("--grad-accum ", parts);
  }
  return {};
}

Estimate estimate(const std::vector<Draft>& drafts, const Device& device, const Catalog& catalog,
                  const RunLength& length) {
  const Draft& d = drafts[0];
  const DType compute = d.options.compute;
  const Assumption a = assumption(device, compute);
  Estimate e;
  e.device = device.name;
  const double gib = static_cast<double>(int64_t{1} << 30);
  fill_fit(e, drafts, device.kind == "cpu" ? 0 : device.memory_gib * gib * (1 - kReserved));
  const auto span = [&](const std::vector<Work>& work, Timed* slow) {
    const Timed low = time_of(work, device, a.best_matmul, a.best_bandwidth, a.best_launch);
    const Timed high = time_of(work, device, a.usual_matmul, a.usual_bandwidth, a.usual_launch);
    if (slow) *slow = high;
    return Range{low.total, high.total};
  };
  double by[3] = {0, 0, 0};
  for (const Draft::Stage& s : d.stages) {
    Timed slow;
    const Range r = span(s.work, &slow) * s.times;
    e.step_seconds = {e.step_seconds.low + r.low, e.step_seconds.high + r.high};
    for (size_t i = 0; i < 3; ++i) by[i] += slow.by[i] * s.times;
  }
  e.compute_share = by[0] / e.step_seconds.high;
  e.memory_share = by[1] / e.step_seconds.high;
  e.launch_share = by[2] / e.step_seconds.high;
  e.utilisation = d.flops / (e.step_seconds.middle() * device.rate(compute).first * 1e12);
  e.assumed =
      cat(a.peak, " x ", fixed(a.usual_matmul, 2), " to ", fixed(a.best_matmul, 2), ", ", fixed(device.bandwidth_gb, 0),
          " GB/s x ", fixed(a.usual_bandwidth, 2), " to ", fixed(a.best_bandwidth, 2));
  fill_run(
      e, d,
      d.evaluation.empty() ? Range{} : span(d.evaluation, nullptr) * (1.0 / static_cast<double>(d.evaluation_batch)),
      length);
  e.price = catalog.cheapest(device.name);
  if (e.run_hours.high > 0 && e.price) e.dollars = e.run_hours * e.price->usd;
  // From 60 % of the rating, which averages of long trainings come to, to all of it; host and cooling are not in it.
  if (e.run_hours.high > 0 && device.tdp_watts > 0) {
    e.watt_hours = {e.run_hours.low * device.tdp_watts * 0.6, e.run_hours.high * device.tdp_watts};
  }
  return e;
}

Estimate estimate_here(const std::vector<Draft>& drafts, const Rates* rates, const RunLength& length) {
  const CpuInfo cpu = cpu_info();
  const Draft& d = drafts[0];
  Estimate e;
  e.device = cat("this machine: ", cpu.model, ", ", thread_count(), " threads");
  fill_fit(e, drafts, static_cast<double>(cpu.memory_bytes));
  if (!rates) {
    e.assumed = "not calibrated: freight calibrate measures this machine once, in about two minutes";
    return e;
  }
  double middle = 0, compute = 0;
  for (const Draft::Stage& s : d.stages) {
    for (const Work& w : s.work) {
      const double t = rates->seconds(w) * s.times;
      middle += t;
      if (w.product()) compute += t;
    }
  }
  const double spread = 1 + std::clamp(rates->worst_error, 0.05, 1.0);
  e.step_seconds = {middle / spread, middle * spread};
  e.compute_share = compute / middle;
  e.memory_share = 1 - e.compute_share;
  e.assumed = cat("rates measured on ", rates->date, " (", rates->device, ", ", rates->threads,
                  " threads); the range is the calibration's worst error");
  const double evaluation =
      d.evaluation.empty() ? 0 : rates->seconds(d.evaluation) / static_cast<double>(d.evaluation_batch);
  fill_run(e, d, {evaluation / spread, evaluation * spread}, length);
  return e;
}

}  // namespace freight::plan
