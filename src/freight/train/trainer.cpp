// The training loop; see trainer.h.
#include "freight/train/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <optional>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "freight/backend/backend.h"
#include "freight/base/device_memory.h"
#include "freight/base/error.h"
#include "freight/base/threads.h"
#include "freight/base/version.h"
#include "freight/data/unicode.h"
#include "freight/models/loss.h"
#include "freight/ops/ops.h"
#include "freight/optim/ema.h"
#include "freight/run/plan.h"
#include "freight/store/precision.h"
#include "freight/trace/compile.h"
#include "freight/train/checkpoint.h"
#include "freight/train/config_fields.h"
#include "freight/train/diverged.h"
#include "freight/train/run_dir.h"
#include "freight/train/signals.h"
#include "freight/train/step.h"
#include "freight/train/steps_ahead.h"
#include "freight/train/task.h"
#include "freight/train/trained_on.h"
#include "freight/train/whiten.h"

namespace freight::train {

using nlohmann::json;

namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

// As a step knows it.
double rounded(double rate) { return static_cast<double>(static_cast<float>(rate)); }

// A field of a TSV file: file names may hold anything.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\t': out += "\\t"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\\': out += "\\\\"; break;
      default: out += c;
    }
  }
  return out;
}

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

class Run {
 public:
  Run(const Config& config, Observer& observer, const std::vector<std::string>& argv, std::optional<Found> found)
      : c_(config), observer_(observer), argv_(argv), found_(std::move(found)) {}

  Result run() {
    validate(c_);
    find_start();
    if (c_.output_dir.empty()) c_.output_dir = RunDir::free_name(usual_dir(c_));
    if (!goes_on_) check_output();
    prepare();  // what fails here leaves no directory behind, and an old run alone
    if (!observer_.wants_run()) {
      observer_.on_start(start());
      return result_;
    }
    dir_ = goes_on_ ? std::make_unique<RunDir>(c_.output_dir, place_.step, lock_)
                    : std::make_unique<RunDir>(c_.output_dir, c_.overwrite, lock_);
    try {
      record_bad(0);
      announce();
      loop();
      finish();
      figures_ = observer_.kept_figures(result_);
      record(result_.interrupted ? "interrupted" : "complete", result_.interrupted ? signals::exit_code() : 0);
    } catch (const Error& e) {
      record_failure(e.what(), e.kind());
      throw;
    } catch (const std::bad_alloc& e) {
      record_failure(e.what(), ErrorKind::capacity);
      throw;
    } catch (const std::exception& e) {
      record_failure(e.what(), ErrorKind::runtime);
      throw;
    }
    return result_;
  }

 private:
  // A run that has the directory is named before anything is prepared, and keeps it until this one may have it.
  void check_output() {
    std::error_code error;
    if (!lock_ && std::filesystem::is_directory(c_.output_dir, error) &&
        (c_.overwrite || RunLock::file_exists(c_.output_dir))) {
      lock_ = std::make_shared<RunLock>(c_.output_dir);
    }
    RunDir::check(c_.output_dir, c_.overwrite);
  }

  // What goes wrong here has mostly the same cause, and must not take the place of the first error.
  void record_failure(const char* what, ErrorKind kind) noexcept {
    try {
      dir_->log(cat("error: ", what));
      record("failed", static_cast<int>(kind));
    } catch (const std::exception& second) {
      dir_->log(cat("error: the failure is not recorded: ", second.what()));
    }
  }

  // Where --resume says to begin.
  void find_start() {
    if (c_.resume.empty()) return;
    const bool automatic = c_.resume == "auto";
    if (automatic && c_.output_dir.empty()) c_.output_dir = usual_dir(c_);
    if (!found_) found_ = find_checkpoint(c_.resume, c_.output_dir);
    lock_ = found_->lock;
    start_ = std::move(found_->checkpoint);
    warnings_ = std::move(found_->warnings);
    if (!start_) {
      if (!warnings_.empty() && !c_.overwrite) {
        fail(ErrorKind::checkpoint, c_.output_dir, "no checkpoint is intact: ", join(warnings_, "; "),
             "; --overwrite begins a new run in its place");
      }
      notes_.push_back(cat("nothing to resume in ", c_.output_dir, ": a new run"));
      c_.overwrite = c_.overwrite || RunDir::barely_begun(c_.output_dir);
      return;
    }
    need_same_run(*start_, c_);
    const std::string run = run_of(*start_);
    if (c_.output_dir.empty()) c_.output_dir = run;
    std::error_code different;
    goes_on_ = std::filesystem::equivalent(c_.output_dir, run, different);
    place_ = start_->place;
  }

  void prepare() {
    started_ = Clock::now();
    const store::ComputeType compute = store::compute_type(c_.precision, c_.backend);
    precision_note_ = compute.note;
    seed(static_cast<uint64_t>(c_.seed));
    task_ = make_task(c_, bad_samples());
    for (const std::string& name : task_->classes()) {
      if (data::utf8_fault(name)) {
        fail(ErrorKind::data, c_.data, "the class name ", name, " is not UTF-8, as a stored model needs it: rename it");
      }
    }
    model_ = task_->make_model();
    optimizer_ = make_optimizer(c_, *model_.net);
    tell_least();
    if (!start_ && c_.weights.empty()) whiten(model_, *task_);
    if (!start_ && !c_.weights.empty()) store::load_weights(model_, c_.weights, task_->preprocessing().tokenizer.get());
    class_names_ = named_outputs(task_->classes(), model_);
    fingerprint_ = task_->fingerprint();
    if (start_ && start_->fingerprint != fingerprint_) {
      fail(ErrorKind::checkpoint, c_.data, "the training data is not that of ", start_->dir,
           ": its fingerprint differs; --weights starts a new run from the weights");
    }
    options_ = {.backend = c_.backend == "auto" ? std::string() : c_.backend,
                .deterministic = c_.deterministic,
                .recompute = parse_recompute(c_.recompute),
                .compute = compute.dtype,
                .tf32 = compute.tf32};
    feed_ = task_->train_feed();
    steps_per_epoch_ = feed_->batches_per_epoch();
    total_ = c_.epochs > 0 ? c_.epochs * steps_per_epoch_ : c_.max_steps;
    if (c_.max_steps > 0) total_ = std::min(total_, c_.max_steps);
    epochs_ = (total_ + steps_per_epoch_ - 1) / steps_per_epoch_;
    if (c_.model_ema > 0) ema_ = std::make_unique<optim::EMA>(*model_.net, optim::EMAOptions{.decay = c_.model_ema});
    schedule_ = make_schedule(c_, steps_per_epoch_, total_);
    model_.net->train();
    place_data();
    // Its batches are the loader's but for rounding: a resumed run keeps to what was chosen.
    if (c_.deterministic && c_.device_data == "auto" && own_memory()) c_.device_data = data_ ? "yes" : "no";
    make_step();
    TestViews views = TestViews::one;
    parse_test_views(c_.tta, views);
    evaluation_ = evaluation_beside(model_, options_, views, step_beside(), task_->test_count());
    const Offload offload = parse_offload(c_.offload);
    if (offload != Offload::none) {
      options_.limit = observer_.arena_limit(planned());
      options_.limit.offload = offload;
      make_step();
    }
    plan_ = plan();
    observer_.on_planned(planned());
    if (!start_) return;
    restore(*start_, model_, states());
    // Of the weights load_weights has said so already.
    if (const std::string at = first_nonfinite(states()); !at.empty()) {
      fail(ErrorKind::checkpoint, start_->dir, at, ": nothing can be learnt from there; take an earlier checkpoint");
    }
    if (place_.step > 0) {
      rate_ = rounded(schedule_.at(place_.step - 1));
      optimizer_->set_lr(rate_);
    }
    result_.test = place_.test;
    result_.train_loss = place_.last_loss;
    result_.train_seconds = place_.train_seconds;
    result_.steps = place_.step;
    result_.epochs = place_.epoch - 1;
    notes_.push_back(complete() ? cat("the run is complete: ", place_.step, " steps were done in ", start_->dir)
                                : cat("resumed from ", start_->dir, ": weights, optimizer, random numbers; step ",
                                      place_.step, ", epoch ", place_.epoch,
                                      place_.batch > 0 ? cat(", after ", place_.batch, " of its batches") : ""));
  }

  void tell_least() const {
    const auto bytes = [](const std::vector<nn::NamedVariable>& variables) {
      double sum = 0;
      for (const nn::NamedVariable& v : variables) sum += static_cast<double>(v.variable.type().bytes());
      return sum;
    };
    const double weights = bytes(model_.net->state_dict());
    const double averages = c_.model_ema > 0 ? weights : 0;
    observer_.on_least(weights, bytes(optimizer_->state_dict()) + averages, own_memory().get());
  }

  // Of the device; null where that computes in the host's.
  std::shared_ptr<DeviceMemory> own_memory() const {
    return backend(options_.backend.empty() ? default_backend() : options_.backend).memory();
  }

  // Decides whether the training set lies on the device.
  void place_data() {
    constexpr int64_t kSteps = 16;  // at a time: each step costs the host a sixteenth of a launch
    const bool asked = c_.device_data == "yes";
    const auto memory = own_memory();
    if (c_.device_data == "no" || (!asked && (!memory || c_.grad_accum > 1 || c_.offload != "none"))) return;
    std::string why;
    const std::optional<data::BatchRecipe> recipe = feed_->recipe(why);
    if (asked && c_.grad_accum > 1) why = cat("a batch is cut into ", c_.grad_accum, " parts (--grad-accum)");
    if (asked && !why.empty()) fail(ErrorKind::usage, "--device-data", "yes: not with ", c_.data, ": ", why);
    if (!recipe) return;
    auto data = std::make_unique<DeviceData>(*recipe);
    if (!asked) {
      const double limit = observer_.device_memory(), free = static_cast<double>(memory->free_bytes());
      if (4 * static_cast<double>(data->bytes()) > (limit > 0 ? std::min(limit, free) : free)) return;
    }
    data_ = std::move(data);
    block_ = c_.steps_per_launch > 0 ? c_.steps_per_launch : kSteps;
    notes_.push_back(cat("the training set lies on the device (", human_bytes(static_cast<double>(data_->bytes())),
                         "), which makes its batches itself, ", block_, " steps at a time"));
  }

  // All that a step changes beside the model.
  std::vector<nn::NamedVariable> states() const {
    std::vector<nn::NamedVariable> all = step_->state_dict();
    for (const auto& v : optimizer_->state_dict()) all.push_back({"optimizer." + v.name, v.variable});
    if (ema_) {
      for (const auto& v : ema_->state_dict()) all.push_back({"ema." + v.name, v.variable});
    }
    all.push_back({"rng", rng_state()});
    return all;
  }

  // Throws Error(diverged) where weights, averages or the optimizer's state are not finite: such are neither measured
  // nor stored. One pass over them, once for a step, which storing makes anyway; the steps pay nothing.
  void need_finite() {
    if (finite_at_ == place_.step) return;
    const std::string at = nonfinite_state();
    if (at.empty()) {
      finite_at_ = place_.step;
      return;
    }
    dir_->settle();
    fail(ErrorKind::diverged, "train", "after step ", place_.step, " (epoch ", place_.epoch, ", lr ", rate_, ", loss ",
         result_.train_loss, ") ", at, "; ", saved_weights(false), "; try a smaller --lr or --clip-grad-norm 1");
  }

  std::string nonfinite_state() {
    std::string at = first_nonfinite(model_.net->state_dict());
    return at.empty() ? first_nonfinite(states()) : at;
  }

  void checkpoint(bool best) {
    need_finite();
    place_.test = result_.test;
    place_.last_loss = result_.train_loss;
    dir_->checkpoint(bundle(), {place_, states(), c_, fingerprint_}, best, {c_.keep, c_.save_in_place});
  }

  data::BadSamples bad_samples() {
    if (c_.on_bad_sample == "error") return {};
    return {.on_bad = data::OnBad::skip, .report = [this](const data::BadSample& bad) { left_out(bad); }};
  }

  // Told by the feed of training, by that of each evaluation, and by readers of text.
  void left_out(const data::BadSample& bad) {
    if (!left_out_.insert(bad.path).second) return;
    result_.bad_samples.push_back(bad);
    if (dir_) record_bad(result_.bad_samples.size() - 1);
    observer_.on_bad_sample(bad.path, bad.reason);
  }

  // Those from number `first` on; texts are read before there is a directory.
  void record_bad(size_t first) {
    std::string rows;
    for (size_t i = first; i < result_.bad_samples.size(); ++i) {
      const data::BadSample& b = result_.bad_samples[i];
      dir_->log(cat("left out: ", b.path, ": ", b.reason));
      rows += cat(cell(b.path), "\t", cell(b.reason), "\n");
    }
    if (c_.on_bad_sample == "report" && !rows.empty()) dir_->append_text("bad_samples.tsv", rows);
  }

  Start start() const {
    Start s;
    s.model = model_.name;
    s.device = backend(plan_.backend).description();
    s.output_dir = c_.output_dir;
    s.data = c_.data;
    s.parameters = model_.net->parameter_count();
    s.train_count = task_->train_count();
    s.test_count = task_->test_count();
    s.classes = static_cast<int64_t>(task_->classes().size());
    s.unit = task_->unit();
    s.batch_size = c_.batch_size;
    s.grad_accum = c_.grad_accum;
    s.epochs = epochs_;
    s.steps = total_;
    s.flops_per_step = plan_.flops;
    s.planned_bytes = plan_.arena_bytes;
    s.plan_steps = plan_.plan_steps;
    s.seed = static_cast<uint64_t>(c_.seed);
    s.notes = task_->notes();
    if (!precision_note_.empty()) s.notes.push_back(precision_note_);
    s.notes.insert(s.notes.end(), notes_.begin(), notes_.end());
    s.warnings = warnings_;
    return s;
  }

  void announce() {
    const Start s = start();
    for (const auto* list : {&warnings_, &notes_}) {
      for (const std::string& line : *list) dir_->log(line);
    }
    result_.parameters = s.parameters;
    backend_ = plan_.backend;
    dir_->write_text("config.json", to_json(c_) + "\n");
    dir_->write_text("model.json", models::to_spec(model_) + "\n");
    record("running", 0);
    observer_.on_start(s);
  }

  // Of the step on a full batch.
  TrainStep::Summary plan() {
    const auto [inputs, targets] = task_->batch_types();
    return step_->summary(inputs, targets);
  }
  void make_step() {
    step_ = std::make_unique<TrainStep>(
        model_, *optimizer_, ema_.get(),
        StepOptions{.label_smoothing = c_.label_smoothing, .parts = c_.grad_accum, .data = data_.get()}, options_);
    if (data_) ahead_ = std::make_unique<StepsAhead>(*step_, *data_, block_);
  }
  Planned planned() {
    const auto [inputs, targets] = task_->batch_types();
    return {.config = c_,
            .model = model_,
            .optimizer = *optimizer_,
            .ema = ema_.get(),
            .inputs = inputs,
            .targets = targets,
            .step = step_->plans(inputs, targets),
            .evaluation = evaluation_.plan,
            .evaluation_batch = evaluation_.batch,
            .train_count = task_->train_count(),
            .test_count = task_->test_count(),
            .data_bytes = data_ ? data_->bytes() : 0,
            .kept_bytes = task_->kept_bytes()};
  }
  StepBeside step_beside() {
    const auto [inputs, targets] = task_->batch_types();
    return {inputs, targets, step_->part_of(c_.batch_size), arena_bytes(step_->plans(inputs, targets))};
  }
  bool regression() const { return model_.loss == models::Loss::mse; }

  void loop() {
    while (place_.epoch <= epochs_ && !complete() && !result_.interrupted) run_epoch();
  }

  bool complete() const { return place_.step >= total_ && place_.closed; }

  // The running epoch, from where it stands.
  void run_epoch() {
    const auto start = Clock::now();
    const double waited = feed_->wait_seconds();
    const int64_t batch_before = place_.batch, seen_before = place_.seen;
    const int64_t steps = std::min(steps_per_epoch_, total_ - (place_.epoch - 1) * steps_per_epoch_);
    const auto fill_report = [&](double loss) {
      const double elapsed = std::max(since(start), 1e-9);
      const auto done = static_cast<double>(std::max<int64_t>(place_.batch - batch_before, 1));
      StepReport report{.epoch = place_.epoch,
                        .epochs = epochs_,
                        .step = place_.batch,
                        .steps = steps,
                        .total_step = place_.step,
                        .loss = loss,
                        .mean_loss = place_.loss_sum / static_cast<double>(place_.batch),
                        .top1 = {},
                        .lr = rate_,
                        .samples_per_s = static_cast<double>(place_.seen - seen_before) / elapsed,
                        .data_percent = 100.0 * (feed_->wait_seconds() - waited) / elapsed,
                        .eta_s = static_cast<double>(total_ - place_.step) * elapsed / done};
      if (!regression()) report.top1 = 100.0 * place_.right / static_cast<double>(place_.seen);
      return report;
    };
    if (ahead_) {
      start_ahead(steps);
    } else {
      feed_->start(place_.epoch - 1, place_.batch);
    }
    place_.closed = false;
    bool save = false;
    while (place_.batch < steps && !result_.interrupted) {
      const data::FeedBatch* batch = nullptr;
      std::vector<TrainStep::Outcome> outcomes;
      if (ahead_) {
        // What was asked for waits until all that is enqueued is known; an epoch has a step before it is stopped.
        const bool settle = save || (signals::stop_requested() && place_.batch > 0);
        const int64_t to_save = c_.save_every > 0 ? c_.save_every - place_.step % c_.save_every : steps;
        outcomes = ahead_->next(settle ? place_.batch : std::min(steps, place_.batch + to_save));
      } else {
        batch = feed_->next();
        if (!batch) break;
        optimizer_->set_lr(schedule_.at(place_.step));
        outcomes.push_back(step_->run(batch->inputs, batch->targets));
      }
      for (const TrainStep::Outcome& outcome : outcomes) {
        rate_ = rounded(schedule_.at(place_.step));
        if (!std::isfinite(outcome.loss)) diverged(batch, outcome.loss);
        result_.train_loss = outcome.loss;
        ++place_.step;
        ++place_.batch;
        place_.loss_sum += outcome.loss;
        place_.right += outcome.right;
        place_.seen += batch ? batch->count : data_->batch_size();
        if (observer_.wants_step()) observer_.on_step(fill_report(outcome.loss));
      }
      const auto done = static_cast<int64_t>(outcomes.size());
      if (trained_steps_ == 0) first_steps_ = {since(start), feed_->wait_seconds() - waited, done};
      trained_steps_ += done;
      save = save || (done > 0 && c_.save_every > 0 && place_.step % c_.save_every == 0);
      save = signals::take_save_request() || save;
      if (ahead_ && !ahead_->settled()) continue;
      if (signals::stop_requested()) result_.interrupted = true;
      if (save && !result_.interrupted) checkpoint(false);
      save = false;
    }
    if (place_.batch == 0) fail(ErrorKind::data, c_.data, "no sample of the train split can be read");
    place_.train_seconds += since(start);
    result_.train_seconds = place_.train_seconds;
    trained_seconds_ += since(start);
    waited_seconds_ += feed_->wait_seconds() - waited;
    trained_samples_ += place_.seen - seen_before;
    result_.steps = place_.step;
    if (!result_.interrupted) result_.epochs = place_.epoch;
    close_epoch(fill_report(result_.train_loss), place_.batch - batch_before, since(start),
                place_.batch < steps || steps == steps_per_epoch_);
  }

  // The device's batches of the running epoch, which has so many steps.
  void start_ahead(int64_t steps) {
    const int64_t before = place_.step - place_.batch;
    std::vector<float> rates(static_cast<size_t>(data_->batches()));
    for (int64_t i = 0; i < steps; ++i) rates[static_cast<size_t>(i)] = static_cast<float>(schedule_.at(before + i));
    ahead_->start_epoch(feed_->draws(place_.epoch - 1), rates, place_.batch);
  }

  // `batches` of it took `seconds` since the start or the resume; `whole`: nothing of the epoch is left, should the run
  // be made longer.
  void close_epoch(const StepReport& report, int64_t batches, double seconds, bool whole) {
    EpochReport e{.train = report, .test = {}, .best = false, .seconds = seconds};
    io::Metrics m{.step = place_.step,
                  .epoch = static_cast<double>(place_.epoch),
                  .split = "train",
                  .loss = report.mean_loss,
                  .top1 = report.top1,
                  .lr = report.lr,
                  .samples_per_s = report.samples_per_s,
                  .data_s = report.data_percent / 100.0 * seconds,
                  .step_s = seconds / static_cast<double>(std::max<int64_t>(batches, 1)),
                  .mem_bytes = static_cast<int64_t>(plan_.arena_bytes)};
    if (report.samples_per_s > 0) dir_->metrics().write(m);  // else only the evaluation was left, and the row is there
    const bool last = place_.epoch == epochs_;
    if (!result_.interrupted && (last || place_.epoch % c_.eval_every == 0)) {
      need_finite();
      e.test = evaluate();
    }
    if (e.test) {
      const double score = e.test->top1.value_or(-e.test->loss);
      e.best = score > place_.best_score;
      if (e.best) place_.best_score = score;
      dir_->metrics().write({.step = place_.step,
                             .epoch = static_cast<double>(place_.epoch),
                             .split = "test",
                             .loss = e.test->loss,
                             .top1 = e.test->top1,
                             .samples_per_s = static_cast<double>(e.test->count) / std::max(e.test->seconds, 1e-9)});
    }
    dir_->log(cat("epoch ", place_.epoch, "/", epochs_, " loss ", fixed(report.mean_loss, 4), top1_text(report.top1),
                  e.test ? cat(" test loss ", fixed(e.test->loss, 4), top1_text(e.test->top1)) : std::string(),
                  e.best ? " * best" : ""));
    place_.closed = !result_.interrupted;
    if (place_.closed && whole) {
      ++place_.epoch;
      place_.batch = place_.seen = 0;
      place_.loss_sum = place_.right = 0;
    }
    checkpoint(e.best);
    observer_.on_epoch(e);
  }

  static std::string top1_text(const std::optional<double>& top1) {
    return top1 ? cat(" top1 ", fixed(*top1, 2)) : std::string();
  }

  // On the averaged weights where there are any. Nothing when a signal stops it: a part of the set is no result.
  std::optional<Evaluation> evaluate() {
    if (ema_) ema_->swap();
    const Evaluation e = evaluation_.evaluator->run(*task_->test_feed(evaluation_.batch), cat(c_.data, ", test"),
                                                    [&](int64_t n, int64_t all) {
                                                      observer_.on_evaluation_progress(n, all);
                                                      return !signals::stop_requested();
                                                    });
    if (ema_) ema_->swap();
    if (signals::stop_requested()) {
      result_.interrupted = true;
      return std::nullopt;
    }
    result_.test = e;
    return e;
  }

  store::Bundle bundle() {
    return {model_, task_->preprocessing(), class_names_, provenance(c_, fingerprint_, place_.step, result_.test)};
  }

  void finish() {
    result_.samples_per_second = static_cast<double>(trained_samples_) / std::max(trained_seconds_, 1e-9);
    if (trained_steps_ > first_steps_.count) {
      result_.step_seconds = (trained_seconds_ - waited_seconds_ - (first_steps_.seconds - first_steps_.waited)) /
                             static_cast<double>(trained_steps_ - first_steps_.count);
    }
    result_.output_dir = c_.output_dir;
    result_.model_path = dir_->file("model.safetensors");
    if (ema_) ema_->swap();
    dir_->settle();
    store::save_bundle(result_.model_path, bundle());
    if (ema_) ema_->swap();
    result_.total_seconds = since(started_);
  }

  // Of a batch that the device made, there is none here.
  [[noreturn]] void diverged(const data::FeedBatch* batch, double loss) {
    std::string layer;
    try {
      if (!batch) {
        feed_->start(place_.epoch - 1, place_.batch);
        batch = feed_->next();
      }
      layer = step_->first_nonfinite(batch->inputs, batch->targets);
    } catch (const Error& e) {
      layer = cat("(the first bad layer could not be found: ", e.what(), ")");
    }
    const int64_t step = place_.step + 1;
    dir_->metrics().write(
        {.step = step, .epoch = static_cast<double>(place_.epoch), .split = "train", .loss = loss, .lr = rate_});
    fail(ErrorKind::diverged, "train", "the loss is ", loss, " at step ", step, " (epoch ", place_.epoch, ", lr ",
         rate_, "); first not finite: ", layer.empty() ? "the loss alone" : layer, "; ", rescue(),
         "; try a smaller --lr or --clip-grad-norm 1");
  }

  // Saves the weights that the bad step left as they were, unless an earlier step had spoilt them already; says which
  // good weights there are.
  std::string rescue() {
    const bool finite = nonfinite_state().empty();
    if (finite) checkpoint(false);
    dir_->settle();
    return saved_weights(finite);
  }

  std::string saved_weights(bool before_this_step) const {
    const std::string last = dir_->file("last/model.safetensors");
    if (!std::filesystem::exists(last)) return "no weights were saved yet";
    return cat(before_this_step ? "the weights before that step are in " : "the last saved weights are in ", last);
  }

  void record(const char* status, int exit_code) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    json j = {{"freight", version()},
              {"argv", argv_},
              {"host", host},
              {"device", backend_.empty() ? "" : backend(backend_).description()},
              {"threads", thread_count()},
              {"compute", options_.tf32 ? "tf32" : to_string(options_.compute)},
              {"status", status},
              {"exit_code", exit_code},
              {"time", static_cast<int64_t>(std::time(nullptr))}};
    j["data"] = {{"name", c_.data},
                 {"train", task_->train_count()},
                 {"test", task_->test_count()},
                 {"fingerprint", cat(fingerprint_)}};
    j["local"] = "names paths of this machine: stored models, checkpoints and ONNX files do not";
    if (std::string_view(status) == "complete" || result_.interrupted) {
      j["result"] = {{"test_top1", nullptr},
                     {"test_loss", result_.test.loss},
                     {"train_loss", result_.train_loss},
                     {"steps", result_.steps},
                     {"epochs", result_.epochs},
                     {"train_seconds", result_.train_seconds},
                     {"interrupted", result_.interrupted},
                     {"bad_samples", result_.bad_samples.size()}};
      if (result_.test.top1) j["result"]["test_top1"] = *result_.test.top1;
      for (const auto& [name, value] : figures_) j["plan"][name] = value;
    }
    dir_->write_text("run.json", j.dump(2) + "\n");
  }

  Config c_;
  Observer& observer_;
  std::vector<std::string> argv_;
  std::shared_ptr<RunLock> lock_;  // of the output directory, where something lay in it before
  std::unique_ptr<RunDir> dir_;
  std::unique_ptr<Task> task_;
  models::Model model_;
  CompileOptions options_;
  std::unique_ptr<data::Feed> feed_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<optim::EMA> ema_;
  optim::Schedule schedule_ = optim::Schedule::constant(0);
  std::unique_ptr<DeviceData> data_;  // null: batches come from the feed
  int64_t block_ = 1;                 // steps that the device is given at a time
  std::unique_ptr<TrainStep> step_;
  EvaluationBeside evaluation_;
  std::unique_ptr<StepsAhead> ahead_;
  double rate_ = 0;  // of the last step
  Result result_;
  std::unordered_set<std::string> left_out_;  // paths of result_.bad_samples
  std::string backend_, precision_note_;
  TrainStep::Summary plan_;
  std::vector<std::string> class_names_;  // of all outputs
  uint64_t fingerprint_ = 0;              // of the training data
  Clock::time_point started_;
  int64_t steps_per_epoch_ = 0, total_ = 0, epochs_ = 0;
  // By this process. Its first steps meet fresh memory and are left out of the mean.
  int64_t trained_samples_ = 0, trained_steps_ = 0;
  double trained_seconds_ = 0, waited_seconds_ = 0;
  struct {
    double seconds = 0, waited = 0;
    int64_t count = 0;  // one, or a block
  } first_steps_;
  std::vector<std::pair<std::string, double>> figures_;
  std::optional<Found> found_;       // for the --resume of the configuration
  std::optional<Checkpoint> start_;  // where the run goes on from
  bool goes_on_ = false;             // in the directory of that run
  Place place_;
  int64_t finite_at_ = -1;                     // the last step after which need_finite found all well
  std::vector<std::string> notes_, warnings_;  // about that
};

}  // namespace

Result train(const Config& config, Observer& observer, const std::vector<std::string>& argv,
             std::optional<Found> found) {
  return Run(config, observer, argv, std::move(found)).run();
}

}  // namespace freight::train
