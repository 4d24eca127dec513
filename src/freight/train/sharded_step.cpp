// See sharded_step.h. Gradient sums of a shard lie in one block of memory, parameter behind parameter, so that a block
// is what travels. Everything in it is divided by the full batch's size beforehand: 16 bits hold a mean, not a sum.
#include "freight/train/sharded_step.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "freight/backend/backend.h"
#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/log.h"
#include "freight/base/strings.h"
#include "freight/comm/tree_sum.h"
#include "freight/run/context.h"
#include "freight/run/plan.h"
#include "freight/trace/batch_statistics.h"
#include "freight/trace/device.h"
#include "freight/train/device_sums.h"
#include "freight/train/overlapped_sums.h"
#include "freight/train/partial_sums_internal.h"
#include "freight/train/ranks.h"
#include "freight/train/sharded_functions_internal.h"
#include "freight/train/shards_together.h"
#include "freight/train/state_shares.h"
#include "freight/train/step_internal.h"
#include "freight/train/step_sums.h"

namespace freight::train {

namespace {

constexpr size_t kAlign = 16;  // floats: 64 bytes
// Steps that are watched before it is chosen where sums are made; the first of them plans, the others are timed.
constexpr int64_t kWatched = 4;
// Devices that sum among themselves cut their pieces by the figures of an H100's memory and f32 units, and of NCCL over
// PCI Express 5: it is the ratio that counts, and where links are faster smaller pieces than need be cost a start each.
constexpr DeviceSpeed kSpeedOfDevices = {.transfer = 5e10, .bytes = 3e12, .flops = 5e13, .beside = true};
constexpr SumCost kSumsOfDevices = {.start = 3e-5, .per_byte = 2e-11};

// What a shard contributes to the outcome of the step.
struct ShardResult {
  double loss = 0, right = 0;  // the loss as a part of the full batch's mean
  int64_t counted = 0;         // targets that are asked
  int64_t samples = 0;
};

// What ranks exchange in every step, by shard.
struct ShardReport {
  ShardResult result;
  StepRequest request;  // of the rank, with its first shard
};

Array scalar_array(double v) { return Array::of<float>({static_cast<float>(v)}, {}); }

}  // namespace

struct ShardedStep::State {
  State(const Trained& t, const Sharding& s, const CompileOptions& compile)
      : trained(t),
        sharding(s),
        options(compile),
        deal(s.deal()),
        shard{ShardSums{}, compile},
        apply{ApplySums{}, compile},
        follow{FollowWeights{}, compile},
        partial(0) {}
  bool follows() const { return trained.shares && trained.ema; }
  // Makes means of sums that were divided by the full batch.
  double by_count() const { return full_batch() / static_cast<double>(std::max<int64_t>(totals.counted, 1)); }
  double full_batch() const { return static_cast<double>(sharding.batch_size * width); }  // in what targets count by

  float* block() const { return block_array.data<float>(); }
  Ranks& ranks() const { return *sharding.ranks; }
  // The devices of all ranks, that sum among themselves; null where shards wait for each other (`together`) in memory
  // of the host.
  DeviceCollectives* devices() const { return sharding.ranks && !together ? ranks().devices() : nullptr; }
  // What lies in the block, as they are numbered.
  std::vector<Variable> summands() const {
    std::vector<Variable> all = gradients;
    for (const Statistic& s : statistics) all.push_back(s.sum);
    return all;
  }
  bool sums_in_step() const;
  // The shard is the one within whose step devices sum.
  bool ends_in_step(int64_t number) const { return in_step && number + 1 == deal.count(); }
  bool may_overlap() const;
  void bring_home() const;
  std::vector<int64_t> ready_order(const data::FeedBatch& full, std::vector<int64_t>& ends);
  void place(const data::FeedBatch& full);
  void place_in_step(const data::FeedBatch& full, DeviceCollectives& sum);
  void place_slots();
  void start(const data::FeedBatch& first);
  void run(const data::FeedBatch& b, int64_t number, Collectives* collectives);
  void bring_zeros(const data::FeedBatch& b, int64_t number);
  void run_together();
  RandomState random_state_of(int64_t number) const;
  void put_result(int64_t number, double loss, double right);
  void count(const data::FeedBatch& b, int64_t number);
  void keep_block(int64_t number);
  void choose();
  void sum_blocks();
  std::vector<ShardResult> exchange();
  Outcome outcome() const;
  void move_random_state_on() const;
  void update();
  Outcome end();
  void keep_timeline(double samples);
  bool lacks_variance(const data::FeedBatch& b);

  Trained trained;
  Sharding sharding;
  CompileOptions options;
  ShardAssignment deal;
  std::vector<Variable> gradients;
  std::vector<Statistic> statistics;
  Compiled<ShardSums> shard;
  Compiled<ApplySums> apply;
  Compiled<FollowWeights> follow;

  CompileOptions of_update = {};
  ShardResult totals;  // of the last step that all ranks have reported

  std::unique_ptr<ShardsTogether> together = {};  // null where one shard runs after the other

  Array block_array, slots, all_slots;  // slots: of this rank's shards, and of all, where sums do not meet in the tree
  PartialSums partial;
  bool local_sums = true;
  std::unique_ptr<DeviceSums> device = {};      // null where there is a block, in memory of the host
  std::unique_ptr<StepSums> in_step = {};       // of devices that sum within the step; else null
  std::unique_ptr<OverlappedSums> sums = {};    // null where they are never made beside a shard
  bool beside = false;                          // they are, beside the last shard of a step
  bool moved = false;                           // and were not in the step before
  int64_t steps = 0;                            // so far
  std::chrono::steady_clock::time_point begun;  // the step
  double before_last = 0;                       // seconds of it before the last shard
  StepTimeline timeline{.ranks = 0}, now{};     // the one that is told of, and of this step
  int64_t done = 0;                             // shards of this step so far
  bool placed = false;                          // place() was called
  std::vector<ShardResult> results;             // by shard of this rank, as many as any rank has
  bool tokens = false;                          // are what targets are counted by
  int64_t width = 1;                            // targets of a sample
  bool own_memory = false;                      // of the device that computes
  Array random_numbers;                         // as of the step's beginning
};

// True where the devices' sums are part of the step that computes the last shard's summands: they need no order of
// their own.
bool ShardedStep::State::sums_in_step() const {
  const bool alone = deal.most() == 1;
  return sharding.ranks && ranks().devices() && !sharding.exact && (alone || !sharding.shared_statistics);
}

// True where sums may be made beside the last shard: not where the shards of all ranks meet first.
bool ShardedStep::State::may_overlap() const {
  if (!sharding.ranks || !local_sums || together) return false;
  if (ranks().world() == 1 || ranks().beside_host()) return false;
  const Overlap asked = ranks().overlap();
  return asked == Overlap::yes || (asked == Overlap::automatic && ranks().comm().over_network());
}

// A device with memory of its own has the newest of what it summed: it goes to the block, and from there back to the
// device when the update reads it.
void ShardedStep::State::bring_home() const {
  if (!own_memory || device) return;
  for (const Variable& v : gradients) v.array().raw();
  for (const Statistic& s : statistics) s.sum.array().raw();
}

// The order in which rank 0's plan makes the summands, on all ranks, and the ends of the plan's pieces. What a plan
// does not sum comes last, and keeps no piece waiting but the last one.
std::vector<int64_t> ShardedStep::State::ready_order(const data::FeedBatch& first, std::vector<int64_t>& ends) {
  const std::vector<Variable> all = summands();
  std::vector<int64_t> order, piece_of;
  if (ranks().first() && first.inputs.shape()[0] > 0) {
    const auto plan = shard.plan(Type{first.inputs.dtype(), first.inputs.shape()},
                                 Type{first.targets.dtype(), first.targets.shape()});
    std::map<std::string, int64_t> number_of;
    for (size_t i = 0; i < all.size(); ++i) number_of[all[i].name()] = static_cast<int64_t>(i);
    for (const SumOrder::Sum& sum : order_of_sums(*plan).behind) {
      const auto number = number_of.find(sum.state);
      if (number == number_of.end()) continue;
      order.push_back(number->second);
      piece_of.push_back(sum.piece);
      number_of.erase(number);
    }
  }
  std::vector<bool> known(all.size());
  for (const int64_t i : order) known[static_cast<size_t>(i)] = true;
  for (size_t i = 0; i < all.size(); ++i) {
    if (known[i]) continue;
    order.push_back(static_cast<int64_t>(i));
    piece_of.push_back(piece_of.empty() ? 0 : piece_of.back());
  }
  ranks().broadcast(order.data(), order.size() * sizeof(int64_t));
  ranks().broadcast(piece_of.data(), piece_of.size() * sizeof(int64_t));
  for (size_t i = 1; i <= piece_of.size(); ++i) {
    if (i == piece_of.size() || piece_of[i] != piece_of[i - 1]) ends.push_back(static_cast<int64_t>(i));
  }
  return order;
}

// Lays gradients and statistics out in the block, or leaves them where the device makes them.
void ShardedStep::State::place(const data::FeedBatch& first) {
  placed = true;
  std::vector<Variable> all = summands();
  if (DeviceCollectives* const d = devices()) {
    if (sums_in_step() && (ranks().overlap() != Overlap::no || sharding.shared_statistics)) place_in_step(first, *d);
    device = std::make_unique<DeviceSums>(std::move(all), *d, deal, sharding.exact, options);
    return;
  }
  local_sums = !sharding.exact || !sharding.ranks || deal.aligned();
  std::vector<int64_t> ends, sizes;
  if (may_overlap()) {
    std::vector<Variable> ordered;
    for (const int64_t i : ready_order(first, ends)) ordered.push_back(all[static_cast<size_t>(i)]);
    all = std::move(ordered);
  }
  for (const Variable& v : all) {
    sizes.push_back(static_cast<int64_t>((static_cast<size_t>(v.type().numel()) + kAlign - 1) / kAlign * kAlign));
  }
  const auto floats = static_cast<size_t>(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
  block_array = Array(DType::f32, {static_cast<int64_t>(floats)});
  std::memset(block_array.raw(), 0, block_array.bytes());
  float* at = block();
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].impl()->bind(Storage::borrow(at, all[i].type().bytes(), block_array.storage()));
    at += sizes[i];
  }
  partial = PartialSums(floats);
  if (!ends.empty()) {
    sums = std::make_unique<OverlappedSums>(ranks().comm());
    sums->lay(block(), sizes);
    sums->cut({ends.begin(), ends.end()});
    beside = ranks().overlap() == Overlap::yes;
  }
  place_slots();
}

void ShardedStep::State::place_in_step(const data::FeedBatch& first, DeviceCollectives& sum) {
  in_step = std::make_unique<StepSums>(sum, [this](const StepSums::Intention& mine) { return ranks().gather(mine); });
  if (ranks().overlap() == Overlap::no) return;
  const std::vector<Variable> all = summands();
  std::vector<int64_t> ends;
  const std::vector<int64_t> order = ready_order(first, ends);
  std::vector<Variable> ordered;
  for (const int64_t i : order) ordered.push_back(all[static_cast<size_t>(i)]);
  in_step->lay(std::move(ordered), {ends.begin(), ends.end()});
  if (deal.most() == 1) return;
  in_step->prepare_by([this, order](size_t i) { device->add_kept(static_cast<size_t>(order[i])); });
}

// Makes room for the shards' sums where they meet in no tree over the ranks' own.
void ShardedStep::State::place_slots() {
  slots = all_slots = Array();
  if (local_sums) return;
  const auto most = deal.most();
  slots = Array(DType::f32, {most, block_array.numel()});
  all_slots = Array(DType::f32, {deal.world, most, block_array.numel()});
  std::memset(slots.raw(), 0, slots.bytes());
}

ShardedStep::ShardedStep(const Trained& trained, const Sharding& sharding, const CompileOptions& compile) {
  const auto named = [&](std::vector<std::string> names) {
    CompileOptions c = compile;
    c.input_names = std::move(names);
    return c;
  };
  state_ = std::make_unique<State>(trained, sharding, compile);
  State& s = *state_;
  const auto beside = [](const char* kind, const Variable& v) {
    if (v.type().dtype != DType::f32) {
      fail(ErrorKind::usage, "shards", v.name(), " is ", v.type(), ": the all-reduce over shards is for f32");
    }
    return Variable(cat(kind, ".", v.name()), v.type());
  };
  for (const Variable& p : trained.optimizer->parameters()) s.gradients.push_back(beside("gradient", p));
  for (const nn::NamedVariable& v : trained.model->net->state_dict()) {
    if (v.variable.role() == Variable::Role::parameter || !is_floating(v.variable.type().dtype)) continue;
    s.statistics.push_back({v.variable, beside("statistic", v.variable)});
  }
  CompileOptions of_shard = named({"inputs", "targets"});
  CompileOptions& of_update = s.of_update = named({"loss", "by_count", "by_samples"});
  CompileOptions of_averages = named({"loss", "by_count"});
  of_shard.deterministic = of_shard.deterministic || sharding.exact;
  // All ranks make the same update by themselves.
  of_update.deterministic = of_update.deterministic || sharding.exact || sharding.ranks;
  of_averages.deterministic = of_update.deterministic;
  s.tokens = trained.model->language_model();
  s.own_memory = backend(compile.backend.empty() ? current_device() : compile.backend).memory() != nullptr;
  if (s.sums_in_step()) {
    of_shard.sums = kSumsOfDevices;
    if (of_shard.limit.offload == Offload::none) of_shard.limit.speed = kSpeedOfDevices;
  }
  s.shard = {
      ShardSums{&s.trained, &s.gradients, &s.statistics, sharding.batch_size, s.tokens, sharding.shared_statistics},
      of_shard};
  if (sharding.shared_statistics && !s.sums_in_step()) {
    s.together = std::make_unique<ShardsTogether>(
        ShardsTogether::Source{[&s](const Type& x, const Type& y) { return s.shard.plan(x, y); },
                               [&s](const Array& x, const Array& y) { return s.shard.states(x, y); }});
  }
  s.apply = {ApplySums{&s.trained, &s.gradients, &s.statistics}, of_update};
  s.follow = {FollowWeights{&s.trained, &s.gradients}, of_averages};
}

ShardedStep::~ShardedStep() {
  if (!state_->sums || state_->sums->times().steps == 0 || !state_->ranks().first()) return;
  const OverlappedSums::Times& t = state_->sums->times();
  const auto ms = [&](double seconds) { return fixed(seconds * 1e3 / static_cast<double>(t.steps), 2); };
  logging::info(cat("all-reduce overlapped with ", t.steps, " steps: ", ms(t.sums), " ms each, of which ", ms(t.waited),
                    " ms were waited for"));
}

void ShardedStep::State::start(const data::FeedBatch& first) {
  if (!placed) place(first);
  if (device) device->start();
  done = 0;
  begun = std::chrono::steady_clock::now();
  if (std::exchange(moved, false)) timeline = {.ranks = 0};
  now = {.ranks = deal.world};
  results.assign(static_cast<size_t>(deal.most()), {});
  partial.start();
  random_numbers = rng_state().array().clone();
}

bool ShardedStep::State::lacks_variance(const data::FeedBatch& b) {
  if (b.inputs.shape()[0] != 1) return false;
  const Type x{b.inputs.dtype(), b.inputs.shape()}, y{b.targets.dtype(), b.targets.shape()};
  if (!trace::norm_without_variance(shard.graph(x, y))) return false;
  logging::warn("a shard of one sample, since others were skipped, is not used: BatchNorm needs more than one");
  return true;
}

// Computes the shard's block and numbers.
void ShardedStep::State::run(const data::FeedBatch& b, int64_t number, Collectives* collectives) {
  if (b.inputs.shape()[0] == 0 || lacks_variance(b)) {
    if (device) return bring_zeros(b, number);
    bring_home();
    std::memset(block(), 0, block_array.bytes());
    return;
  }
  const auto [loss, right] =
      shard.run_in({.collectives = collectives, .random = random_state_of(number)}, b.inputs, b.targets);
  put_result(number, static_cast<double>(loss.item<float>()), static_cast<double>(right.item<float>()));
  count(b, number);
  bring_home();
}

// The same where devices sum, within the steps of the other ranks or behind them.
void ShardedStep::State::bring_zeros(const data::FeedBatch& b, int64_t number) {
  device->clear();
  if (!ends_in_step(number)) return;
  SumOrder order;
  if (sharding.shared_statistics) {
    Type x{b.inputs.dtype(), b.inputs.shape()}, y{b.targets.dtype(), b.targets.shape()};
    x.shape[0] = y.shape[0] = 1;  // sums of statistics have the same types whatever there is to sum
    order = order_of_sums(*shard.plan(x, y));
  }
  in_step->run_empty(order);
}

// Draws are those of the shard, whoever computes it.
RandomState ShardedStep::State::random_state_of(int64_t number) const {
  const auto* key = random_numbers.data<int64_t>();
  const auto index = static_cast<uint64_t>(deal.first() + number);
  const auto seed = index == 0 ? key[0] : static_cast<int64_t>(hash_combine(static_cast<uint64_t>(key[0]), index));
  return {seed, key[1]};
}

void ShardedStep::State::put_result(int64_t number, double loss, double right) {
  ShardResult& r = results[static_cast<size_t>(number)];
  r.loss = loss;
  r.right = right;
}

void ShardedStep::State::count(const data::FeedBatch& b, int64_t number) {
  ShardResult& r = results[static_cast<size_t>(number)];
  r.counted = b.count;
  r.samples = b.inputs.shape()[0];
  if (tokens && r.samples > 0) width = b.targets.shape()[1];
}

// Computes all shards of this rank.
void ShardedStep::State::run_together() {
  together->run(block_array, rng_state().array().raw(), sharding, deal);
  bring_home();  // a device that read the block takes it anew
  for (size_t i = 0; i < together->count(); ++i) {
    const auto number = static_cast<int64_t>(i);
    if (together->rows(i) > 0) {
      std::memcpy(block(), together->block(i), block_array.bytes());
      put_result(number, together->loss(i), together->right(i));
    } else {
      std::memset(block(), 0, block_array.bytes());
    }
    keep_block(number);
  }
  together->clear();
}

// The shard's block goes to where those of this rank are added, or wait for it.
void ShardedStep::State::keep_block(int64_t number) {
  if (device) {
    device->add();
  } else if (!local_sums) {
    std::memcpy(slots.data<float>() + number * block_array.numel(), block(), block_array.bytes());
  } else if (deal.count() > 1) {
    partial.add(block());
  }
}

void ShardedStep::add(const data::FeedBatch& b) {
  State& s = *state_;
  if (s.done == 0) s.start(b);
  const int64_t number = s.done++;
  FREIGHT_CHECK(number < s.deal.count(), "a rank has more shards than its assignment");
  if (s.together) {
    s.count(b, number);
    s.together->add(b.inputs, b.targets, s.random_state_of(number));
    if (s.done == s.deal.count()) s.run_together();
    s.now.computed = seconds_since(s.begun);
    return;
  }
  const bool last = s.sums && number + 1 == s.deal.count();
  if (last) {
    s.before_last = seconds_since(s.begun);
    const auto mode = s.beside ? OverlappedSums::Mode::beside : OverlappedSums::Mode::watched;
    s.sums->begin(mode, [&s](int64_t from, int64_t count) { s.partial.finish_within(s.block(), from, count); });
  }
  Collectives* const beside = last ? s.sums.get() : nullptr;
  s.run(b, number, s.ends_in_step(number) ? s.in_step.get() : beside);
  if (last) s.sums->computed();
  s.now.computed = seconds_since(s.begun);
  const bool summed = s.ends_in_step(number) ? s.in_step->sums_all() : last && s.beside;
  if (!summed) s.keep_block(number);
}

// Chooses where the sums are made from now on, by what rank 0 saw of its plan's steps and by the line of this job's
// all-reduce.
void ShardedStep::State::choose() {
  const SumCost cost = measure_sums(ranks().comm());
  const std::vector<Summand> seen = sums->summands();
  const double compute = sums->compute_seconds(), behind = compute + cost.of(static_cast<double>(block_array.bytes()));
  const Pieces pieces = cut_pieces(seen, cost);
  const double least = std::max(compute, pieces.done);
  std::vector<int64_t> told(seen.size() + 1);  // whether they are made beside; where a piece ends
  told[0] = ranks().overlap() == Overlap::yes || pays_beside(least, behind) ? 1 : 0;
  for (const size_t end : pieces.ends) told[end] = 1;
  ranks().broadcast(told.data(), told.size() * sizeof(int64_t));
  moved = told[0] == 1 && !beside;
  beside = told[0] == 1;
  std::vector<size_t> ends;
  for (size_t i = 1; i < told.size(); ++i) {
    if (told[i] == 1) ends.push_back(i);
  }
  sums->cut(ends);
  if (!ranks().first()) return;
  const auto ms = [](double seconds) { return fixed(seconds * 1e3, 1); };
  logging::info(cat("all-reduce: ", ms(cost.of(static_cast<double>(block_array.bytes()))), " ms in one piece, ",
                    ms(compute), " ms of compute before it; overlapped with compute in ", ends.size(), " pieces ",
                    ms(least), " ms instead of ", ms(behind), beside ? "" : ": not worth it"));
}

// The block becomes the sum of all shards' blocks.
void ShardedStep::State::sum_blocks() {
  if (in_step && in_step->sums_all()) return;
  if (device) {
    device->finish();  // enqueued: when they are made the device alone knows
    return;
  }
  const int64_t floats = block_array.numel();
  if (local_sums && deal.count() > 1) partial.finish(block());
  if (!sharding.ranks) return;
  const double begin = seconds_since(begun);
  const int64_t most = deal.most();
  if (local_sums) {
    sharding.ranks->comm().all_reduce(block(), floats, DType::f32);
  } else {
    sharding.ranks->comm().all_gather(slots.raw(), all_slots.raw(), most * floats, DType::f32);
  }
  now.sums.push_back({begin, seconds_since(begun), static_cast<double>((local_sums ? 1 : most) * floats * 4)});
  if (local_sums) return;
  std::vector<const void*> parts;
  for (int r = 0; r < deal.world; ++r) {
    const int64_t count = deal.first_of(r + 1) - deal.first_of(r);
    for (int64_t i = 0; i < count; ++i) parts.push_back(all_slots.data<float>() + (r * most + i) * floats);
  }
  comm::tree_sum(parts.data(), static_cast<int>(parts.size()), block(), floats, DType::f32);
}

void ShardedStep::State::keep_timeline(double samples) {
  if (!sharding.ranks || device) return;  // the host does not know when devices sum
  now.samples = samples;
  now.step = seconds_since(begun);
  if (samples > timeline.samples || (samples == timeline.samples && now.step < timeline.step)) std::swap(timeline, now);
}

// The results of all shards, in their order; the ranks' requests are agreed on beside.
std::vector<ShardResult> ShardedStep::State::exchange() {
  if (!sharding.ranks) return results;
  Ranks& ranks = *sharding.ranks;
  std::vector<ShardReport> mine;
  for (const ShardResult& r : results) mine.push_back({r, {}});
  mine[0].request = ranks.take_request();
  const std::vector<ShardReport> all = ranks.gather(mine);
  std::vector<StepRequest> requests;
  std::vector<ShardResult> by_shard;
  for (int r = 0; r < deal.world; ++r) {
    const ShardReport* const of = all.data() + static_cast<size_t>(r) * mine.size();
    requests.push_back(of[0].request);
    for (int64_t i = 0; i < deal.first_of(r + 1) - deal.first_of(r); ++i) by_shard.push_back(of[i].result);
  }
  ranks.agree(requests);
  return by_shard;
}

ShardedStep::Outcome ShardedStep::State::outcome() const {
  return {.loss = totals.samples > 0 ? totals.loss * by_count() : 0, .right = totals.right, .counted = totals.counted};
}

// The next step draws other numbers.
void ShardedStep::State::move_random_state_on() const {
  const auto* k = random_numbers.data<int64_t>();
  rng_state().set(Array::of<int64_t>({k[0], k[1] + 1}, {2}));
}

// Makes the weights of which this rank has the states.
void ShardedStep::State::update() {
  apply(scalar_array(outcome().loss), scalar_array(by_count()),
        scalar_array(static_cast<double>(sharding.batch_size) / static_cast<double>(totals.samples)));
}

// Does what is left when all weights are there.
ShardedStep::Outcome ShardedStep::State::end() {
  const Outcome o = outcome();
  if (follows()) follow(scalar_array(o.loss), scalar_array(by_count()));
  if (std::isfinite(o.loss)) move_random_state_on();
  return o;
}

ShardedStep::Outcome ShardedStep::finish() {
  State& s = *state_;
  FREIGHT_CHECK(s.done == s.deal.count(), "a rank has fewer shards than its assignment");
  s.done = 0;
  if (s.beside) {
    s.sums->finish();
    for (const SumTime& t : s.sums->sum_times())
      s.now.sums.push_back({t.begin + s.before_last, t.end + s.before_last, t.bytes});
  }
  const bool summed = s.beside;
  if (s.sums && ++s.steps == kWatched) s.choose();
  s.totals = {};
  for (const ShardResult& r : s.exchange()) {
    s.totals.loss += r.loss;
    s.totals.right += r.right;
    s.totals.counted += r.counted;
    s.totals.samples += r.samples;
  }
  if (!summed) s.sum_blocks();
  if (s.totals.samples == 0) return s.outcome();
  s.update();
  if (s.trained.shares) s.trained.shares->hand_over_weights();
  const Outcome o = s.end();
  s.keep_timeline(static_cast<double>(s.totals.samples));
  return o;
}

const StepTimeline& ShardedStep::timeline() const { return state_->timeline; }

std::vector<ShardedStep::Run> ShardedStep::plans(const Type& x, const Type& y) {
  State& s = *state_;
  const data::Share pieces = s.deal.pieces();
  std::vector<std::pair<int64_t, int64_t>> sizes;  // (samples, times), the larger first
  for (int64_t i = pieces.first; i < pieces.end; ++i) {
    const int64_t n = pieces.rows(i, x.shape[0]).second;
    const auto it = std::find_if(sizes.begin(), sizes.end(), [&](const auto& size) { return size.first == n; });
    if (it != sizes.end() && !s.together) ++it->second;
    if ((it == sizes.end() || s.together) && n > 0) sizes.emplace_back(n, 1);
  }
  std::sort(sizes.rbegin(), sizes.rend());
  if (s.tokens) s.width = y.shape[1];
  const Type scalar{DType::f32, {}};
  std::vector<Run> runs;
  for (const auto& [n, times] : sizes)
    runs.push_back({s.shard.plan(rows(x, n), rows(y, n)), times, true, s.together != nullptr});
  runs.push_back({s.apply.plan(scalar, scalar, scalar), 1});
  if (s.follows()) runs.push_back({s.follow.plan(scalar, scalar), 1});
  return runs;
}

std::shared_ptr<const Plan> ShardedStep::largest_shard(const Type& x, const Type& y) {
  const int64_t n = state_->deal.pieces().most_rows(x.shape[0]);
  return state_->shard.plan(rows(x, n), rows(y, n));
}

Executable& ShardedStep::executable(const Array& x, const Array& y) { return state_->shard.executable(x, y); }

size_t ShardedStep::kept_bytes() const {
  const State& s = *state_;
  size_t block = 0;
  for (const Variable& v : s.gradients) block += v.type().bytes();
  for (const Statistic& v : s.statistics) block += v.sum.type().bytes();
  if (s.devices()) return block + DeviceSums::kept_bytes(block, s.deal, s.sharding.exact);
  const bool gathers = s.sharding.exact && s.sharding.ranks && !s.deal.aligned();
  const size_t own = s.together ? block * static_cast<size_t>(s.deal.count()) : 0;
  if (gathers) return own + block * static_cast<size_t>(1 + s.deal.most() * (s.deal.world + 1));
  size_t levels = 0;
  for (int64_t n = s.deal.count(); n > 1; n /= 2) ++levels;
  return own + block * (1 + (levels > 0 ? levels + 1 : 0));
}

}  // namespace freight::train
