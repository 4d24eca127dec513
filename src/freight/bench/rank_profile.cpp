// See rank_profile.h.
#include "freight/bench/rank_profile.h"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

#include "freight/backend/backend.h"
#include "freight/base/clock.h"
#include "freight/base/cpu_info.h"
#include "freight/run/plan.h"
#include "freight/trace/device.h"

namespace freight::bench {

namespace {

// Steps before the first measured one: by then the run has tried and chosen where sums are made.
constexpr int64_t kTriedSteps = 6;
constexpr int64_t kLeastMeasured = 5, kMostMeasured = 1'000'000;

train::Config config_of(const models::Model& model, const WorkloadOptions& o) {
  train::Config c;
  c.model = model.name;
  c.batch_size = o.batch;
  c.optimizer = o.optimizer;
  c.lr = 1e-6;  // so small that training does not diverge
  if (!o.compile.backend.empty()) c.backend = o.compile.backend;
  return c;
}

}  // namespace

RankWorkload::RankWorkload(models::Model model, const WorkloadOptions& o, job::Ranks& ranks)
    : ranks_(ranks), config_(config_of(model, o)) {
  std::tie(inputs_, targets_) = random_batch(model, o.batch);
  const std::string device = *trace::device_named(config_.backend);
  Backend& on = backend(device);
  ranks_.exchange_devices(device == "cpu" ? cpu_info().model : on.description(), on.memory() != nullptr);
  net_ = std::make_unique<train::NetTraining>(config_, std::move(model));
  const Offload offload = o.compile.limit.offload;
  if (offload == Offload::optimizer || offload == Offload::all) train::keep_on_host(*net_->optimizer);
  net_->plan_step({Type{inputs_.dtype(), inputs_.shape()}, Type{targets_.dtype(), targets_.shape()}}, o.compile,
                  nullptr, &ranks_);
}

std::shared_ptr<const Plan> RankWorkload::plan() const {
  return net_->step->plans(net_->inputs, net_->targets).front().plan;
}

void RankWorkload::step() {
  const data::Share pieces = train::sharding_of(config_, &ranks_).deal().pieces();
  for (int64_t i = pieces.first; i < pieces.end; ++i) {
    const auto [first, count] = pieces.rows(i, config_.batch_size);
    net_->step->add_shard({train::batch_rows(inputs_, first, count), train::batch_rows(targets_, first, count), count});
  }
  int64_t counted = 0;
  net_->step->finish_shards(counted);
}

RankProfile RankWorkload::profile(double seconds) {
  auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < kTriedSteps; ++i) {
    if (i + 1 == kTriedSteps) start = std::chrono::steady_clock::now();
    step();
  }
  RankProfile p{.plan = {}, .devices = ranks_.world(), .sums = {}, .waited = {}};
  const double wanted = seconds / 2 / std::max(seconds_since(start), 1e-6);
  p.steps =
      static_cast<int64_t>(std::clamp(wanted, static_cast<double>(kLeastMeasured), static_cast<double>(kMostMeasured)));
  ranks_.broadcast(&p.steps, sizeof p.steps);  // all ranks make the same number of steps
  const std::vector<double> before = ranks_.comm().waited();
  start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < p.steps; ++i) step();
  const auto steps = static_cast<double>(p.steps);
  p.step = seconds_since(start) / steps;
  p.waited = ranks_.comm().waited();
  for (size_t r = 0; r < p.waited.size(); ++r) p.waited[r] = (p.waited[r] - before[r]) / steps;
  if (const job::StepTimeline* t = net_->step->timeline()) {
    p.fastest = t->step;
    p.computed = t->computed;
    for (const job::SumTime& s : t->sums) {
      const double hidden = std::clamp(t->computed - s.begin, 0.0, s.end - s.begin);
      p.sums.push_back({s.begin, s.end, s.bytes, hidden});
    }
  }
  Executable& part = net_->step->part_executable(inputs_, targets_);
  const Graph& g = part.plan().graph();
  std::vector<Array> results;
  for (const Value v : g.outputs) results.emplace_back(g.type(v).dtype, g.type(v).shape);
  const int64_t rows = g.type(g.leaves(Op::input)[0]).shape[0];
  p.plan = freight::profile(part, {train::batch_rows(inputs_, 0, rows), train::batch_rows(targets_, 0, rows)}, results,
                            seconds / 2);
  return p;
}

}  // namespace freight::bench
