// See dry_run.h.
#include "dry_run.h"

#include <cstdio>

#include "freight/base/strings.h"
#include "plan_text.h"

namespace freight::app {

namespace {

std::string seconds_text(double s) {
  constexpr double kMinute = 60, kHour = 3600;
  if (s < 1) return cat(fixed(s * 1e3, s < 0.01 ? 2 : s < 0.1 ? 1 : 0), " ms");
  if (s < 2 * kMinute) return cat(fixed(s, 1), " s");
  return s < 2 * kHour ? cat(fixed(s / kMinute, 0), " min") : cat(fixed(s / kHour, 1), " h");
}

std::string time_text(const plan::Outcome& planned, const train::RunSummary& s) {
  const char* const pass = s.has_plans ? "step" : s.pass.c_str();
  if (planned.planned_seconds <= 0) {
    return s.has_plans ? "unknown: freight calibrate measures this machine once, in about two minutes"
                       : cat("of a ", pass, " is not known");
  }
  const std::string one = cat("a ", pass, " ", seconds_text(planned.planned_seconds));
  if (!s.has_plans || s.steps <= 1) return one;
  return cat(one, ", ", with_commas(s.steps), " of them ",
             seconds_text(planned.planned_seconds * static_cast<double>(s.steps)),
             ", without waiting for data and without evaluation");
}

}  // namespace

void say_run(plan::FittedRun& run, int64_t devices, train::Observer& observer, const std::string& config_json) {
  run.run.restore();  // a damaged checkpoint is reported now
  train::RunSummary summary = run.run.summary();
  if (devices > 0) summary.devices = devices;
  observer.on_start(summary);
  if (!config_json.empty()) {
    std::printf("%s\n", config_json.c_str());
    return;
  }
  std::string out;
  if (run.step_plan) {
    const plan::StepPlan& d = *run.step_plan;
    out +=
        cat("memory of the run at its peak\n", memory_table(d), "\nplan    ",
            with_commas(static_cast<int64_t>(d.plan_steps)), " plan steps in a training step: ", number(d.flops * 1e-9),
            " GFLOP, ", human_bytes(d.moved), " moved\n");
  } else {
    out += cat("memory  ", human_bytes(run.outcome.planned_bytes), " (excluding data)\n");
  }
  out += cat("time    ", time_text(run.outcome, summary), "\n");
  std::fputs(out.c_str(), stdout);
}

}  // namespace freight::app
