// `freight train`: a recipe, changed by flags, becomes a run. Progress goes to stderr, the result to stdout.
#include <cstdio>
#include <new>

#include <nlohmann/json.hpp>

#include "command.h"
#include "config_options.h"
#include "freight/base/cpu_info.h"
#include "freight/base/device_memory.h"
#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/version.h"
#include "freight/plan/batch.h"
#include "freight/plan/estimate.h"
#include "freight/plan/preflight.h"
#include "freight/run/plan.h"
#include "freight/train/progress.h"
#include "freight/train/run_dir.h"
#include "freight/train/signals.h"
#include "freight/train/trainer.h"
#include "memory_size.h"
#include "memory_use.h"
#include "options.h"

namespace freight::app {
namespace {

// Everything the command line says besides the configuration.
struct Flags {
  bool json = false, progress = true;
  std::string fit = "refuse";
  std::string device_memory;  // "4GiB"; "": what is free
  bool choose_batch = false;
  bool dry_run = false;
};

// All options, on top of what `c` holds.
void declare(Options& o, train::Config& c, Flags& f) {
  o.positional("data", &c.data, "a named set (freight data list) or a directory", false);
  declare_config(o, c);
  o.accept("--batch-size", "auto", &f.choose_batch, "auto: the largest that is good, tried with one real step");
  o.add("--json", &f.json, "print the result as one JSON line");
  o.add("--progress", &f.progress, "the progress line on stderr");
  o.group("Memory (docs/planner.md)");
  o.add("--fit", &f.fit,
        "a run that does not fit the memory is refused; auto adapts it by the cheapest sufficient means; off does not "
        "look",
        {.one_of = {"refuse", "auto", "off"}});
  o.add("--device-memory", &f.device_memory, "what the run may take of the device's memory (default: what is free)",
        {.value = "4GiB", .aliases = {"--memory-limit"}});
  o.enable_config();
}

// A run that is better made with other flags: thrown to start over.
struct Restart {
  std::string why;
  std::vector<std::string> flags;
};

// Shows a run on the terminal.
class Terminal : public train::Observer {
 public:
  Terminal(const Flags& flags, bool quiet)
      : flags_(flags),
        quiet_(quiet),
        progress_(flags.progress && !quiet ? Progress::Mode::automatic : Progress::Mode::off) {}

  double device_memory() override { return memory_size("--device-memory", flags_.device_memory); }
  ArenaLimit arena_limit(const train::Planned& p) override {
    unlimited_ = plan::draft(p);
    plan::Rates rates;
    const bool timed = is_timed(p, rates);
    DeviceSpeed speed = plan::speed_of(timed ? &rates : nullptr);
    speed.beside = unlimited_.beside;
    return {.offload = {}, .bytes = plan::arena_within(unlimited_, memory(p).device), .speed = speed};
  }
  void on_least(double weights, double states, const DeviceMemory* device) override {
    // Host memory beside the device's may take the optimizer's states.
    const double least = device ? weights : weights + states, limit = device_memory();
    const double free = limit > 0 ? limit
                        : device  ? static_cast<double>(device->free_bytes())
                                  : static_cast<double>(cpu_info().memory_available_bytes);
    if (flags_.fit == "off" || least <= free) return;
    fail(ErrorKind::capacity, "train", "the run does not fit: got ", human_bytes(free), " free, need more than ",
         human_bytes(least), " for the weights", device ? "" : " and what the optimizer keeps",
         "; no batch size, accumulation or recomputation would fit");
  }
  void on_planned(const train::Planned& p) override {
    plan::Rates rates;
    const bool timed = is_timed(p, rates);
    if (flags_.choose_batch) choose_batch(p, timed ? &rates : nullptr);
    plan::Draft draft;
    if (flags_.fit == "off") {
      draft = plan::draft(p);
    } else {
      plan::Fit fit = plan::check_fit(p, memory(p));
      if (!fit.fits && flags_.fit == "auto" && !fit.flags.empty() && fit.changes.empty()) {
        throw Restart{"does not fit the memory as it is", fit.flags};
      }
      if (!fit.fits) throw plan::refusal(fit);
      draft = std::move(fit.draft);
    }
    if (draft.options.offload != Offload::none) {
      offload_ = plan::offload_text(unlimited_, draft, timed ? &rates : nullptr, draft.options.speed);
    }
    // On a processor what was offloaded is measured too.
    outcome_ = {.planned_bytes =
                    static_cast<double>(draft.total() + (draft.beside ? 0 : draft.part(plan::Part::host)))};
    if (timed) outcome_.planned_seconds = plan::step_seconds(draft, rates).middle();
    before_ = memory_use().resident;
  }
  std::vector<std::pair<std::string, double>> kept_figures(const train::Result& r) override {
    outcome_.measured_bytes = static_cast<double>(memory_use().peak - before_);
    outcome_.measured_seconds = r.step_seconds;
    trained_ = r.samples_per_second > 0;
    std::vector<std::pair<std::string, double>> figures = {{"planned_bytes", outcome_.planned_bytes},
                                                           {"measured_bytes", outcome_.measured_bytes}};
    if (outcome_.planned_seconds > 0) figures.emplace_back("planned_step_seconds", outcome_.planned_seconds);
    if (outcome_.measured_seconds > 0) figures.emplace_back("measured_step_seconds", outcome_.measured_seconds);
    return figures;
  }
  // What the run took, against the plan; its figures are in run.json.
  void compare(const std::string& output_dir) {
    if (quiet_ || !trained_) return;
    for (const std::string& line : plan::comparison(outcome_)) say(line);
    if (plan::exceeds_plan(outcome_)) {
      say(cat("warning: the run took more memory than planned, which is a defect of Freight; please send ", output_dir,
              "/run.json, config.json and model.json"));
    }
  }
  const plan::Outcome& outcome() const { return outcome_; }

  bool wants_run() override { return !flags_.dry_run; }
  void on_start(const train::Start& s) override {
    unit_ = s.unit;
    rate_ = unit_ + "/s";
    for (const std::string& warning : s.warnings) say(cat("warning: ", warning));
    if (quiet_) return;
    say(cat("freight ", version(), " on ", s.device));
    const std::string what = s.classes > 0     ? cat(s.classes, " classes")
                             : s.unit == "tok" ? "tokens of a corpus"
                                               : "values to regress";
    say(cat("data    ", s.data, ": ", with_commas(s.train_count), " train, ", with_commas(s.test_count), " test, ",
            what));
    say(cat("model   ", s.model, ": ", with_commas(s.parameters), " parameters, ", fixed(s.flops_per_step * 1e-9, 2),
            " GFLOP per step, planned peak ", human_bytes(static_cast<double>(s.planned_bytes))));
    const int64_t part = (s.batch_size + s.grad_accum - 1) / s.grad_accum;
    say(cat("batch   ", s.batch_size, " = 1 device x ", part, s.grad_accum > 1 ? cat(" x accum ", s.grad_accum) : "",
            ", ", with_commas(s.steps), " steps, ", s.epochs, s.epochs == 1 ? " epoch, seed " : " epochs, seed ",
            s.seed));
    if (!offload_.empty()) say(cat("offload ", offload_));
    for (const std::string& note : s.notes) say(cat("note    ", note));
    say(cat("output  ", s.output_dir));
  }
  const std::string& unit() const { return unit_; }
  void say(const std::string& text) {
    if (progress_.mode() == Progress::Mode::off) {
      std::fprintf(stderr, "%s\n", printable(text, "\n\t").c_str());
    } else {
      progress_.line(text);
    }
  }
  bool wants_step() override { return progress_.due(); }
  void on_step(const train::StepReport& r) override {
    const MemoryUse memory = memory_use();
    const ProgressFigures figures{.epoch = r.epoch,
                                  .epochs = r.epochs,
                                  .step = r.step,
                                  .steps = r.steps,
                                  .loss = r.loss,
                                  .mean_loss = r.mean_loss,
                                  .top1 = r.top1,
                                  .lr = r.lr,
                                  .samples_per_s = r.samples_per_s,
                                  .unit = rate_.c_str(),
                                  .data_percent = r.data_percent,
                                  .memory_bytes = memory.resident,
                                  .memory_limit_bytes = memory.total,
                                  .eta_s = r.eta_s};
    progress_.update(progress_text(figures, progress_.width()));
  }
  void on_evaluation_progress(int64_t done, int64_t total) override {
    if (progress_.due()) progress_.update(cat("evaluating  ", with_commas(done), "/", with_commas(total)));
  }
  void on_bad_sample(const std::string& path, const std::string& reason) override {
    say(cat("warning: left out: ", path, ": ", reason));
  }
  void on_epoch(const train::EpochReport& e) override {
    const train::StepReport& r = e.train;
    std::string text = cat("epoch ", r.epoch, "/", r.epochs, "  loss ", fixed(r.mean_loss, 4));
    if (r.top1) text += cat("  top1 ", fixed(*r.top1, 2));
    if (e.test) text += cat("  test loss ", fixed(e.test->loss, 4));
    if (e.test && e.test->top1) text += cat("  test top1 ", fixed(*e.test->top1, 2));
    text += cat("  ", with_commas(static_cast<int64_t>(r.samples_per_s)), " ", rate_, "  data ",
                fixed(r.data_percent, 0), "%  ", fixed(e.seconds, 1), " s", e.best ? "  * best" : "");
    if (!quiet_) say(text);
    if (r.data_percent > 20 && !quiet_)
      say(cat("warning: ", fixed(r.data_percent, 0), "% of the time went into waiting for data; try --workers"));
  }

 private:
  plan::Memory memory(const train::Planned& p) const {
    return plan::memory_for(p, memory_size("--device-memory", flags_.device_memory));
  }
  static bool is_timed(const train::Planned& p, plan::Rates& rates) {
    return p.step[0].plan->options().backend == "cpu" && plan::own_rates(rates);
  }
  // Chooses from the plan, starts over with that, tries a step, and starts over for the run itself: what a trial drew
  // and allocated is gone then.
  void choose_batch(const train::Planned& p, const plan::Rates* rates) {
    const int64_t size = p.inputs.shape[0];
    if (tried_ == size) return;
    if (chosen_ == 0) {
      const plan::GoodBatch good = plan::good_batch(p, memory(p).device, rates);
      chosen_ = good.size;
      why_ = good.why;
      if (chosen_ != size) throw Restart{cat("with more than ", chosen_, " ", why_), {"--batch-size", cat(chosen_)}};
    }
    const int64_t before = memory_use().resident;
    double seconds = 0;
    try {
      seconds = plan::try_step(p);
    } catch (const std::bad_alloc&) {
      seconds = -1;
    }
    const auto took = static_cast<double>(memory_use().peak - before);
    if (seconds < 0 || took > memory(p).device) {
      if (size == 1) throw Error(ErrorKind::capacity, "train", "not even one sample fits the memory");
      chosen_ = size / 2;
      throw Restart{cat("a step of ", size, " took more memory than there is"), {"--batch-size", cat(chosen_)}};
    }
    tried_ = size;
    throw Restart{cat("a step of ", size, " was tried: ", fixed(seconds * 1e3, 1), " ms"), {"--batch-size", cat(size)}};
  }

  int64_t chosen_ = 0, tried_ = 0;  // batch sizes
  std::string why_, offload_;
  plan::Draft unlimited_;  // of a run that offloads
  const Flags& flags_;
  bool quiet_;
  plan::Outcome outcome_;
  bool trained_ = false;  // in this process
  int64_t before_ = 0;
  std::string unit_ = "img", rate_ = "img/s";
  Progress progress_;
};

void print_result(const train::Result& r, const Flags& flags, const Terminal& terminal) {
  const std::string& unit = terminal.unit();
  if (flags.json) {
    nlohmann::ordered_json j = {{"test_top1", nullptr},
                                {"test_loss", r.test.loss},
                                {"train_loss", r.train_loss},
                                {"steps", r.steps},
                                {"epochs", r.epochs},
                                {"train_seconds", r.train_seconds},
                                {"total_seconds", r.total_seconds},
                                {"samples_per_second", r.samples_per_second},
                                {"parameters", r.parameters},
                                {"model", r.model_path},
                                {"output_dir", r.output_dir},
                                {"interrupted", r.interrupted},
                                {"bad_samples", r.bad_samples.size()},
                                {"planned_bytes", static_cast<int64_t>(terminal.outcome().planned_bytes)},
                                {"measured_bytes", static_cast<int64_t>(terminal.outcome().measured_bytes)},
                                {"planned_step_seconds", nullptr},
                                {"measured_step_seconds", nullptr}};
    if (terminal.outcome().planned_seconds > 0) j["planned_step_seconds"] = terminal.outcome().planned_seconds;
    if (terminal.outcome().measured_seconds > 0) j["measured_step_seconds"] = terminal.outcome().measured_seconds;
    if (r.test.top1) j["test_top1"] = *r.test.top1;
    std::printf("%s\n", j.dump().c_str());
    return;
  }
  if (r.interrupted) {
    std::printf("stopped after %s steps; the weights so far are in %s\n", with_commas(r.steps).c_str(),
                r.model_path.c_str());
    return;
  }
  if (!r.bad_samples.empty()) {
    const size_t n = r.bad_samples.size();
    std::printf("left out %zu sample%s that cannot be read; freight data verify lists all\n", n, n == 1 ? "" : "s");
  }
  std::string effort = cat(with_commas(r.steps), " steps in ", fixed(r.train_seconds, 1), " s");
  if (r.samples_per_second > 0) {
    effort += cat(", ", with_commas(static_cast<int64_t>(r.samples_per_second)), " samples/s");
  }
  if (r.test.top1) {
    std::printf("test accuracy %.2f %%  (loss %.4f, %s)\n", *r.test.top1, r.test.loss, effort.c_str());
  } else {
    std::printf("test loss %.6g  (%s)\n", r.test.loss, effort.c_str());
  }
  std::printf("model   %s\n", r.model_path.c_str());
  const std::string model = shell_word(r.model_path);
  std::printf("try     freight eval --weights %s\n", model.c_str());
  if (unit == "tok") {
    std::printf("        freight generate %s --prompt \"...\"\n", model.c_str());
    return;
  }
  const char* sample = unit == "doc" ? "--text \"...\"" : r.test.top1 ? "IMAGE.png" : "SAMPLE.npy";
  std::printf("        freight predict %s %s\n", model.c_str(), sample);
}

// What --resume means; `fresh` becomes what the run was made with, or the recipe where there is none yet. `apply` sets
// the flags on top of a configuration.
template <class F>
train::Found look_for(const train::Config& probe, train::Config& fresh, F apply) {
  std::string dir = probe.output_dir;
  if (probe.resume == "auto") {
    fresh = train::recipe(probe.data, probe.recipe, probe.data_dir);
    train::Config asked = fresh;
    apply(asked);
    if (dir.empty()) dir = train::usual_dir(asked);
  }
  train::Found found = train::find_checkpoint(probe.resume, dir);
  if (found.checkpoint) fresh = found.checkpoint->config;
  return found;
}

// What is for a new run alone does not go with one that goes on: it would be passed over. With `auto` it is for the
// case that there is nothing to go on from.
void check_resume(const train::Config& config, const train::Found& found, const Options& o) {
  const bool other_weights = o.given("--weights") && !config.weights.empty() &&
                             !(found.checkpoint && found.checkpoint->config.weights == config.weights);
  if (config.resume != "auto") {
    if (other_weights) {
      fail(ErrorKind::usage, "--weights",
           "does not go with --resume: a run goes on with its own weights; without "
           "--resume a new run starts from ",
           config.weights);
    }
    if (o.given("--overwrite") && config.overwrite) {
      fail(ErrorKind::usage, "--overwrite",
           "does not go with --resume: a run goes on in its directory; without "
           "--resume a new one takes its place");
    }
    return;
  }
  if (!found.checkpoint) return;
  const auto warn = [&](const std::string& what) {
    std::fprintf(stderr, "warning: %s: the run goes on from %s\n", printable(what).c_str(),
                 printable(found.checkpoint->dir).c_str());
  };
  if (other_weights) warn(cat("--weights ", config.weights, " is not read"));
  if (o.given("--overwrite") && config.overwrite) warn("--overwrite replaces nothing");
}

// Trains; where the run asks for other flags, once more with these.
train::Result train_fitting(train::Config& config, Terminal& terminal, const Args& args,
                            std::optional<train::Found> found) {
  for (;;) {
    try {
      return train::train(config, terminal, args, std::move(found));
    } catch (const Restart& restart) {
      terminal.say(cat("note    ", restart.why, ": going on with ", join(restart.flags, " ")));
      Options o("train", "");
      declare_config(o, config);
      o.parse(restart.flags);
      found.reset();
    }
  }
}

}  // namespace

int train_command(const Args& args) {
  // The recipe decides the defaults, and the data set decides the recipe: read those two first.
  train::Config probe;
  Flags flags;
  const auto options = [](train::Config& c, Flags& f) {
    auto o = std::make_unique<Options>("train", "Trains a model on a data set and stores it.", "[DATA] [options]",
                                       "Without arguments: trains convnet on the built-in digits.\n"
                                       "  freight train mnist --model lenet --epochs 5\n"
                                       "  freight train --data cifar10 --set optimizer.lr=0.05\n"
                                       "  freight train --data FOLDER --train-crop-size 128\n"
                                       "  freight train --data sst2 --model textcnn\n"
                                       "  freight train --data reviews.csv --text-column body --label-column stars");
    declare(*o, c, f);
    return o;
  };
  {
    const auto first = options(probe, flags);
    first->peek(args);
    if (first->given("--resume") && probe.resume.empty()) {
      fail(ErrorKind::usage, "--resume", "got an empty value, need the path of a run, or auto");
    }
  }
  signals::install();
  train::Config config;
  std::optional<train::Found> found;
  if (probe.resume.empty()) {
    config = train::recipe(probe.data, probe.recipe, probe.data_dir);
  } else {
    found = look_for(probe, config, [&](train::Config& c) { options(c, flags)->peek(args); });
  }
  flags = {};
  if (!probe.model.empty()) train::set_model(config, probe.model);
  const auto o = options(config, flags);
  if (o->parse(args) == Options::Outcome::done) return 0;
  if (flags.choose_batch && !config.resume.empty()) {
    fail(ErrorKind::usage, "--batch-size", "auto is for new runs: one that goes on keeps its batch");
  }
  if (found) check_resume(config, *found, *o);
  train::validate(config);
  memory_size("--device-memory", flags.device_memory);
  flags.dry_run = o->dry_run();
  Terminal terminal(flags, o->quiet());
  const train::Result result = train_fitting(config, terminal, args, std::move(found));
  if (flags.dry_run) {
    std::printf("%s\n", o->config_json().c_str());
    return 0;
  }
  terminal.compare(result.output_dir);
  print_result(result, flags, terminal);
  return result.interrupted ? signals::exit_code() : 0;
}

}  // namespace freight::app
