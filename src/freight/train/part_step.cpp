// See part_step.h. Gradients are divided by the full batch's size beforehand: 16 bits hold a mean, not a sum.
#include "freight/train/part_step.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/log.h"
#include "freight/base/strings.h"
#include "freight/job/gradient_sum.h"
#include "freight/job/host_sum.h"
#include "freight/job/ranks.h"
#include "freight/job/state_shares.h"
#include "freight/run/context.h"
#include "freight/run/plan.h"
#include "freight/trace/batch_statistics.h"
#include "freight/train/interleaved_parts.h"
#include "freight/train/part_functions_internal.h"
#include "freight/train/step_internal.h"

namespace freight::train {

namespace {

// Pieces are cut for an H100 and NCCL over PCI Express 5: only the ratio of speeds matters, and pieces that are too
// small merely cost one start each.
constexpr DeviceSpeed kSpeedOfDevices = {.transfer = 5e10, .bytes = 3e12, .flops = 5e13, .beside = true};
constexpr SumCost kSumsOfDevices = {.start = 3e-5, .per_byte = 2e-11};

// The contribution of a part to the outcome of the step.
struct PartResult {
  double loss = 0, right = 0;  // the loss as a part of the full batch's mean
  int64_t counted = 0;         // targets that count in the loss
  int64_t samples = 0;
};

// The figures that ranks exchange in every step, by part.
struct PartReport {
  PartResult result;
  job::StepRequest request;  // of the rank, with its first part
};

Array scalar_array(double v) { return Array::of<float>({static_cast<float>(v)}, {}); }

}  // namespace

struct PartStep::State {
  State(const Trained& t, const job::Sharding& s, const CompileOptions& compile);
  bool follows() const { return trained.shares && trained.ema; }
  // Makes means of sums that were divided by the full batch.
  double by_count() const { return full_batch() / static_cast<double>(std::max<int64_t>(totals.counted, 1)); }
  double full_batch() const { return static_cast<double>(sharding.batch_size * width); }  // in what targets count by
  // The variables that are summed over all parts.
  std::vector<Variable> summands() const {
    std::vector<Variable> all = gradients;
    for (const Statistic& s : statistics) all.push_back(s.sum);
    return all;
  }
  void make_sum(const data::FeedBatch& first);
  void start(const data::FeedBatch& first);
  void run(const data::FeedBatch& b, int64_t number);
  void run_interleaved();
  RandomState random_state_of(int64_t number) const;
  SumOrder sums_within(const data::FeedBatch& b);
  void count(const data::FeedBatch& b, int64_t number);
  std::vector<PartResult> exchange();
  Outcome outcome() const;
  void update();
  void keep_timeline();
  bool lacks_variance(const data::FeedBatch& b);

  Trained trained;
  job::Sharding sharding;
  CompileOptions options;
  job::ShardAssignment deal;
  std::vector<Variable> gradients;
  std::vector<Statistic> statistics;
  Compiled<PartGradients> part;
  Compiled<ApplySums> apply;
  Compiled<FollowWeights> follow;

  std::unique_ptr<job::GradientSum> sum = {};  // made with the first part
  // Null where one part runs after the other; and the sum, as that of interleaved parts.
  std::unique_ptr<InterleavedParts> interleaved = {};
  job::HostSum* interleaved_sum = nullptr;

  int64_t done = 0;                               // parts of this step so far
  std::vector<PartResult> results;                // by part of this rank, as many as any rank has
  std::vector<int64_t> nonfinite;                 // parts of the last step, of all ranks
  PartResult totals;                              // of the last step that all ranks have reported
  bool tokens = false;                            // are what targets are counted by
  int64_t width = 1;                              // targets of a sample
  RandomState random{};                           // as of the step's beginning
  std::chrono::steady_clock::time_point begun;    // the step
  bool overlapped_before = false;                 // in the step before
  job::StepTimeline timeline{.ranks = 0}, now{};  // the fastest step's, and this one's
};

PartStep::State::State(const Trained& t, const job::Sharding& s, const CompileOptions& compile)
    : trained(t),
      sharding(s),
      options(compile),
      deal(s.deal()),
      part{PartGradients{}, compile},
      apply{ApplySums{}, compile},
      follow{FollowWeights{}, compile} {}

PartStep::PartStep(const Trained& trained, const job::Sharding& sharding, const CompileOptions& compile)
    : state_(std::make_unique<State>(trained, sharding, compile)) {
  State& s = *state_;
  const auto named = [&](std::vector<std::string> names) {
    CompileOptions c = compile;
    c.input_names = std::move(names);
    return c;
  };
  const auto matching_variable = [](const char* kind, const Variable& v) {
    if (v.type().dtype != DType::f32) {
      fail(ErrorKind::usage, "shards", v.name(), " is ", v.type(), ": the all-reduce over shards is for f32");
    }
    return Variable(cat(kind, ".", v.name()), v.type());
  };
  for (const Variable& p : trained.optimizer->parameters()) s.gradients.push_back(matching_variable("gradient", p));
  for (const nn::NamedVariable& v : trained.model->net->state_dict()) {
    if (v.variable.role() == Variable::Role::parameter || !is_floating(v.variable.type().dtype)) continue;
    s.statistics.push_back({v.variable, matching_variable("statistic", v.variable)});
  }
  CompileOptions of_part = named({"inputs", "targets"});
  CompileOptions of_update = named({"loss", "by_count", "by_samples"});
  CompileOptions of_averages = named({"loss", "by_count"});
  of_part.deterministic = of_part.deterministic || sharding.exact;
  // All ranks make the same update by themselves.
  of_update.deterministic = of_update.deterministic || sharding.exact || sharding.ranks;
  of_averages.deterministic = of_update.deterministic;
  s.tokens = trained.model->language_model();
  if (job::may_sum_within_plan(sharding)) {
    of_part.sums = kSumsOfDevices;
    if (of_part.limit.offload == Offload::none) of_part.limit.speed = kSpeedOfDevices;
  }
  s.part = {
      PartGradients{&s.trained, &s.gradients, &s.statistics, sharding.batch_size, s.tokens, sharding.shared_statistics},
      of_part};
  if (job::interleaves_parts(sharding)) {
    s.interleaved = std::make_unique<InterleavedParts>(
        InterleavedParts::Source{[&s](const Type& x, const Type& y) { return s.part.plan(x, y); },
                                 [&s](const Array& x, const Array& y) { return s.part.leaves(x, y); }});
  }
  s.apply = {ApplySums{&s.trained, &s.gradients, &s.statistics}, of_update};
  s.follow = {FollowWeights{&s.trained, &s.gradients}, of_averages};
}

PartStep::~PartStep() = default;

void PartStep::State::make_sum(const data::FeedBatch& first) {
  const job::GradientSumOptions how{sharding, options, [&]() -> std::shared_ptr<const Plan> {
                                      if (first.inputs.shape()[0] == 0) return nullptr;
                                      return part.plan(type_of(first.inputs), type_of(first.targets));
                                    }};
  if (interleaved) {
    auto host = std::make_unique<job::HostSum>(summands(), how);
    interleaved_sum = host.get();
    sum = std::move(host);
  } else {
    sum = job::make_gradient_sum(summands(), how);
  }
}

void PartStep::State::start(const data::FeedBatch& first) {
  if (!sum) make_sum(first);
  sum->start();
  begun = std::chrono::steady_clock::now();
  if (sum->overlaps_next_step() != std::exchange(overlapped_before, sum->overlaps_next_step())) timeline = {.ranks = 0};
  now = {.ranks = deal.world};
  results.assign(static_cast<size_t>(deal.most()), {});
  const auto* key = rng_state().array().data<int64_t>();
  random = {key[0], key[1]};
}

bool PartStep::State::lacks_variance(const data::FeedBatch& b) {
  if (b.inputs.shape()[0] != 1) return false;
  if (!trace::norm_without_variance(part.graph(type_of(b.inputs), type_of(b.targets)))) return false;
  logging::warn("a shard of one sample, since others were skipped, is not used: BatchNorm needs more than one");
  return true;
}

// The sums within the plans of parts that have samples.
SumOrder PartStep::State::sums_within(const data::FeedBatch& b) {
  if (!sharding.shared_statistics) return {};
  // Sums of statistics have the same types whatever there is to sum.
  return order_of_sums(*part.plan(rows(type_of(b.inputs), 1), rows(type_of(b.targets), 1)));
}

void PartStep::State::run(const data::FeedBatch& b, int64_t number) {
  if (b.inputs.shape()[0] == 0 || lacks_variance(b)) return sum->skip_part(number, sums_within(b));
  const Context context{.collectives = sum->begin_part(number), .random = random_state_of(number)};
  const auto [loss, right] = part.run_in(context, b.inputs, b.targets);
  PartResult& r = results[static_cast<size_t>(number)];
  r.loss = static_cast<double>(loss.item<float>());
  r.right = static_cast<double>(right.item<float>());
  count(b, number);
  sum->end_part(number);
}

// Draws are those of the part, whoever computes it.
RandomState PartStep::State::random_state_of(int64_t number) const {
  const auto index = static_cast<uint64_t>(deal.first() + number);
  if (index == 0) return random;
  return {static_cast<int64_t>(hash_combine(static_cast<uint64_t>(random[0]), index)), random[1]};
}

void PartStep::State::count(const data::FeedBatch& b, int64_t number) {
  PartResult& r = results[static_cast<size_t>(number)];
  r.counted = b.count;
  r.samples = b.inputs.shape()[0];
  if (tokens && r.samples > 0) width = b.targets.shape()[1];
}

// Computes all parts of this rank.
void PartStep::State::run_interleaved() {
  interleaved->run(*interleaved_sum, rng_state().array().raw());
  for (size_t i = 0; i < interleaved->count(); ++i) {
    if (interleaved->rows(i) == 0) continue;
    results[i].loss = interleaved->loss(i);
    results[i].right = interleaved->right(i);
  }
  interleaved->clear();
}

void PartStep::add(const data::FeedBatch& b) {
  State& s = *state_;
  if (s.done == 0) s.start(b);
  const int64_t number = s.done++;
  FREIGHT_CHECK(number < s.deal.count(), "a rank has more shards than its assignment");
  if (s.interleaved) {
    s.count(b, number);
    s.interleaved->add(b.inputs, b.targets, s.random_state_of(number));
    if (s.done == s.deal.count()) s.run_interleaved();
  } else {
    s.run(b, number);
  }
  s.now.computed = seconds_since(s.begun);
}

void PartStep::State::keep_timeline() {
  if (!sharding.ranks || sum->sum_times().empty()) return;  // the host does not know when devices sum
  const std::span<const job::SumTime> sums = sum->sum_times();
  now.sums.assign(sums.begin(), sums.end());
  now.samples = static_cast<double>(totals.samples);
  now.step = seconds_since(begun);
  const bool faster = now.samples == timeline.samples && now.step < timeline.step;
  if (now.samples > timeline.samples || faster) std::swap(timeline, now);
}

// The results of all parts, in their order. The ranks' requests are exchanged in the same message.
std::vector<PartResult> PartStep::State::exchange() {
  if (!sharding.ranks) return results;
  job::Ranks& ranks = *sharding.ranks;
  std::vector<PartReport> mine;
  for (const PartResult& r : results) mine.push_back({r, {}});
  mine[0].request = ranks.take_request();
  const std::vector<PartReport> all = ranks.gather(mine);
  std::vector<job::StepRequest> requests;
  std::vector<PartResult> by_part;
  for (int r = 0; r < deal.world; ++r) {
    const PartReport* const of = all.data() + static_cast<size_t>(r) * mine.size();
    requests.push_back(of[0].request);
    for (int64_t i = 0; i < deal.count_of(r); ++i) by_part.push_back(of[i].result);
  }
  ranks.agree(requests);
  return by_part;
}

PartStep::Outcome PartStep::State::outcome() const {
  return {.loss = totals.samples > 0 ? totals.loss * by_count() : 0, .right = totals.right, .counted = totals.counted};
}

// Makes the weights of which this rank has the states, gets the others, and has the averages follow.
void PartStep::State::update() {
  const Array loss = scalar_array(outcome().loss), count = scalar_array(by_count());
  apply(loss, count, scalar_array(static_cast<double>(sharding.batch_size) / static_cast<double>(totals.samples)));
  if (trained.shares) trained.shares->hand_over_weights();
  if (follows()) follow(loss, count);
  // Advances also when f16 skips the step; the one-plan step then draws the same numbers again.
  if (std::isfinite(outcome().loss)) rng_state().set(Array::of<int64_t>({random[0], random[1] + 1}, {2}));
}

PartStep::Outcome PartStep::finish() {
  State& s = *state_;
  FREIGHT_CHECK(s.done == s.deal.count(), "a rank has fewer shards than its assignment");
  s.done = 0;
  s.sum->finish();
  s.totals = {};
  s.nonfinite.clear();
  const std::vector<PartResult> by_part = s.exchange();
  for (size_t i = 0; i < by_part.size(); ++i) {
    const PartResult& r = by_part[i];
    if (!std::isfinite(r.loss)) s.nonfinite.push_back(static_cast<int64_t>(i));
    s.totals.loss += r.loss;
    s.totals.right += r.right;
    s.totals.counted += r.counted;
    s.totals.samples += r.samples;
  }
  if (s.totals.samples > 0) s.update();
  if (s.totals.samples > 0) s.keep_timeline();
  return s.outcome();
}

const std::vector<int64_t>& PartStep::nonfinite_parts() const { return state_->nonfinite; }

const job::StepTimeline& PartStep::timeline() const { return state_->timeline; }

std::vector<PartStep::Run> PartStep::plans(const Type& x, const Type& y) {
  State& s = *state_;
  const data::Share pieces = s.deal.pieces();
  std::vector<std::pair<int64_t, int64_t>> sizes;  // (samples, times), the larger first
  for (int64_t i = pieces.first; i < pieces.end; ++i) {
    const int64_t n = pieces.rows(i, x.shape[0]).second;
    const auto it = std::find_if(sizes.begin(), sizes.end(), [&](const auto& size) { return size.first == n; });
    if (it != sizes.end() && !s.interleaved) ++it->second;
    if ((it == sizes.end() || s.interleaved) && n > 0) sizes.emplace_back(n, 1);
  }
  std::sort(sizes.rbegin(), sizes.rend());
  if (s.tokens) s.width = y.shape[1];
  const Type scalar{DType::f32, {}};
  std::vector<Run> runs;
  for (const auto& [n, times] : sizes)
    runs.push_back({s.part.plan(rows(x, n), rows(y, n)), times, true, s.interleaved != nullptr});
  runs.push_back({s.apply.plan(scalar, scalar, scalar), 1});
  if (s.follows()) runs.push_back({s.follow.plan(scalar, scalar), 1});
  return runs;
}

std::shared_ptr<const Plan> PartStep::largest_part(const Type& x, const Type& y) {
  const int64_t n = state_->deal.pieces().most_rows(x.shape[0]);
  return state_->part.plan(rows(x, n), rows(y, n));
}

Executable& PartStep::executable(const Array& x, const Array& y) { return state_->part.executable(x, y); }

size_t PartStep::kept_bytes() const {
  size_t bytes = 0;
  for (const Variable& v : state_->summands()) bytes += v.type().bytes();
  return job::kept_bytes(bytes, state_->sharding);
}

}  // namespace freight::train
