// See profile.h.
#include "freight/run/profile.h"

#include <chrono>

#include "freight/base/clock.h"
#include "freight/base/median.h"
#include "freight/run/plan.h"

namespace freight {

Profile profile(Executable& executable, const std::vector<Array>& inputs, const std::vector<Array>& outputs,
                double seconds, int min_runs) {
  using Clock = std::chrono::steady_clock;
  const Plan& plan = executable.plan();
  executable.run(inputs, outputs);  // warm-up
  std::vector<double> whole;
  for (const auto start = Clock::now();
       seconds_since(start) < seconds / 2 || static_cast<int>(whole.size()) < min_runs;) {
    const auto t = Clock::now();
    executable.run(inputs, outputs);
    whole.push_back(seconds_since(t));
  }
  std::vector<std::vector<double>> times(plan.steps().size());
  int runs = 0;
  for (const auto start = Clock::now(); seconds_since(start) < seconds / 2 || runs < min_runs; ++runs) {
    const std::vector<double> t = executable.run_timed(inputs, outputs);
    for (size_t i = 0; i < t.size(); ++i) times[i].push_back(t[i]);
  }
  Profile p;
  p.total_ms = median(whole) * 1e3;
  p.arena_bytes = plan.arena_bytes();
  p.lower_bound_bytes = plan.lower_bound_bytes();
  p.kept_bytes = plan.kept_bytes();
  p.once_steps = plan.once_steps();
  p.cache = plan_cache_stats();
  for (size_t i = 0; i < times.size(); ++i) {
    const PlanStep& s = plan.steps()[i];
    if (s.once) continue;
    const Node& n = plan.graph().node(s.node);
    const double t = median(std::move(times[i]));
    StepProfile row{
        describe(plan, s), n.scope, name(n.op), s.kernel->name(), t * 1e3, s.cost.flops, s.cost.bytes, 0, 0, 0};
    if (t > 0) {
      row.gflops_per_s = s.cost.flops / t * 1e-9;
      row.gbytes_per_s = s.cost.bytes / t * 1e-9;
    }
    p.steps_ms += row.ms;
    p.steps.push_back(std::move(row));
  }
  for (StepProfile& row : p.steps) row.share = p.steps_ms > 0 ? row.ms / p.steps_ms : 0;
  return p;
}

}  // namespace freight
