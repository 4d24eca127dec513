// See step_plan.h.
#include "freight/plan/step_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <exception>
#include <numeric>
#include <thread>

#include "freight/base/error.h"
#include "freight/base/storage_use.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "freight/run/plan.h"
#include "freight/train/evaluate.h"

namespace freight::plan {

namespace {

// Batches that the loader holds (data/loader.h): two ahead and the current one, fewer if they are large.
constexpr size_t kBatches = 3, kBatchBytes = size_t{1} << 30;
size_t batches_ahead(size_t batch_bytes) {
  return std::clamp<size_t>(kBatchBytes / std::max<size_t>(batch_bytes, 1), 2, kBatches);
}
// With more plan steps, planning takes too long for a third step plan to be worth it.
constexpr size_t kFewSteps = 900;

// The bytes that a run on a CPU needs in addition to its blocks: gaps of the heap and pages of the program that are
// touched for the first time; for each plan step its part of the graph and its kernel; for each thread its stack and
// heap, and for threads that decode images their pixels.
constexpr size_t kProcess = size_t{5} << 20, kPlanStep = size_t{16} << 10, kThread = size_t{512} << 10,
                 kDecoder = size_t{3} << 20;

// Every length of texts has its own plans, and so has a short last batch of the test.
size_t process_bytes(const train::Planned& p, size_t plan_steps) {
  size_t lengths = 0;
  for (const data::LengthCount& l : p.lengths.train) lengths += l.documents > 0 ? 1 : 0;
  const size_t plans = std::max<size_t>(lengths, 1) * (plan_steps + 2 * p.evaluation->steps().size());
  const size_t thread = kThread + backend("cpu").thread_bytes() + (p.images_in_files ? kDecoder : 0);
  return kProcess + kPlanStep * plans + thread * static_cast<size_t>(thread_count());
}

// The blocks of a run on a CPU are counted in whole pages, so that the sum is what the process needs. Those of a single
// step are counted in bytes, which grow evenly with the batch.
struct Blocks {
  bool whole_pages;

  size_t of(size_t bytes) const { return whole_pages ? block_bytes(bytes) : bytes; }
  size_t of(const std::vector<nn::NamedVariable>& variables, bool on_host = false) const {
    size_t sum = 0;
    for (const nn::NamedVariable& v : variables) {
      if (v.variable.on_host() == on_host) sum += of(v.variable.type().bytes());
    }
    return sum;
  }
};

// An upload to a device passes through up to four buffers there (backend/gpu/queued_memory.h), each as large as the
// largest piece it carried, rounded up to a power of two. This is the maximum of their sum, in any order of uploads.
size_t upload_buffers(const std::vector<size_t>& blocks) {
  constexpr size_t kBuffers = 4, kLeast = size_t{64} << 10, kMost = size_t{16} << 20;
  std::vector<size_t> pieces;
  for (const size_t block : blocks) {
    for (size_t left = block; left > 0; left -= std::min(left, kMost)) {
      pieces.push_back(std::max(kLeast, std::bit_ceil(std::min(left, kMost))));
    }
  }
  std::sort(pieces.rbegin(), pieces.rend());
  pieces.resize(std::min(pieces.size(), kBuffers));
  return std::accumulate(pieces.begin(), pieces.end(), size_t{0});
}

// The uploads of a run on a device with its own memory: the weights and their states, the data set or its batches, and
// those of the test.
std::vector<size_t> uploads_of(const train::Planned& p, size_t tested) {
  std::vector<size_t> blocks(4, tested);
  const auto add = [&](const std::vector<nn::NamedVariable>& variables) {
    for (const nn::NamedVariable& v : variables) {
      if (!v.variable.on_host()) blocks.push_back(v.variable.type().bytes());
    }
  };
  add(p.model.net->state_dict());
  add(p.optimizer.state_dict());
  if (p.ema) add(p.ema->state_dict());
  if (p.data_bytes > 0) blocks.push_back(p.data_bytes);
  for (int i = 0; i < 4; ++i) blocks.push_back(p.inputs.bytes());
  return blocks;
}

template <class F>
void in_parallel(size_t count, F f) {
  std::vector<std::exception_ptr> errors(count);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        f(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const std::exception_ptr& e : errors) {
    if (e) std::rethrow_exception(e);
  }
}

}  // namespace

StepPlanOptions options_of(const TrainingSetup& s) {
  StepPlanOptions o{.batch = s.config.batch_size,
                    .parts = s.config.grad_accum,
                    .recompute = parse_recompute(s.config.recompute),
                    .offload = parse_offload(s.config.offload)};
  parse_dtype(s.config.precision, o.compute);
  return o;
}

StepPlanOptions options_of_run(const TrainingSetup& s) {
  StepPlanOptions o = options_of(s);
  o.whole_run = s.test_count > 0;
  return o;
}

size_t StepPlan::total() const {
  size_t sum = 0;
  for (const size_t b : bytes) sum += b;
  return sum - part(Part::host);
}

size_t arena_within(const StepPlan& d, double device_bytes) {
  if (device_bytes <= 0 || static_cast<double>(d.total()) <= device_bytes) return 0;
  // Plans that need less than an equal share leave the rest of it to the others.
  double left = device_bytes - static_cast<double>(d.total() - d.arena_bytes);
  std::vector<size_t> arenas = d.arenas;
  std::sort(arenas.begin(), arenas.end());
  for (size_t i = 0; i < arenas.size(); ++i) {
    const double share = left / static_cast<double>(arenas.size() - i);
    if (share < static_cast<double>(arenas[i])) return static_cast<size_t>(std::max(share, 1.0));
    left -= static_cast<double>(arenas[i]);
  }
  return 0;
}

bool has_batch_statistics(const models::Model& model) {
  for (const nn::NamedVariable& v : model.net->state_dict()) {
    if (ends_with(v.name, "running_mean")) return true;
  }
  return false;
}

StepPlan plan_step(const train::Planned& p) {
  StepPlan d;
  d.options.ranks = p.ranks;
  d.options.batch = (p.inputs.shape[0] + p.ranks - 1) / p.ranks;
  d.options.parts = p.config.grad_accum;
  d.options.recompute = parse_recompute(p.config.recompute);
  const RunOptions& run_options = p.step[0].plan->options();
  d.options.compute = run_options.compute;
  d.options.backend = run_options.backend;
  d.options.offload = parse_offload(p.config.offload);
  d.options.speed = run_options.limit.speed;
  const bool beside = d.beside = backend(run_options.backend).memory() != nullptr;
  d.options.whole_run = p.evaluation != nullptr;
  d.parameters = p.model.net->parameter_count();
  const auto add = [&](Part part, size_t bytes) { d.bytes[static_cast<size_t>(part)] += bytes; };
  const Blocks blocks{!beside && d.options.whole_run};
  add(Part::weights, blocks.of(p.model.net->state_dict()));
  add(Part::optimizer, blocks.of(p.optimizer.state_dict()));
  d.states.resize(p.optimizer.parameters().size());
  size_t elsewhere = 0;  // states that other ranks keep
  for (const optim::Optimizer::State& s : p.optimizer.whole_states()) {
    if (!s.parameter) continue;
    const size_t bytes = blocks.of(s.state.variable.type().bytes());
    d.states[*s.parameter] += bytes;
    if (!p.optimizer.keeps(*s.parameter)) elsewhere += bytes;
  }
  const size_t away = blocks.of(p.optimizer.state_dict(), true);
  add(Part::host, away);
  if (p.ema) add(Part::averages, blocks.of(p.ema->state_dict()));
  if (d.options.parts > 1) {
    for (const Variable& v : p.optimizer.parameters()) add(Part::accumulators, blocks.of(v.type().bytes()));
  }
  size_t largest = 0;
  for (const train::TrainStep::Run& run : p.step) {
    const Plan& plan = *run.plan;
    add(Part::weights, blocks.of(plan.copy_bytes()));  // in 16 bits
    d.stages.push_back({work_of(plan), static_cast<double>(run.times)});
    d.flops += plan.total_cost().flops * static_cast<double>(run.times);
    d.moved += plan.total_cost().bytes * static_cast<double>(run.times);
    d.plan_steps += plan.steps().size();
    for (const Node& n : plan.source().nodes) {
      d.random = d.random || info(n.op).random;
    }
    add(Part::host, plan.host_bytes());
    for (const Work& w : d.stages.back().work) {
      if (w.kind != kTransfer) continue;
      d.transfers += run.times;
      d.transferred += w.bytes / 2 * static_cast<double>(run.times);
    }
    add(Part::constants, constant_bytes(plan));
    if (run.shares_arena) continue;
    d.arena_bytes += plan.arena_bytes();
    d.arenas.push_back(plan.arena_bytes());
    ArenaUse use = arena_use(plan);
    for (size_t i = 0; i < kParts; ++i) d.bytes[i] += use.bytes[i];
    add(Part::packing, blocks.of(plan.arena_bytes()) - plan.arena_bytes());
    if (plan.arena_bytes() <= largest) continue;
    largest = plan.arena_bytes();
    d.live = std::move(use.live);
    d.peak = std::move(use.peak);
  }
  const auto ranks = static_cast<size_t>(p.ranks);
  const size_t batch = (p.inputs.bytes() + p.targets.bytes()) / ranks;
  const size_t staged =
      (blocks.of(p.inputs.bytes() / ranks) + blocks.of(p.targets.bytes() / ranks)) * batches_ahead(batch);
  const bool resident = p.data_bytes > 0;  // on a CPU the data set is in memory in any case
  add(Part::staging, resident ? (beside ? p.data_bytes : 0) : beside ? batch : staged);
  if (beside && !resident) add(Part::host, staged);
  add(beside ? Part::host : Part::staging, p.kept_bytes);
  // The networks of folds are as large as this one, and are gone when it is trained.
  if (p.config.folds > 0) add(Part::folds, d.part(Part::weights) + d.part(Part::optimizer) + d.part(Part::averages));
  if (!p.evaluation) return d;
  d.evaluation = work_of(*p.evaluation);
  d.evaluation_batch = p.evaluation_batch;
  // The short last batch runs in the same arena.
  add(Part::evaluation, blocks.of(p.evaluation->arena_bytes()));
  // Test samples are read ahead along with the first batches of the next training epoch, which are ready by then.
  const size_t tested = p.test_inputs.bytes() + p.test_targets.bytes();
  const auto batches = static_cast<size_t>((p.test_count + p.evaluation_batch - 1) / p.evaluation_batch);
  if (beside) add(Part::staging, upload_buffers(uploads_of(p, tested)));
  const size_t test_blocks = blocks.of(p.test_inputs.bytes()) + blocks.of(p.test_targets.bytes());
  add(beside ? Part::host : Part::evaluation, test_blocks * std::min(batches, batches_ahead(tested)));
  const Part copy = beside ? Part::host : Part::checkpoint;
  if (p.writes && (beside || !p.config.save_in_place)) {
    add(copy, d.part(Part::weights) + d.part(Part::optimizer) + away + d.part(Part::averages));
  }
  if (p.writes) add(copy, elsewhere);  // states of other ranks are gathered here to be written
  if (!beside) add(Part::process, process_bytes(p, d.plan_steps));
  return d;
}

TrainingSetup setup_of(const train::Planned& p) {
  const auto sample = [](const Type& t) { return Type{t.dtype, Shape(t.shape.begin() + 1, t.shape.end())}; };
  TrainingSetup s;
  s.config = p.config;
  // A network without a spec is planned as it is: plans do not change weights.
  s.make_model = [model = p.model] { return models::has_spec(model) ? models::again(model) : model; };
  s.input = sample(p.inputs);
  s.target = sample(p.targets);
  if (p.evaluation) s.tested = {sample(p.test_inputs), sample(p.test_targets)};
  s.data = p.config.data;
  s.test_count = p.test_count;
  s.kept_bytes = p.kept_bytes;
  s.images_in_files = p.images_in_files;
  s.lengths = p.lengths;
  s.features = p.features;
  return s;
}

namespace {

// The samples of a step over all ranks. A batch that is split evenly has fewer if it is not a multiple of the ranks.
int64_t samples_of_step(const train::Config& c, const StepPlanOptions& o) {
  const int64_t whole = o.batch * o.ranks;
  return whole >= c.batch_size && whole - c.batch_size < o.ranks ? c.batch_size : whole;
}

StepPlan plan_step_within(const TrainingSetup& setup, const StepPlanOptions& options, const ArenaLimit& limit) {
  train::Config c = setup.config;
  c.batch_size = options.batch;
  c.grad_accum = options.parts;
  c.offload = to_string(options.offload);
  train::NetTraining net(c, setup.make_model());
  if (setup.features) net.train_rest(*setup.features);
  net.plan_step(setup.batch_types(options.batch, options.tokens), {.backend = options.backend,
                                                                   .deterministic = true,
                                                                   .recompute = options.recompute,
                                                                   .compute = options.compute,
                                                                   .limit = limit});
  if (options.whole_run) {
    net.plan_evaluation(setup.test_count > 0 ? setup.test_count : train::kEvaluationBatch,
                        [&](int64_t batch) { return setup.test_types(batch); });
  }
  train::Planned planned = net.planned();
  planned.train_count = setup.train_count;
  planned.test_count = setup.test_count;
  planned.kept_bytes = setup.kept_bytes;
  planned.images_in_files = setup.images_in_files;
  planned.lengths = setup.lengths;
  StepPlan d = plan_step(planned);
  d.options = options;
  return d;
}

}  // namespace

StepPlan plan_step(const TrainingSetup& setup, const StepPlanOptions& options) {
  StepPlan d = plan_step_within(setup, options, {});
  const size_t arena = arena_within(d, options.device_bytes);
  if (arena == 0 || options.offload == Offload::none || options.offload == Offload::optimizer) return d;
  return plan_step_within(setup, options, {options.offload, arena, options.speed});
}

void add_lengths(StepPlan& d, const TrainingSetup& s) {
  std::vector<StepPlanOfLength> lengths;
  StepPlanOptions o = d.options;
  for (const LengthShare& share : s.length_shares(samples_of_step(s.config, d.options))) {
    o.tokens = share.tokens;
    lengths.push_back({share, share.tokens == s.input.shape[0] ? d : plan_step(s, o)});
  }
  d.lengths = std::move(lengths);
}

int64_t Formula::largest(double bytes) const {
  if (at(1) > bytes) return 0;
  if (per_sample <= 0) return INT32_MAX;
  return static_cast<int64_t>(std::min((bytes - fixed) / per_sample, 1e9));
}

Formula formula(const std::vector<StepPlan>& all) {
  FREIGHT_CHECK(all.size() >= 2 && all[0].options.batch != all[1].options.batch, "a line needs two batch sizes");
  // Evaluation uses as many samples as the step, up to a limit; its maximum is counted at every batch size.
  size_t evaluation = 0;
  for (const StepPlan& d : all) evaluation = std::max(evaluation, d.part(Part::evaluation));
  const auto bytes = [&](size_t i) {
    return static_cast<double>(all[i].total() - all[i].part(Part::evaluation) + evaluation);
  };
  const auto batch = [&](size_t i) { return static_cast<double>(all[i].options.batch); };
  Formula f;
  f.per_sample = (bytes(1) - bytes(0)) / (batch(1) - batch(0));
  f.fixed = bytes(0) - f.per_sample * batch(0);
  if (all.size() > 2) {
    f.third = all[2].options.batch;
    f.error = std::fabs(f.at(f.third) / bytes(2) - 1);
  }
  return f;
}

std::vector<StepPlan> plan_steps(const TrainingSetup& setup, const std::vector<StepPlanOptions>& options) {
  std::vector<StepPlan> all(options.size());
  in_parallel(options.size(), [&](size_t i) { all[i] = plan_step(setup, options[i]); });
  return all;
}

std::vector<StepPlan> plan_steps(const TrainingSetup& setup, const StepPlanOptions& options) {
  StepPlanOptions other = options;
  other.batch = options.batch > 1 ? (options.batch + 1) / 2 : 2;
  other.parts = std::min(options.parts, other.batch);
  std::vector<StepPlan> all = plan_steps(setup, std::vector<StepPlanOptions>{options, other});
  add_lengths(all[0], setup);
  if (all[0].plan_steps <= kFewSteps) {
    other.batch = options.batch > 1 ? 2 * options.batch : 4;
    other.parts = options.parts;
    all.push_back(plan_step(setup, other));
  }
  return all;
}

}  // namespace freight::plan
