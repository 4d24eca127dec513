// `freight profile`: the plan of a training step, or of inference, one line per step with kernel, shapes and rates;
// `freight bench step` and `infer`: the time of whole steps.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "command.h"
#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/models/loss.h"
#include "freight/ops/neural.h"
#include "freight/optim/create.h"
#include "freight/run/plan.h"
#include "freight/run/profile.h"
#include "memory_use.h"
#include "model_source.h"
#include "table.h"

namespace freight::app {
namespace {

using nlohmann::ordered_json;

// The step that is measured: forward, loss, backward and update; of inference what deploy::Predictor runs.
struct Step {
  const models::Model* model;
  optim::Optimizer* optimizer;  // null: inference
  Tensor operator()(const Tensor& x, const Tensor& y) const {
    if (!optimizer) {
      const Tensor outputs = (*model->net)(x);
      return model->loss == models::Loss::mse ? outputs : softmax(outputs, -1);
    }
    const Tensor loss = models::score(*model, x, y).loss;
    optimizer->step(loss);
    return loss;
  }
};

// A model with an optimizer, a compiled step and a resident random batch.
struct Workload {
  models::Model model;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<Compiled<Step>> step;
  Array x, y, result;

  Workload(const ModelSource& source, bool training) : model(source.load()) {
    if (training) {
      model.net->train();
      optimizer = optim::create(source.optimizer, *model.net, {});
    } else {
      model.net->eval();
    }
    const Type input = model.batch_type(source.batch_size);
    x = Array(input.dtype, input.shape);
    const auto outputs = static_cast<uint32_t>(model.classes());
    PhiloxStream rng(0, 0, 1);
    if (model.reads_tokens()) {
      const auto tokens = static_cast<uint32_t>(std::max<int64_t>(model.vocabulary() - 1, 1));
      for (int64_t i = 0; i < x.numel(); ++i) x.data<int32_t>()[i] = static_cast<int32_t>(1 + rng.below(tokens));
    } else {
      for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = rng.normal();
    }
    if (model.language_model()) {
      y = x;
    } else if (model.loss == models::Loss::mse) {
      y = Array(DType::f32, {source.batch_size, outputs});
      for (int64_t i = 0; i < y.numel(); ++i) y.data<float>()[i] = rng.normal();
    } else {
      y = Array(DType::i64, {source.batch_size});
      for (int64_t i = 0; i < y.numel(); ++i) y.data<int64_t>()[i] = rng.below(outputs);
    }
    CompileOptions options = source.compile_options();
    options.frozen = !training;
    step = std::make_unique<Compiled<Step>>(Step{&model, optimizer.get()}, options);
    const Graph& g = step->graph(x, y);
    result = Array(g.type(g.outputs[0]).dtype, g.type(g.outputs[0]).shape);
  }
};

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
  Workload w(source, !inference);
  if (text) {
    std::fputs(print(*w.step->plan(w.x, w.y)).c_str(), stdout);
    return 0;
  }
  Profile p = profile(w.step->executable(w.x, w.y), {w.x, w.y}, {w.result}, seconds);
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
    const ordered_json j = {{"model", w.model.name},
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
      w.model.name.c_str(), static_cast<long long>(source.batch_size), p.steps.size(), p.total_ms, p.steps_ms,
      human_bytes(static_cast<double>(p.arena_bytes)).c_str(),
      human_bytes(static_cast<double>(p.lower_bound_bytes)).c_str(), static_cast<long long>(p.cache.hits),
      static_cast<long long>(p.cache.misses));
  if (p.once_steps > 0) {
    std::printf("%zu steps ran once and left %s of folded and packed weights\n", p.once_steps,
                human_bytes(static_cast<double>(p.kept_bytes)).c_str());
  }
  return 0;
}

int bench_command(const Args& args) {
  ModelSource source;
  std::string what;
  bool json = false;
  double seconds = 3;
  Options o("bench", "Times whole steps on a resident batch.", "step|infer [options]");
  o.positional("what", &what, "step: a training step; infer: the forward pass with frozen weights", true);
  source.declare(o);
  o.add("--seconds", &seconds, "time to measure for, after warm-up", {.min = 0.01});
  o.add("--json", &json, "print JSON");
  if (o.parse(args) == Options::Outcome::done) return 0;
  if (what != "step" && what != "infer") {
    fail(ErrorKind::usage, "bench", "unknown benchmark: got ", what, ", need step or infer");
  }
  Workload w(source, what == "step");
  const auto plan = w.step->plan(w.x, w.y);
  Executable& run = w.step->executable(w.x, w.y);
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); };
  const std::vector<Array> in{w.x, w.y}, out{w.result};
  for (int i = 0; i < 3; ++i) run.run(in, out);
  auto t = Clock::now();
  run.run(in, out);
  const int per = std::max(1, static_cast<int>(0.05 / std::max(since(t), 1e-6)));
  std::vector<double> times;
  for (const auto start = Clock::now(); since(start) < seconds || times.size() < 3;) {
    t = Clock::now();
    for (int i = 0; i < per; ++i) run.run(in, out);
    times.push_back(since(t) / per);
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  const int64_t peak = memory_use().peak;
  const ordered_json j = {{"model", w.model.name},
                          {"batch_size", source.batch_size},
                          {"ms_median", median * 1e3},
                          {"ms_min", times[0] * 1e3},
                          {"samples_per_second", static_cast<double>(source.batch_size) / median},
                          {"arena_bytes", plan->arena_bytes()},
                          {"peak_rss_bytes", peak},
                          {"plan_steps", plan->steps().size()},
                          {"flops", plan->total_cost().flops},
                          {"gflops_per_second", plan->total_cost().flops / median * 1e-9}};
  if (json) {
    std::printf("%s\n", j.dump().c_str());
  } else {
    std::printf(
        "%s batch %lld: median %.4f ms, min %.4f ms, %.0f samples/s, %.1f GFLOP/s, %zu plan steps, arena %s, peak "
        "resident %s\n",
        w.model.name.c_str(), static_cast<long long>(source.batch_size), median * 1e3, times[0] * 1e3,
        static_cast<double>(source.batch_size) / median, plan->total_cost().flops / median * 1e-9, plan->steps().size(),
        human_bytes(static_cast<double>(plan->arena_bytes())).c_str(), human_bytes(static_cast<double>(peak)).c_str());
  }
  return 0;
}

}  // namespace freight::app
