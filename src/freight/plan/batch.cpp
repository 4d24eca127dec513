// See batch.h.
#include "freight/plan/batch.h"

#include <algorithm>
#include <chrono>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/plan/estimate.h"
#include "freight/run/plan.h"
#include "freight/train/made_up.h"

namespace freight::plan {

namespace {

constexpr double kShare = 0.9;        // fraction of the memory; the rest is for what the plan does not include
constexpr int64_t kLeastSteps = 32;   // per epoch, where the batch need not be smaller than the next for that
constexpr int64_t kSmallest = 16;     // less makes gradients and the statistics of BatchNorm noisy
constexpr int64_t kStepsOfSmall = 4;  // per epoch of the smallest datasets
constexpr double kAsFast = 1.05;
constexpr const char* kTooMuch = "it would take more than nine tenths of the memory";

int64_t power_below(double limit) {
  int64_t p = 1;
  while (2.0 * static_cast<double>(p) <= limit && p < (int64_t{1} << 40)) p *= 2;
  return p;
}

}  // namespace

GoodBatch good_batch(const train::Planned& p, double available, const Rates* rates) {
  const StepPlan now = plan_step(p);
  const TrainingSetup setup = setup_of(p);
  StepPlanOptions o = now.options;
  o.batch = 1;
  o.parts = 1;
  const StepPlan least = plan_step(setup, o);
  const double kept = static_cast<double>(least.part(Part::evaluation) + now.part(Part::checkpoint));
  o.whole_run = false;
  const auto at = [&](int64_t batch) {
    o.batch = batch;
    o.parts = std::min(now.options.parts, batch);
    return plan_step(setup, o);
  };
  // Evaluation grows with the batch up to a size, so the whole run is checked, too.
  const auto fits = [&](const StepPlan& d) {
    if (static_cast<double>(d.total()) + kept > kShare * available) return false;
    StepPlanOptions whole = d.options;
    whole.whole_run = now.options.whole_run;
    return static_cast<double>(plan_step(setup, whole).total()) <= kShare * available;
  };
  // A corpus is counted in tokens, but its samples are windows.
  const int64_t samples = p.train_count / (p.model.language_model() ? std::max<int64_t>(p.inputs.shape[1], 1) : 1);
  const auto with_steps = [&](int64_t steps) {
    return power_below(static_cast<double>(samples) / static_cast<double>(steps * p.ranks));
  };
  // BatchNorm learns nothing from single samples.
  const int64_t least_size = has_batch_statistics(p.model) ? std::min<int64_t>(2, samples) : 1;
  GoodBatch good{std::max({least_size, with_steps(kLeastSteps), std::min(kSmallest, with_steps(kStepsOfSmall))}),
                 cat("an epoch would have fewer than ", kLeastSteps, " steps")};
  const StepPlan small = at(2), larger = at(4);
  const auto hold = static_cast<double>(formula({small, larger}).largest(kShare * available - kept));
  if (hold < static_cast<double>(good.size)) good = {power_below(hold), kTooMuch};
  StepPlan d = at(good.size);
  while (good.size > 1 && !fits(d)) {
    good = {good.size / 2, kTooMuch};
    d = at(good.size);
  }
  if (!rates) return good;
  const auto each = [&](StepPlan x) {
    add_lengths(x, setup);
    return step_seconds(x, *rates).middle() / static_cast<double>(x.options.batch);
  };
  const double fastest = each(d);
  while (good.size > kSmallest) {
    const StepPlan half = at(good.size / 2);
    if (each(half) > kAsFast * fastest) break;
    good = {good.size / 2, "it would not train faster"};
  }
  return good;
}

double try_step(const train::Planned& p) {
  const RunOptions& run = p.step[0].plan->options();
  Type x_type = p.inputs, y_type = p.targets;
  x_type.shape[0] = y_type.shape[0] = (p.inputs.shape[0] + p.ranks - 1) / p.ranks;
  train::NetTraining net(p.config, models::again(p.model));
  if (p.features) net.train_rest(*p.features);
  net.plan_step(
      {x_type, y_type},
      {.backend = run.backend, .deterministic = run.deterministic, .recompute = run.recompute, .compute = run.compute});
  const Array x = train::made_up(x_type), y = train::made_up(y_type);
  net.step->run(x, y);
  const auto start = std::chrono::steady_clock::now();
  net.step->run(x, y);
  return seconds_since(start);
}

}  // namespace freight::plan
