// See preflight.h.
#include "freight/plan/preflight.h"

#include <algorithm>
#include <cmath>

#include "freight/backend/backend.h"
#include "freight/base/cpu_info.h"
#include "freight/base/device_memory.h"
#include "freight/plan/estimate.h"
#include "freight/run/plan.h"

namespace freight::plan {

namespace {

struct Mean {
  StepPlanOptions options;
  PlanChange change;
  std::string changes;
};

// The means, least costly first: more micro-batches cost little, recomputation up to a third of the FLOPs, and copies
// the time to move their bytes. `parts_change`: how micro-batches change the results, "" if they do not.
// `device_bytes`: for the step; 0 if there is no host memory to offload to.
std::vector<Mean> means_for(const StepPlan& step_plan, const std::string& parts_change, double device_bytes) {
  const StepPlanOptions& now = step_plan.options;
  const bool same = parts_change.empty();
  std::vector<Mean> all;
  const auto add = [&](int64_t batch, int64_t parts, Recompute recompute, Offload offload) {
    StepPlanOptions o = now;
    o.batch = batch;
    o.parts = parts;
    o.recompute = recompute;
    o.offload = offload;
    o.device_bytes = device_bytes;
    o.whole_run = false;
    PlanChange change;
    const bool other = batch != now.batch;
    if (other) change.batch_size = batch * now.ranks;
    if (parts != now.parts) change.grad_accum = parts;
    if (recompute != now.recompute) change.recompute = recompute;
    if (offload != now.offload) change.offload = offload;
    all.push_back({o, change, other ? "the batch size differs" : parts != now.parts ? parts_change : ""});
  };
  const auto add_parts = [&](Recompute recompute, Offload offload) {
    for (int64_t parts = 2 * now.parts; parts <= now.batch; parts *= 2) add(now.batch, parts, recompute, offload);
  };
  // Offloading chooses recomputation itself where that costs less.
  const auto add_offload = [&] {
    if (device_bytes <= 0) return;
    for (const Offload offload : {Offload::automatic, Offload::all}) {
      if (now.offload == Offload::all || now.offload == offload) continue;
      add(now.batch, now.parts, now.recompute, offload);
      if (same) add_parts(now.recompute, offload);
    }
  };
  if (same) add_parts(now.recompute, now.offload);
  if (step_plan.beside) add_offload();
  if (now.recompute == Recompute::none) add(now.batch, now.parts, Recompute::automatic, now.offload);
  if (now.recompute != Recompute::all) {
    add(now.batch, now.parts, Recompute::all, now.offload);
    if (same) add_parts(Recompute::all, now.offload);
  }
  if (!step_plan.beside) add_offload();
  if (!same) {
    add_parts(now.recompute, now.offload);
    if (now.recompute != Recompute::all) add_parts(Recompute::all, now.offload);
  }
  for (int64_t batch = now.batch / 2; batch >= 1; batch /= 2) add(batch, 1, Recompute::all, now.offload);
  return all;
}

// Below this size the program's own pages blur a comparison; above it they are within this fraction.
constexpr double kSureBytes = 200.0 * 1024 * 1024, kTolerance = 0.08;

std::string percent_more(double measured, double planned) {
  const double more = 100 * (measured / planned - 1);
  return cat(more > 0 ? "+" : "", fixed(more, 0), " %");
}

std::string milliseconds(double s) { return cat(fixed(s * 1e3, s < 0.01 ? 2 : s < 0.1 ? 1 : 0), " ms"); }

}  // namespace

bool PlanChange::any() const {
  return batch_size > 0 || grad_accum > 0 || recompute || offload || host_data || save_in_place;
}

void PlanChange::apply(train::Config& c) const {
  if (batch_size > 0) c.batch_size = batch_size;
  if (grad_accum > 0) c.grad_accum = grad_accum;
  if (recompute) c.recompute = to_string(*recompute);
  if (offload) c.offload = to_string(*offload);
  if (host_data) c.device_data = "no";
  if (save_in_place) c.save_in_place = true;
}

std::string PlanChange::flags() const {
  std::vector<std::string> all;
  if (host_data) all.emplace_back("--device-data no");
  if (batch_size > 0) all.push_back(cat("--batch-size ", batch_size));
  if (grad_accum > 0) all.push_back(cat("--grad-accum ", grad_accum));
  if (recompute) all.push_back(cat("--recompute ", to_string(*recompute)));
  if (offload) all.push_back(cat("--offload ", to_string(*offload)));
  if (save_in_place) all.emplace_back("--save-in-place");
  return join(all, " ");
}

Memory memory_for(const train::Planned& planned, double limit) {
  const std::string& name = planned.step[0].plan->options().backend;
  Memory memory = memory_of(name, limit);
  const auto drawn = static_cast<double>(planned.drawn_bytes);
  if (backend(name).memory() || limit > 0) {
    memory.host += drawn;
  } else {
    memory.device += drawn;
  }
  return memory;
}

Memory memory_of(const std::string& name, double limit) {
  const auto free = static_cast<double>(cpu_info().memory_available_bytes);
  const auto device = backend(name).memory();
  if (device) return {limit > 0 ? limit : static_cast<double>(device->free_bytes()), free};
  return {limit > 0 ? limit : free, limit > 0 ? std::max(0.0, free - limit) : 0};
}

FitCheck fit_within(StepPlan step_plan, const TrainingSetup& setup, const Memory& memory) {
  // A CPU's memory contains what is offloaded, too.
  const auto fits = [&](const StepPlan& d, double total) {
    const double host = memory.host + (d.beside ? 0 : memory.device - total);
    return total <= memory.device && static_cast<double>(d.part(Part::host)) <= host;
  };
  FitCheck f;
  f.step_plan = std::move(step_plan);
  f.needed = static_cast<double>(f.step_plan.total());
  f.available = memory.device;
  f.fits = fits(f.step_plan, f.needed);
  if (f.fits) return f;
  // The copy for a checkpoint saves one wait per checkpoint and no step, so it is the first to go.
  const auto copy = static_cast<double>(f.step_plan.part(Part::checkpoint));
  if (copy > 0 && fits(f.step_plan, f.needed - copy)) {
    f.change.save_in_place = true;
    f.options = f.step_plan.options;
    f.needed_then = f.needed - copy;
    return f;
  }
  const char* change = has_batch_statistics(setup.make_model())
                           ? "BatchNorm computes its statistics over a part of the batch"
                       : f.step_plan.random ? "micro-batches draw other random numbers"
                                            : "";
  const auto adapt = [&](double left_out, bool others) {
    // This memory does not depend on the step. The evaluation uses smaller batches if the step does, and at most as
    // much memory.
    const double run = static_cast<double>(f.step_plan.part(Part::process)) + copy - left_out;
    const auto evaluation =
        std::min(static_cast<double>(f.step_plan.part(Part::evaluation)), (memory.device - run) / 2);
    auto kept = run + static_cast<double>(f.step_plan.part(Part::weights) + f.step_plan.part(Part::averages));
    if (memory.host <= 0) kept += static_cast<double>(f.step_plan.part(Part::optimizer));
    if (kept > f.available) return false;
    for (const Mean& m : means_for(f.step_plan, change, memory.host > 0 ? memory.device - run - evaluation : 0)) {
      if (m.changes.empty() == others) continue;
      StepPlan then = plan::plan_step(setup, m.options);
      double total = static_cast<double>(then.total()) + run;
      if (!fits(then, total)) continue;
      if (f.step_plan.options.whole_run) {
        StepPlanOptions whole = m.options;
        whole.whole_run = true;
        then = plan::plan_step(setup, whole);
        total = static_cast<double>(then.total()) - left_out;
        if (!fits(then, total)) continue;
      }
      f.change = m.change;
      f.change.save_in_place = left_out > 0;
      f.options = m.options;
      f.changes = m.changes;
      f.needed_then = total;
      return true;
    }
    return false;
  };
  for (const bool others : {false, true}) {
    if (adapt(0, others) || (copy > 0 && adapt(copy, others))) break;
  }
  return f;
}

FitCheck check_fit(const train::Planned& planned, const Memory& memory) {
  FitCheck whole = fit_within(plan_step(planned), setup_of(planned), memory);
  if (whole.fits || planned.data_bytes == 0) return whole;
  // A data set on the device makes room first; no other means is known to combine with it.
  train::Planned fed = planned;
  fed.data_bytes = 0;
  FitCheck f = fit_within(plan_step(fed), setup_of(fed), memory);
  if (f.fits) {
    f.fits = false;
    f.options = f.step_plan.options;
    f.needed_then = f.needed;
    f.change.host_data = true;
  } else {
    f.change.host_data = f.change.any();
  }
  f.needed = whole.needed;
  f.step_plan = std::move(whole.step_plan);
  return f;
}

Error refusal(const FitCheck& f) {
  const auto bytes = [](double n) { return human_bytes(n); };
  std::string text = cat("the run does not fit: needs ", bytes(f.needed), ", has ", bytes(f.available), " free");
  text += "\n  of these";
  std::vector<std::pair<size_t, Part>> parts;
  for (size_t i = 0; i < kParts; ++i) parts.emplace_back(f.step_plan.bytes[i], static_cast<Part>(i));
  std::sort(parts.rbegin(), parts.rend());
  for (size_t i = 0; i < 4 && parts[i].first > 0; ++i) {
    text += cat(i > 0 ? ", " : " ", to_string(parts[i].second), " ", bytes(static_cast<double>(parts[i].first)));
  }
  text += cat("\n  the largest tensors at the peak (", f.step_plan.peak, ")");
  for (size_t i = 0; i < std::min<size_t>(f.step_plan.live.size(), 5); ++i) {
    const LiveTensor& h = f.step_plan.live[i];
    text += cat("\n    ", bytes(static_cast<double>(h.bytes)), "  ", h.path.empty() ? "-" : h.path, "  ", h.what, " ",
                h.type);
  }
  if (!f.change.any()) {
    text += "\n  no batch size, accumulation, recomputation or offloading would fit";
  } else {
    text += cat("\n  would fit, with ", bytes(f.needed_then), ": the same command with ", f.change.flags(),
                f.changes.empty() ? "  (or --fit auto)" : cat("  (other results: ", f.changes, ")"));
  }
  return {ErrorKind::capacity, "train", text};
}

DeviceSpeed speed_of(const Rates* rates) {
  DeviceSpeed s;
  if (!rates) return s;
  Work move, product;
  move.bytes = 1 << 27;  // half of the bytes are read, half written
  move.kind = kTransfer;
  s.transfer = move.bytes / 2 / rates->seconds(move);
  move.kind = "map";
  s.bytes = move.bytes / rates->seconds(move);
  product.kind = "conv3x3";
  product.m = 16384, product.n = 64, product.k = 576;
  product.flops = 2 * product.m * product.n * product.k;
  s.flops = product.flops / rates->seconds(product);
  return s;
}

double slowdown(const StepPlan& before, const StepPlan& after, const Rates* rates, const DeviceSpeed& speed) {
  const Speed assumed{.f32 = speed.flops,
                      .f64 = speed.flops / 2,
                      .bf16 = speed.flops,
                      .f16 = speed.flops,
                      .plain = speed.flops,
                      .bytes = speed.bytes,
                      .transfer = speed.transfer};
  const auto seconds = [&](const StepPlan& d) {
    if (rates) return step_seconds(d, *rates).middle();
    double sum = 0;
    for (const StepPlan::Stage& stage : d.stages) {
      double once = 0;
      for (const Work& w : stage.work) once += seconds_of(w, assumed);
      sum += stage.times * (speed.beside ? seconds_of(stage.work, assumed) : once);
    }
    return sum;
  };
  return seconds(after) / seconds(before) - 1;
}

std::string offload_text(const StepPlan& before, const StepPlan& after, const Rates* rates, const DeviceSpeed& speed) {
  if (after.transfers == 0) return "everything fits: nothing is offloaded";
  const auto steps = static_cast<int64_t>(after.plan_steps) - static_cast<int64_t>(before.plan_steps);
  const auto host = static_cast<double>(after.part(Part::host)) - static_cast<double>(before.part(Part::host));
  return cat(after.transfers, " copies of ", human_bytes(after.transferred), " to or from ", human_bytes(host),
             " of host memory, ", std::max<int64_t>(0, steps - after.transfers),
             " steps recomputed; predicted slowdown ", fixed(100 * slowdown(before, after, rates, speed), 0),
             rates ? " %" : " % (by assumed rates)");
}

std::vector<std::string> comparison(const Outcome& o) {
  std::vector<std::string> lines;
  const double more = o.measured_bytes - o.planned_bytes;
  lines.push_back(cat("memory  planned ", human_bytes(o.planned_bytes), ", measured ", human_bytes(o.measured_bytes),
                      " (",
                      std::max(o.planned_bytes, o.measured_bytes) > kSureBytes
                          ? percent_more(o.measured_bytes, o.planned_bytes)
                          : cat(more < 0 ? "-" : "+", human_bytes(std::fabs(more))),
                      ")"));
  if (o.planned_seconds > 0 && o.measured_seconds > 0) {
    lines.push_back(cat("step    planned ", milliseconds(o.planned_seconds), ", measured ",
                        milliseconds(o.measured_seconds), " (", percent_more(o.measured_seconds, o.planned_seconds),
                        ")"));
  }
  return lines;
}

bool exceeds_plan(const Outcome& o) {
  return o.planned_bytes > kSureBytes && o.measured_bytes > o.planned_bytes * (1 + kTolerance);
}

}  // namespace freight::plan
