// See train_terminal.h.
#include "train_terminal.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "batch_line.h"
#include "freight/base/log.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/version.h"
#include "freight/io/file.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/plan/memory_use.h"
#include "freight/train/leaderboard.h"
#include "freight/train/run_dir.h"
#include "train_result.h"

namespace freight::app {

Terminal::Terminal(const Shown& shown)
    : quiet_(shown.quiet), progress_(shown.progress && !shown.quiet ? Progress::Mode::automatic : Progress::Mode::off) {
  logging::set_copy([this](const std::string& line) { log(line); });
}

Terminal::~Terminal() { logging::set_copy({}); }

void Terminal::on_start(const train::RunSummary& s) {
  begin_log(s.output_dir);
  example_ = s.example;
  sample_set_ = s.sample_set;
  pass_ = s.pass;
  held_out_ = s.held_out;
  test_apart_ = s.test_apart;
  steps_ = s.has_plans;
  metric_name_ = s.metric_name;
  rate_ = s.unit == "row" ? "rows/s" : s.unit + "/s";
  squared_ = !s.has_plans && s.classes == 0 && !s.ranks;
  for (const std::string& warning : s.warnings) say(cat("warning: ", warning));
  print(cat("freight ", version(), " on ", s.device));
  const std::string what = s.classes > 0     ? cat(s.classes, s.multilabel ? " labels" : " classes")
                           : s.unit == "tok" ? "tokens of a corpus"
                           : s.ranks         ? "relevance labels to rank by"
                                             : "regression target";
  const std::string measured = s.test_count > 0 || s.has_plans
                                   ? cat(with_commas(s.test_count), " ", name_of_set(s.measured))
                                   : "no validation set";
  print(cat("data    ", s.data, ": ", with_commas(s.train_count), " train, ", measured, ", ", what));
  if (s.has_plans) {
    say_net(s);
  } else {
    print(cat("model   ", s.model, ": planned ", human_bytes(static_cast<double>(s.planned_bytes)),
              " (excluding data), seed ", s.seed));
  }
  for (const std::string& note : s.notes) print(cat("note    ", note));
  print(cat("output  ", s.output_dir));
}

void Terminal::say_net(const train::RunSummary& s) {
  print(cat("model   ", s.model, ": ", with_commas(s.parameters), " parameters, ", fixed(s.flops_per_step * 1e-9, 2),
            " GFLOP per step, planned peak ", human_bytes(static_cast<double>(s.planned_bytes))));
  print(cat("batch   ", batch_product(s, one_device ? 1 : s.devices), ", ", with_commas(s.steps), " steps, ", s.epochs,
            s.epochs == 1 ? " epoch, seed " : " epochs, seed ", s.seed));
  if (!shards.empty()) print(cat("shards  ", shards));
  if (!offload.empty()) print(cat("offload ", offload));
}

train::AfterStep Terminal::on_step(const train::StepReport& r) {
  if (steps_done) steps_done->store(r.total_step);
  if (!progress_.due()) return {};
  look_at_device();
  const plan::MemoryUse memory = plan::memory_use();
  const ProgressFigures figures{.pass = pass_.c_str(),
                                .epoch = r.epoch,
                                .epochs = r.epochs,
                                .step = r.step,
                                .steps = r.steps,
                                .loss_name = loss_name(),
                                .loss = shown_loss(r.loss),
                                .mean_loss = shown_loss(r.mean_loss),
                                .top1 = r.top1,
                                .lr = steps_ ? std::optional(r.lr) : std::nullopt,
                                .samples_per_s = r.samples_per_s,
                                .unit = rate_.c_str(),
                                .data_percent = steps_ ? std::optional(r.data_percent) : std::nullopt,
                                .memory_bytes = memory.resident,
                                .memory_limit_bytes = memory.total,
                                .eta_s = steps_ ? std::optional(r.eta_s) : std::nullopt};
  update(progress_text(figures, progress_.width()));
  return {};
}

void Terminal::on_evaluation_progress(int64_t done, int64_t total) {
  if (progress_.due()) update(cat("evaluating  ", with_commas(done), "/", with_commas(total)));
}

void Terminal::on_bad_sample(const std::string& path, const std::string& reason) {
  say(cat("warning: skipped: ", path, ": ", reason));
}

train::AfterStep Terminal::on_comparison(const std::string& what) {
  if (progress_.due()) update(what);
  return {};
}

void Terminal::on_compared(const train::Comparison& comparison) {
  pass_ = comparison.pass;
  for (const std::string& line : comparison.lines) print(line);
}

void Terminal::on_epoch(const train::EpochReport& e) {
  look_at_device();
  const train::StepReport& r = e.train;
  last_epoch_ = r.epoch;
  if (e.best) starred_epoch_ = r.epoch;
  std::string text =
      cat(pass_, " ", epoch_text(r.epoch, r.epochs), "  ", loss_name(), " ", figure(shown_loss(r.mean_loss)));
  if (r.top1) text += cat("  top1 ", fixed(*r.top1, 2));
  if (e.test) text += cat("  ", held_out_, " ", loss_name(), " ", figure(shown_loss(e.test->loss)));
  if (e.test && tokens()) text += cat("  ", held_out_, " perplexity ", figure(std::exp(e.test->loss)));
  if (e.test && e.test->top1) text += cat("  ", held_out_, " top1 ", fixed(*e.test->top1, 2));
  if (e.test && e.test->metric && !metric_name_.empty()) {
    text += cat("  ", held_out_, " ", metric_name_, " ", figure(*e.test->metric));
  }
  text += cat("  ", with_commas(static_cast<int64_t>(r.samples_per_s)), " ", rate_);
  if (steps_) text += cat("  data ", fixed(r.data_percent, 0), "%");
  text += cat("  ", fixed(e.seconds, 1), " s", e.best ? "  * best" : "");
  print(text);
  if (!e.slow.empty()) print(cat("warning: ", e.slow));
  if (r.data_percent > 20 && e.seconds > 1)  // a short epoch, as of kept features, has nothing to gain
    print(cat("warning: ", fixed(r.data_percent, 0), "% of the time was spent waiting for data; try more --workers"));
}

train::Figures Terminal::figures(const train::Result& result) {
  look_at_device();
  outcome.measured_bytes = device ? device_peak_ : static_cast<double>(plan::memory_use().peak - resident_before);
  outcome.measured_seconds = result.step_seconds;
  train::Figures all = {{"planned_bytes", outcome.planned_bytes}, {"measured_bytes", outcome.measured_bytes}};
  if (outcome.planned_seconds > 0) all.emplace_back("planned_step_seconds", outcome.planned_seconds);
  if (outcome.measured_seconds > 0) all.emplace_back("measured_step_seconds", outcome.measured_seconds);
  if (outcome.floor.flops > 0) {
    all.emplace_back("floor_flops", outcome.floor.flops);
    all.emplace_back("floor_bytes", outcome.floor.bytes);
  }
  constexpr double kHour = 3600, kLeast = 0.6;  // of the rated power, as in plan/estimate.cpp
  const double rated = outcome.planned_seconds * static_cast<double>(result.steps) / kHour * energy_.rated_watts();
  if (rated > 0) {
    all.emplace_back("planned_watt_hours_low", kLeast * rated);
    all.emplace_back("planned_watt_hours_high", rated);
  }
  if (const std::optional<double> used = energy_.watt_hours()) all.emplace_back("measured_watt_hours", *used);
  return all;
}

void Terminal::compare(const std::string& output_dir) {
  for (const std::string& line : plan::comparison(outcome)) print(line);
  if (plan::exceeds_plan(outcome)) {
    print(cat("warning: the run used more memory than planned, which is a bug in Freight; please send ", output_dir,
              "/run.json, config.json and model.json"));
  }
}

void Terminal::print(const std::string& text) {
  if (quiet_) return log(printable(text, "\n\t"));
  say(text);
}

void Terminal::result(const std::string& text) {
  std::printf("%s\n", text.c_str());
  log(text);
}

void Terminal::say(const std::string& text) {
  log(printable(text, "\n\t"));
  if (progress_.mode() == Progress::Mode::off) {
    std::fprintf(stderr, "%s\n", printable(text, "\n\t").c_str());
  } else {
    progress_.line(text);
  }
}

// Writes the lines from before the run's directory existed first.
void Terminal::begin_log(const std::string& dir) {
  log_dir_ = dir;
  for (const std::string& line : std::exchange(early_, {})) log(line);
}

// Any thread may call it.
void Terminal::log(const std::string& line) {
  if (!logs) return;
  const std::lock_guard lock(log_mutex_);
  if (log_dir_.empty()) {
    early_.push_back(line);
  } else {
    train::RunDir::add_to_log(log_dir_, line);
  }
}

void Terminal::update(const std::string& text) {
  if (progress_.mode() == Progress::Mode::lines && progress_.due()) log(text);
  progress_.update(text);
}

// The plan of a device with its own memory counts only that memory. Arenas stay allocated, so checking it now and then
// is sufficient.
void Terminal::look_at_device() {
  if (device)
    device_peak_ = std::max(device_peak_, static_cast<double>(free_before) - static_cast<double>(device->free_bytes()));
}

double Terminal::shown_loss(double loss) const { return squared_ ? std::sqrt(loss) : loss; }

// "1,248 steps" for a network, "135 rounds" or "1 fit" for a learner of tables.
std::string Terminal::counted(int64_t n) const {
  return cat(with_commas(n), " ", steps_ ? "step" : pass_, n == 1 ? "" : "s");
}

void Terminal::print_json(const train::Result& r) {
  nlohmann::ordered_json j = {{"test_top1", nullptr},
                              {"test_loss", nullptr},
                              {"train_loss", r.train_loss},
                              {"steps", r.steps},
                              {"epochs", r.epochs},
                              {"train_seconds", r.train_seconds},
                              {"total_seconds", r.total_seconds},
                              {"samples_per_second", r.samples_per_second},
                              {"parameters", r.parameters},
                              {"model", r.model_path},
                              {"output_dir", r.output_dir},
                              {"interrupted", r.interrupted()},
                              {"bad_samples", r.bad_samples.size()},
                              {"planned_bytes", static_cast<int64_t>(outcome.planned_bytes)},
                              {"measured_bytes", static_cast<int64_t>(outcome.measured_bytes)},
                              {"planned_step_seconds", nullptr},
                              {"measured_step_seconds", nullptr}};
  if (outcome.planned_seconds > 0) j["planned_step_seconds"] = outcome.planned_seconds;
  if (outcome.measured_seconds > 0) j["measured_step_seconds"] = outcome.measured_seconds;
  add_figures(r, tokens(), j);
  if (r.comparison) j["leaderboard"] = io::parse_json<nlohmann::ordered_json>(r.comparison->json, "leaderboard");
  result(j.dump());
}

void Terminal::print(const train::Result& r, const std::string& resume) {
  if (r.interrupted()) {
    result(cat("stopped after ", counted(r.steps), "; the model so far is in ", r.model_path));
    if (steps_) result(cat("resume  ", resume));
    return;
  }
  if (!r.bad_samples.empty()) {
    const size_t n = r.bad_samples.size();
    result(cat("skipped  ", n, " sample", n == 1 ? "" : "s", " that cannot be read; freight data verify lists all"));
  }
  std::string effort = cat(counted(r.steps), " in ", fixed(r.train_seconds, 1), " s");
  if (steps_ && r.samples_per_second > 0) {
    effort += cat(", ", with_commas(static_cast<int64_t>(r.samples_per_second)), " samples/s");
  }
  result(result_line(r, tokens(), effort));
  if (r.comparison && !r.comparison->best.empty()) result(cat("best    ", r.comparison->best));
  for (const std::string& line : r.decisions) result(line);
  if (r.best_epoch > 0) result(best_line(r));
  const std::string best = r.output_dir + "/best/model.safetensors";
  if (steps_ && r.best_epoch == 0 && starred_epoch_ < last_epoch_ && io::file_exists(best)) {
    result(cat("best    epoch ", starred_epoch_, ": ", best, " (--metric or --early-stop makes it the model)"));
  }
  std::string split;
  if (r.test.count == 0) {
    split = " --split train";
  } else if (test_apart_) {
    split = cat(" --split ", held_out_);  // what training measured
  }
  result(cat("model   ", r.model_path));
  const std::string model = shell_word(r.model_path);
  result(cat("try     freight eval --weights ", model, plugin_flags, data_flags, split));
  if (tokens()) {
    result(cat("        freight generate ", model, plugin_flags, " --prompt \"...\""));
  } else if (!example_.empty()) {
    const std::string before = sample_set_.empty() ? "" : cat("freight data sample ", sample_set_, " && ");
    result(cat("        ", before, "freight predict ", model, plugin_flags, " ", example_));
  }
}

}  // namespace freight::app
