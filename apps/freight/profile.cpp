// `freight profile`: the plan of a training step, or of inference, one line per step with kernel, shapes and rates, and
// beside its time the one that `freight plan` reckons with where the machine was calibrated.
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "command.h"
#include "freight/base/strings.h"
#include "freight/bench/workload.h"
#include "freight/io/json_library.h"
#include "freight/plan/rates.h"
#include "freight/run/plan.h"
#include "freight/run/profile.h"
#include "model_source.h"
#include "table.h"

namespace freight::app {

using nlohmann::ordered_json;

namespace {

// Milliseconds of every step of a replay by the rates of this processor; none without such, and on other devices.
std::vector<double> planned_ms(const Plan& plan) {
  plan::Rates rates;
  if (plan.options().backend != "cpu" || !plan::own_rates(rates)) return {};
  const std::vector<plan::Work> work = plan::work_of(plan);
  std::vector<double> ms;
  for (size_t i = 0; i < work.size(); ++i) {
    if (!plan.steps()[i].once) ms.push_back(1e3 * rates.seconds(work[i]));
  }
  return ms;
}

}  // namespace

int profile_command(const Args& args) {
  ModelSource source;
  bool json = false, inference = false, text = false;
  double seconds = 2;
  int64_t top = 0;
  Options o("profile", "Prints one line per step of a model's plan, with times and rates.");
  source.declare(o);
  o.add("--inference", &inference, "inference (weights frozen, no loss) instead of the training step");
  o.add("--seconds", &seconds, "time to measure for", {.min = 0});
  o.add("--top", &top, "only the N slowest steps", {.min = 0});
  o.add("--plan", &text, "print the plan's text form (layouts and addresses) and stop");
  o.add("--json", &json, "print JSON");
  if (o.parse(args) == Options::Outcome::done) return 0;
  const bench::Workload w = source.workload(inference ? bench::Pass::inference : bench::Pass::training);
  if (text) {
    std::fputs(print(w.plan()).c_str(), stdout);
    return 0;
  }
  Profile p = profile(w.executable(), w.inputs(), w.results(), seconds);
  const std::vector<double> planned = planned_ms(w.plan());
  const auto planned_of = [&](size_t i) { return planned.empty() ? ordered_json() : ordered_json(planned[i]); };
  if (json) {
    ordered_json steps = ordered_json::array();
    for (size_t i = 0; i < p.steps.size(); ++i) {
      const StepProfile& s = p.steps[i];
      steps.push_back({{"name", s.description},
                       {"scope", s.scope},
                       {"op", s.op},
                       {"kernel", s.kernel},
                       {"ms", s.ms},
                       {"planned_ms", planned_of(i)},
                       {"flops", s.flops},
                       {"bytes", s.bytes},
                       {"gflops_per_s", s.gflops_per_s},
                       {"gbytes_per_s", s.gbytes_per_s},
                       {"share", s.share}});
    }
    const ordered_json j = {{"model", w.model().name},
                            {"batch_size", source.batch_size},
                            {"ms", p.total_ms},
                            {"steps_ms", p.steps_ms},
                            {"arena_bytes", p.arena_bytes},
                            {"lower_bound_bytes", p.lower_bound_bytes},
                            {"kept_bytes", p.kept_bytes},
                            {"once_steps", p.once_steps},
                            {"cache_hits", p.cache.hits},
                            {"cache_misses", p.cache.misses},
                            {"steps", steps}};
    std::printf("%s\n", j.dump().c_str());
    return 0;
  }
  std::vector<size_t> shown(p.steps.size());
  std::iota(shown.begin(), shown.end(), size_t{0});
  if (top > 0) {
    std::stable_sort(shown.begin(), shown.end(), [&](size_t a, size_t b) { return p.steps[a].ms > p.steps[b].ms; });
    shown.resize(std::min(shown.size(), static_cast<size_t>(top)));
  }
  std::vector<std::vector<std::string>> rows;
  for (const size_t i : shown) {
    const StepProfile& s = p.steps[i];
    rows.push_back({s.kernel, fixed(s.ms, 4), planned.empty() ? "" : fixed(planned[i], 4),
                    s.flops > 0 ? fixed(s.gflops_per_s, 1) : "", fixed(s.gbytes_per_s, 1), fixed(100 * s.share, 1),
                    s.description});
  }
  std::fputs(table({"kernel", "ms", "planned", "GFLOP/s", "GB/s", "%", "step"}, rows).c_str(), stdout);
  std::printf(
      "\n%s batch %lld: %zu steps, %.3f ms (sum of steps %.3f ms), arena %s (lower bound %s), plan cache %lld hits "
      "%lld misses\n",
      w.model().name.c_str(), static_cast<long long>(source.batch_size), p.steps.size(), p.total_ms, p.steps_ms,
      human_bytes(static_cast<double>(p.arena_bytes)).c_str(),
      human_bytes(static_cast<double>(p.lower_bound_bytes)).c_str(), static_cast<long long>(p.cache.hits),
      static_cast<long long>(p.cache.misses));
  if (p.once_steps > 0) {
    std::printf("%zu steps ran once and left %s of folded and packed weights\n", p.once_steps,
                human_bytes(static_cast<double>(p.kept_bytes)).c_str());
  }
  return 0;
}

}  // namespace freight::app
