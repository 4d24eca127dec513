// See prepare.h.
#include "freight/train/prepare.h"

#include <algorithm>

#include "freight/backend/backend.h"
#include "freight/base/cpu_info.h"
#include "freight/base/device_memory.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/data/unicode.h"
#include "freight/run/plan.h"
#include "freight/store/precision.h"
#include "freight/train/config_fields.h"
#include "freight/train/diverged.h"
#include "freight/train/record_internal.h"
#include "freight/train/whiten.h"

namespace freight::train {

namespace {

constexpr int64_t kStepsPerLaunch = 16;  // each step costs the host a sixteenth of a launch

// A net may have more outputs than the data has classes: the rest is named by number.
std::vector<std::string> named_outputs(std::vector<std::string> names, const models::Model& model) {
  if (names.empty()) return names;
  for (auto i = static_cast<int64_t>(names.size()); i < model.classes(); ++i) {
    std::string name = cat(i);
    while (std::find(names.begin(), names.end(), name) != names.end()) name += "'";
    names.push_back(std::move(name));
  }
  return names;
}

CompileOptions compile_options(const Config& c, const store::ComputeType& compute) {
  return {.backend = c.backend == "auto" ? std::string() : c.backend,
          .deterministic = c.deterministic,
          .recompute = parse_recompute(c.recompute),
          .compute = compute.dtype,
          .tf32 = compute.tf32};
}

// Returns the memory of the run's device; null where that computes in the host's.
std::shared_ptr<DeviceMemory> own_memory(const Config& c) {
  return backend(c.backend == "auto" ? current_device() : c.backend).memory();
}

void read_data(Prepared& p) {
  data::BadSamples bad;
  if (p.config.on_bad_sample != "error") {
    bad = {.on_bad = data::OnBad::skip, .report = [&](const data::BadSample& b) { p.left_out.add(b); }};
  }
  p.task = make_task(p.config, bad);
  for (const std::string& name : p.task->classes()) {
    if (data::utf8_fault(name)) {
      fail(ErrorKind::data, p.config.data, "the class name ", name,
           " is not UTF-8, as a stored model needs it: rename it");
    }
  }
}

// Host memory beside the device's may take the optimizer's states, so that there the weights alone count.
void refuse_too_large(const NetTraining& net, double device_memory) {
  const auto bytes = [](const std::vector<nn::NamedVariable>& variables) {
    double sum = 0;
    for (const nn::NamedVariable& v : variables) sum += static_cast<double>(v.variable.type().bytes());
    return sum;
  };
  const double weights = bytes(net.model.net->state_dict());
  const double averages = net.config.model_ema > 0 ? weights : 0;
  const double states = bytes(net.optimizer->state_dict()) + averages;
  const auto device = own_memory(net.config);
  const double least = device ? weights : weights + states;
  const double free = device_memory > 0 ? device_memory
                      : device          ? static_cast<double>(device->free_bytes())
                                        : static_cast<double>(cpu_info().memory_available_bytes);
  if (least <= free) return;
  fail(ErrorKind::capacity, "train", "the run does not fit: got ", human_bytes(free), " free, need more than ",
       human_bytes(least), " for the weights", device ? "" : " and what the optimizer keeps",
       "; no batch size, accumulation or recomputation would fit");
}

// Sets the weights that a new run starts from: those of a file, or drawn ones, of which a layer may come from the data.
void set_weights(Prepared& p) {
  if (p.start.checkpoint) return;
  if (p.config.weights.empty()) {
    whiten(p.net->model, *p.task);
  } else {
    store::load_weights(p.net->model, p.config.weights, p.task->preprocessing().tokenizer.get());
  }
}

void need_same_data(const Prepared& p) {
  if (!p.start.checkpoint || p.start.checkpoint->fingerprint == p.fingerprint) return;
  fail(ErrorKind::checkpoint, p.config.data, "the training data is not that of ", p.start.checkpoint->dir,
       ": its fingerprint differs; --weights starts a new run from the weights");
}

RunLength length_of(const Config& c, int64_t steps_per_epoch) {
  RunLength length{.steps_per_epoch = steps_per_epoch};
  length.steps = c.epochs > 0 ? c.epochs * steps_per_epoch : c.max_steps;
  if (c.max_steps > 0) length.steps = std::min(length.steps, c.max_steps);
  length.epochs = (length.steps + steps_per_epoch - 1) / steps_per_epoch;
  return length;
}

// Decides whether the training set lies on the device.
void place_data(Prepared& p, double device_memory) {
  const Config& c = p.config;
  const bool asked = c.device_data == "yes";
  const auto memory = own_memory(c);
  if (c.device_data == "no" || (!asked && (!memory || c.grad_accum > 1 || c.offload != "none"))) return;
  std::string why;
  const std::optional<data::BatchRecipe> recipe = p.feed->recipe(why);
  if (asked && c.grad_accum > 1) why = cat("a batch is cut into ", c.grad_accum, " parts (--grad-accum)");
  if (asked && !why.empty()) fail(ErrorKind::usage, "--device-data", "yes: not with ", c.data, ": ", why);
  if (!recipe) return;
  auto data = std::make_unique<DeviceData>(*recipe);
  if (!asked) {
    const auto free = static_cast<double>(memory->free_bytes());
    if (4 * static_cast<double>(data->bytes()) > (device_memory > 0 ? std::min(device_memory, free) : free)) return;
  }
  p.data = std::move(data);
  p.block = c.steps_per_launch > 0 ? c.steps_per_launch : kStepsPerLaunch;
  p.notes.push_back(cat("the training set lies on the device (", human_bytes(static_cast<double>(p.data->bytes())),
                        "), which makes its batches itself, ", p.block, " steps at a time"));
}

// The only batch of a small set is not full.
void need_batch_statistics(const Prepared& p) {
  Type x = p.net->inputs, y = p.net->targets;
  x.shape[0] = y.shape[0] = std::min(p.config.batch_size, p.task->train_count());
  p.net->step->need_batch_statistics(x, y);
}

}  // namespace

PreparedRun prepare(const Config& config, PrepareOptions options) {
  validate(config);
  auto prepared = std::make_unique<Prepared>();
  Prepared& p = *prepared;
  Config& c = p.config = config;
  p.start = start_point(c, std::move(options.found));
  p.notes = p.start.notes;
  p.left_out.heard = std::move(options.on_bad_sample);
  const store::ComputeType compute = store::compute_type(c.precision, c.backend);
  p.precision_note = compute.note;
  seed(static_cast<uint64_t>(c.seed));
  read_data(p);
  p.net = std::make_unique<NetTraining>(c, p.task->make_model());
  if (options.refuse_too_large) refuse_too_large(*p.net, options.device_memory);
  set_weights(p);
  p.class_names = named_outputs(p.task->classes(), p.net->model);
  p.fingerprint = p.task->fingerprint();
  need_same_data(p);
  p.feed = p.task->train_feed();
  p.length = length_of(c, p.feed->batches_per_epoch());
  p.schedule = make_schedule(c, p.length.steps_per_epoch, p.length.steps);
  place_data(p, options.device_memory);
  // Its batches are the loader's but for rounding: a resumed run keeps to what was chosen.
  if (c.deterministic && c.device_data == "auto" && own_memory(c)) c.device_data = p.data ? "yes" : "no";
  p.net->plan_step(p.task->batch_types(), compile_options(c, compute), p.data.get());
  need_batch_statistics(p);
  p.net->plan_evaluation(p.task->test_count());
  p.random_numbers = rng_state().array().clone();
  return PreparedRun(std::move(prepared));
}

PreparedRun::PreparedRun(std::unique_ptr<Prepared> prepared) : prepared_(std::move(prepared)) {}
PreparedRun::~PreparedRun() = default;
PreparedRun::PreparedRun(PreparedRun&&) noexcept = default;
PreparedRun& PreparedRun::operator=(PreparedRun&&) noexcept = default;

const Config& PreparedRun::config() const { return prepared_->config; }
RunSummary PreparedRun::summary() const { return summary_of(*prepared_); }

Planned PreparedRun::planned() const {
  const Prepared& p = *prepared_;
  Planned planned = p.net->planned();
  planned.train_count = p.task->train_count();
  planned.test_count = p.task->test_count();
  planned.data_bytes = p.data ? p.data->bytes() : 0;
  planned.kept_bytes = p.task->kept_bytes();
  return planned;
}

void PreparedRun::plan_within(const ArenaLimit& limit) {
  Prepared& p = *prepared_;
  const Offload offload = parse_offload(p.config.offload);
  if (offload == Offload::none) {
    fail(ErrorKind::usage, "PreparedRun::plan_within", "the run does not offload, so that nothing can be limited: set ",
         "config.offload");
  }
  if (p.restored || p.record) {
    fail(ErrorKind::usage, "PreparedRun::plan_within", "the run has been restored or run with its plan: plan before");
  }
  CompileOptions options = p.net->compile;
  options.limit = limit;
  options.limit.offload = offload;
  p.net->plan_step(p.task->batch_types(), options, p.data.get());
}

void PreparedRun::restore() {
  Prepared& p = *prepared_;
  // The step is planned for good by now, since its own states are restored, too.
  if (p.net->compile.limit.offload != parse_offload(p.config.offload)) plan_within({});
  if (p.restored) return;
  p.restored = true;
  rng_state().set(p.random_numbers);
  if (!p.start.checkpoint) return;
  Checkpoint& from = *p.start.checkpoint;
  train::restore(from, p.net->model, p.net->states());
  // Of the weights load_weights has said so already.
  if (const std::string at = first_nonfinite(p.net->states()); !at.empty()) {
    fail(ErrorKind::checkpoint, from.dir, at, ": nothing can be learnt from there; take an earlier checkpoint");
  }
  const RunPosition& place = from.place;
  const bool complete = place.step >= p.length.steps && place.closed;
  p.notes.push_back(complete ? cat("the run is complete: ", place.step, " steps were done in ", from.dir)
                             : cat("resumed from ", from.dir, ": weights, optimizer, random numbers; step ", place.step,
                                   ", epoch ", place.epoch,
                                   place.batch > 0 ? cat(", after ", place.batch, " of its batches") : ""));
}

RunSummary summary_of(const Prepared& p) {
  const Config& c = p.config;
  const TrainStep::Summary plan = p.net->step->summary(p.net->inputs, p.net->targets);
  RunSummary s;
  s.model = p.net->model.name;
  s.device = backend(plan.backend).description();
  s.output_dir = c.output_dir;
  s.data = c.data;
  s.parameters = p.net->model.net->parameter_count();
  s.train_count = p.task->train_count();
  s.test_count = p.task->test_count();
  s.classes = static_cast<int64_t>(p.task->classes().size());
  s.unit = p.task->unit();
  s.example = p.task->example();
  s.batch_size = c.batch_size;
  s.grad_accum = c.grad_accum;
  s.epochs = p.length.epochs;
  s.steps = p.length.steps;
  s.flops_per_step = plan.flops;
  s.planned_bytes = plan.arena_bytes;
  s.plan_steps = plan.plan_steps;
  s.seed = static_cast<uint64_t>(c.seed);
  s.notes = p.task->notes();
  if (!p.precision_note.empty()) s.notes.push_back(p.precision_note);
  s.notes.insert(s.notes.end(), p.notes.begin(), p.notes.end());
  s.warnings = p.start.warnings;
  return s;
}

}  // namespace freight::train
