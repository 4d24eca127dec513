// `freight bench step` and `infer`: the time of whole steps. `compare`, `comm` and `linalg` have files of their own.
#include <cstdio>

#include "command.h"
#include "freight/base/cpu_info.h"
#include "freight/base/cpu_share.h"
#include "freight/base/log.h"
#include "freight/base/strings.h"
#include "freight/bench/timing.h"
#include "freight/io/json_library.h"
#include "freight/plan/memory_use.h"
#include "freight/run/plan.h"
#include "model_source.h"

namespace freight::app {
namespace {

int time_command(const Args& args, const std::string& name, const std::string& summary, bench::Pass pass) {
  ModelSource source;
  bool json = false;
  double seconds = 3;
  Options o("bench " + name, summary);
  source.declare(o);
  if (pass == bench::Pass::training) source.declare_training(o);
  o.add("--seconds", &seconds, "seconds to measure, after warm-up", {.min = 0.01});
  o.add("--json", &json, "print JSON");
  if (o.parse(args) == Options::Outcome::done) return 0;
  const bench::Workload w = source.workload(pass);
  const bench::Timed t = bench::time_steps(w, seconds, bench::Batches::resident);
  const bool infers = pass == bench::Pass::inference;
  const double slow = infers ? bench::slow_step(w, seconds) : 0;
  const int64_t peak = plan::memory_use().peak;
  const double rate = static_cast<double>(source.batch_size) / t.median, flops = w.plan().total_cost().flops;
  if (json) {
    nlohmann::ordered_json j = {{"model", w.model().name},
                                {"batch_size", source.batch_size},
                                {"compute", to_string(w.plan().options().compute)},
                                {"ms_median", t.median * 1e3},
                                {"ms_min", t.least * 1e3},
                                {"samples_per_second", rate},
                                {"arena_bytes", w.plan().arena_bytes()},
                                {"peak_rss_bytes", peak},
                                {"plan_steps", w.plan().steps().size()},
                                {"flops", flops},
                                {"gflops_per_second", flops / t.median * 1e-9}};
    if (infers) j["ms_p99"] = slow * 1e3;
    std::printf("%s\n", j.dump().c_str());
  } else {
    std::printf(
        "%s batch %lld: median %.4f ms, min %.4f ms, %s%.0f samples/s, %.1f GFLOP/s, %zu plan steps, arena %s, peak "
        "resident %s\n",
        w.model().name.c_str(), static_cast<long long>(source.batch_size), t.median * 1e3, t.least * 1e3,
        infers ? cat("p99 ", fixed(slow * 1e3, 4), " ms, ").c_str() : "", rate, flops / t.median * 1e-9,
        w.plan().steps().size(), human_bytes(static_cast<double>(w.plan().arena_bytes())).c_str(),
        human_bytes(static_cast<double>(peak)).c_str());
  }
  return 0;
}

int step_command(const Args& args) {
  return time_command(args, "step", "Times whole training steps on a resident batch.", bench::Pass::training);
}
int infer_command(const Args& args) {
  return time_command(args, "infer", "Times forward passes with frozen weights on a resident batch.",
                      bench::Pass::inference);
}

}  // namespace

int bench_command(const Args& args) {
  const int code = dispatch({"freight bench",
                             "Times steps on this machine's devices.",
                             {
                                 {"step", "a training step of a model", step_command},
                                 {"infer", "a forward pass with frozen weights", infer_command},
                                 {"compare", "a model on several devices, or several numbers of them; classic networks",
                                  bench_compare_command},
                                 {"linalg", "factorizations and solves", bench_linalg_command},
                                 {"comm", "all-reduce over the processes of a job", bench_comm_command},
                             }},
                            args);
  constexpr double kMuch = 0.2;
  if (const double others = CpuShare::average_others(); code == 0 && others > kMuch) {
    logging::warn(cat("other programs used ", fixed(others, 1), " of ", cpu_info().cores,
                      " cores meanwhile: these are not the figures of an idle machine"));
  }
  return code;
}

}  // namespace freight::app
