// `freight profile`: the plan of a training step, or of inference, one line per step with kernel, shapes and rates.
#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "command.h"
#include "freight/base/strings.h"
#include "freight/bench/workload.h"
#include "freight/run/plan.h"
#include "freight/run/profile.h"
#include "model_source.h"
#include "table.h"

namespace freight::app {

using nlohmann::ordered_json;

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
  if (json) {
    ordered_json steps = ordered_json::array();
    for (const StepProfile& s : p.steps) {
      steps.push_back({{"name", s.description},
                       {"scope", s.scope},
                       {"op", s.op},
                       {"kernel", s.kernel},
                       {"ms", s.ms},
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
  if (top > 0) {
    std::stable_sort(p.steps.begin(), p.steps.end(), [](const auto& a, const auto& b) { return a.ms > b.ms; });
    p.steps.resize(std::min(p.steps.size(), static_cast<size_t>(top)));
  }
  std::vector<std::vector<std::string>> rows;
  for (const StepProfile& s : p.steps) {
    rows.push_back({s.kernel, fixed(s.ms, 4), s.flops > 0 ? fixed(s.gflops_per_s, 1) : "", fixed(s.gbytes_per_s, 1),
                    fixed(100 * s.share, 1), s.description});
  }
  std::fputs(table({"kernel", "ms", "GFLOP/s", "GB/s", "%", "step"}, rows).c_str(), stdout);
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
