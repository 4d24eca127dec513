// See fitting.h.
#include "freight/plan/fitting.h"

#include <algorithm>
#include <new>
#include <optional>
#include <vector>

#include "freight/backend/backend.h"
#include "freight/base/cpu_info.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/data/outline.h"
#include "freight/job/ranks.h"
#include "freight/plan/batch.h"
#include "freight/plan/estimate.h"
#include "freight/plan/floor.h"
#include "freight/plan/memory_use.h"
#include "freight/run/plan.h"
#include "freight/trace/device.h"
#include "freight/train/learner.h"

namespace freight::plan {
namespace {

// A change of the plan, with which the run is prepared again.
struct Change {
  std::string why;
  PlanChange plan;
};

std::optional<Rates> rates_of(const train::Planned& p) {
  Rates rates;
  if (p.step[0].plan->options().backend == "cpu" && own_rates(rates)) return rates;
  return std::nullopt;
}
const Rates* pointer_to(const std::optional<Rates>& rates) { return rates ? &*rates : nullptr; }

// --batch-size auto: chooses from the plan, then tries a real step. Each trial is a preparation of its own, so that its
// memory and random draws are gone when the run begins.
class BatchChoice {
 public:
  explicit BatchChoice(job::Ranks* ranks) : ranks_(ranks) {}

  std::optional<Change> next(const train::Planned& p, const Memory& memory, const Rates* rates) {
    const int64_t size = p.inputs.shape[0];
    if (tried_ == size) return std::nullopt;
    if (chosen_ == 0) {
      const GoodBatch good = good_batch(p, memory.device, rates);
      chosen_ = least(good.size) * p.ranks;
      if (chosen_ != size) return Change{cat("with more than ", chosen_, " ", good.why), batch_of(chosen_)};
    }
    return tried(p, size, memory);
  }

 private:
  static PlanChange batch_of(int64_t size) { return {.batch_size = size}; }

  // The minimum over all ranks.
  int64_t least(int64_t mine) const {
    if (!ranks_) return mine;
    const std::vector<int64_t> all = ranks_->gather(mine);
    return *std::min_element(all.begin(), all.end());
  }

  Change tried(const train::Planned& p, int64_t size, const Memory& memory) {
    const int64_t before = memory_use().resident;
    std::optional<double> seconds;
    try {
      seconds = try_step(p);
    } catch (const std::bad_alloc&) {
      // It does not fit, which is reported below.
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::capacity) throw;  // the same error
    }
    const bool fits = seconds && static_cast<double>(memory_use().peak - before) <= memory.device;
    if (least(fits ? 1 : 0) == 0) {
      if (size <= p.ranks) throw Error(ErrorKind::capacity, "train", "not even one sample fits the memory");
      chosen_ = size / 2;
      return {cat("a step of ", size, " needed more memory than available"), batch_of(chosen_)};
    }
    tried_ = size;
    return {cat("a step of ", size, " was tried: ", fixed(*seconds * 1e3, 1), " ms"), batch_of(size)};
  }

  job::Ranks* ranks_;
  int64_t chosen_ = 0, tried_ = 0;  // sizes
};

// Plans a run that offloads within the available memory; returns the step plan without that limit.
StepPlan plan_offload(train::PreparedRun& run, double device_memory) {
  const train::Planned p = run.planned();
  StepPlan unlimited = plan_step(p);
  const std::optional<Rates> rates = rates_of(p);
  DeviceSpeed speed = speed_of(pointer_to(rates));
  speed.beside = unlimited.beside;
  run.plan_within(
      {.offload = {}, .bytes = arena_within(unlimited, memory_for(p, device_memory).device), .speed = speed});
  return unlimited;
}

// Compares the plan with the memory; `step_plan` becomes that of the unchanged run.
std::optional<Change> check_memory(const train::Planned& p, const FitOptions& options, const Memory& memory,
                                   StepPlan& step_plan) {
  if (options.if_too_large == FitOptions::IfTooLarge::ignore) {
    step_plan = plan::plan_step(p);
    return std::nullopt;
  }
  FitCheck fit = check_fit(p, memory);
  if (!fit.fits && options.if_too_large == FitOptions::IfTooLarge::adapt && fit.change.any() && fit.changes.empty()) {
    return Change{"does not fit the memory as it is", fit.change};
  }
  if (!fit.fits) throw refusal(fit);
  step_plan = std::move(fit.step_plan);
  return std::nullopt;
}

// The change that all ranks make: that of the first rank that needs one.
std::optional<Change> agreed(const std::optional<Change>& mine, job::Ranks* ranks) {
  if (!ranks) return mine;
  const PlanChange plan = mine ? mine->plan : PlanChange();
  const std::vector<std::string> why = ranks->from_all(mine ? mine->why : "");
  const std::vector<PlanChange> plans = ranks->gather(plan);
  for (size_t rank = 0; rank < why.size(); ++rank) {
    if (why[rank].empty()) continue;
    return Change{.why = why[rank], .plan = plans[rank]};
  }
  return std::nullopt;
}

// A learner without plans reports its own memory, which is compared with what is available.
void check_cost(const train::PreparedRun& run, const FitOptions& options, Outcome& outcome) {
  if (options.choose_batch)
    refuse_flag_of("--batch-size auto", "networks", cat("this run trains ", run.config().model));
  const train::Cost cost = run.cost();
  const double free =
      options.device_memory > 0 ? options.device_memory : static_cast<double>(cpu_info().memory_available_bytes);
  if (options.if_too_large != FitOptions::IfTooLarge::ignore && cost.bytes > free) {
    fail(ErrorKind::capacity, "train", "the run does not fit: needs ", human_bytes(cost.bytes),
         " (excluding data), has ", human_bytes(free), " free; use fewer rows, or --fit off, which skips this check");
  }
  outcome.planned_bytes = cost.bytes;
  outcome.planned_seconds = cost.seconds;
}

// Refuses a run before reading its data, if reading takes time and it is known already that the run does not fit. The
// memory for data is not included, so this is the minimum that the run needs.
void refuse_before_data(const train::Config& config, const FitOptions& fit, const train::PrepareOptions& options) {
  const bool net = options.own.model || train::is_network(config, options.source);
  const bool shared = options.ranks || config.shards > 0, offloads = parse_offload(config.offload) != Offload::none;
  const bool features = !config.freeze.empty();  // may take the place of samples, and need less
  if (fit.if_too_large == FitOptions::IfTooLarge::ignore || options.own.any() || options.source.in_memory() || !net ||
      shared || offloads || features)
    return;
  options.source.need();
  if (!options.source.takes_time_to_read()) return;
  const std::optional<TrainingSetup> setup = setup_before_data(config, options.source);
  if (!setup) return;
  StepPlanOptions o = options_of(*setup);
  o.backend = *trace::device_named(config.backend);
  o.whole_run = setup->test_count > 0;
  if (fit.choose_batch) o.batch = o.parts = 1;
  const FitCheck f = fit_within(plan_step(*setup, o), *setup, memory_of(o.backend, fit.device_memory));
  const bool adapts = fit.if_too_large == FitOptions::IfTooLarge::adapt && f.change.any() && f.changes.empty();
  if (!f.fits && !adapts) throw refusal(f);
}

}  // namespace

FittedRun prepare_fitting(train::Config& config, const FitOptions& fit, train::PrepareOptions options,
                          const std::function<void(const std::string&)>& say) {
  options.device_memory = fit.device_memory;
  options.refuse_too_large = fit.if_too_large != FitOptions::IfTooLarge::ignore;
  job::Ranks* const ranks = options.ranks;
  BatchChoice batch(ranks);
  if (!options.own.feeds && !options.source) options.source = train::source_of(config);
  refuse_before_data(config, fit, options);
  for (;;) {
    FittedRun fitted{.run = train::prepare(config, options), .outcome = {}, .step_plan = {}, .offload = {}};
    options.found.reset();
    if (!fitted.run.has_plans()) {
      check_cost(fitted.run, fit, fitted.outcome);
      restart_peak();
      fitted.resident_before = memory_use().resident;
      return fitted;
    }
    const bool offloads = parse_offload(config.offload) != Offload::none;
    StepPlan unlimited;
    if (offloads) unlimited = plan_offload(fitted.run, options.device_memory);
    const train::Planned p = fitted.run.planned();
    const Memory memory = memory_for(p, options.device_memory);
    const std::optional<Rates> rates = rates_of(p);
    StepPlan step_plan;
    std::optional<Change> change;
    if (fit.choose_batch) change = batch.next(p, memory, pointer_to(rates));
    if (!change) change = check_memory(p, fit, memory, step_plan);
    if (fit.choose_batch || fit.if_too_large == FitOptions::IfTooLarge::adapt) change = agreed(change, ranks);
    if (change) {
      say(cat(change->why, ": continuing with ", change->plan.flags()));
      change->plan.apply(config);
      continue;
    }
    if (offloads) fitted.offload = offload_text(unlimited, step_plan, pointer_to(rates), step_plan.options.speed);
    // On a CPU the measured memory includes what was offloaded.
    fitted.outcome.planned_bytes =
        static_cast<double>(step_plan.total() + (step_plan.beside ? 0 : step_plan.part(Part::host)));
    if (rates) {
      add_lengths(step_plan, setup_of(p));
      fitted.outcome.planned_seconds = step_seconds(step_plan, *rates).middle();
    }
    if (p.step.size() == 1) {
      const Plan& step = *p.step[0].plan;
      fitted.outcome.floor = floor_of(step.source(), step.options().compute);
    }
    fitted.run.set_planned_bytes(static_cast<size_t>(fitted.outcome.planned_bytes));
    fitted.step_plan = step_plan;
    // Reading data and measuring kernels needed memory that is free again.
    restart_peak();
    fitted.resident_before = memory_use().resident - static_cast<int64_t>(p.drawn_bytes);
    fitted.device = freight::backend(step_plan.options.backend).memory();
    if (fitted.device) fitted.free_before = fitted.device->free_bytes();
    return fitted;
  }
}

}  // namespace freight::plan
