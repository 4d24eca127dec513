// See record_internal.h.
#include <algorithm>
#include <ctime>
#include <filesystem>

#include "freight/base/cpu_info.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "freight/base/version.h"
#include "freight/io/file.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/job/signals.h"
#include "freight/train/config_fields.h"
#include "freight/train/progress.h"
#include "freight/train/record_internal.h"

namespace freight::train {

using nlohmann::json;

namespace {

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

std::string top1_text(const std::optional<double>& top1) {
  return top1 ? cat(" top1 ", fixed(*top1, 2)) : std::string();
}
std::string metric_text(const std::string& name, const std::optional<double>& metric) {
  return metric ? cat(" ", name, " ", fixed(*metric, 4)) : std::string();
}

json json_of(const Result& r, size_t bad_samples, const std::string& metric_name) {
  json j = {{"test_top1", nullptr},
            {"test_loss", nullptr},
            {"train_loss", r.train_loss},
            {"steps", r.steps},
            {"epochs", r.epochs},
            {"train_seconds", r.train_seconds},
            {"interrupted", r.interrupted()},
            {"bad_samples", bad_samples}};
  if (r.test.count > 0) j[r.measured + "_loss"] = r.test.loss;
  if (r.test.top1) j[r.measured + "_top1"] = *r.test.top1;
  if (r.test.metric) j[cat(r.measured, "_", metric_name)] = *r.test.metric;
  if (r.best_epoch > 0) j["best_epoch"] = r.best_epoch;
  if (r.ended == Ended::early) j["stopped_early"] = true;
  for (const metrics::Score& s : r.scores) {
    j["scores"][s.name] = {{"value", s.value}, {"low", nullptr}, {"high", nullptr}};
    if (s.interval != metrics::Score::Interval::known) continue;
    j["scores"][s.name]["low"] = s.low;
    j["scores"][s.name]["high"] = s.high;
  }
  return j;
}

json json_of(const job::StepTimeline& t) {
  json sums = json::array();
  for (const job::SumTime& s : t.sums) sums.push_back({{"begin_s", s.begin}, {"end_s", s.end}, {"bytes", s.bytes}});
  return {{"ranks", t.ranks}, {"samples", t.samples}, {"computed_s", t.computed}, {"step_s", t.step}, {"sums", sums}};
}

RunDir directory_of(const Prepared& p, const std::shared_ptr<RunLock>& lock) {
  const std::string& path = p.config.output_dir;
  if (p.start.in_its_directory) {
    const RunPosition place = p.start.place();
    const int64_t open = p.within_epoch() ? place.epoch : 0;
    return {path, RunDir::GoesOn{.step = place.step, .open_epoch = open}, lock};
  }
  return {path, p.config.overwrite, lock};
}

}  // namespace

RunRecorder::RunRecorder(const Prepared& run, std::vector<std::string> argv, bool heard)
    : run_(run), argv_(std::move(argv)), heard_(heard) {
  if (run.records()) dir_.reset(new RunDir(directory_of(run, run.start.lock)));
}

void RunRecorder::begin(const RunSummary& summary) {
  if (!dir_) return;
  planned_bytes_ = static_cast<int64_t>(summary.planned_bytes);
  held_out_ = summary.held_out;
  for (const auto* list : {&summary.warnings, &summary.notes}) {
    for (const std::string& line : *list) note_heard(line);
  }
  dir_->write_text("config.json", to_json(run_.config) + "\n");
  dir_->write_text("model.json", run_.description() + "\n");
  write_run("running", 0, nullptr);
}

void RunRecorder::left_out(size_t first) {
  if (!dir_) return;
  const std::vector<data::BadSample>& all = run_.left_out.samples();
  if (!listed_) {
    // A run that goes on finds again what it has listed before.
    listed_.emplace();
    const std::string path = dir_->file("bad_samples.tsv");
    if (io::file_exists(path)) {
      for (const std::string& row : split(io::read_text(path), '\n')) listed_->insert(row);
    }
  }
  std::string rows;
  for (size_t i = first; i < all.size(); ++i) {
    note_heard(cat("skipped: ", all[i].path, ": ", all[i].reason));
    const std::string row = cat(cell(all[i].path), "\t", cell(all[i].reason));
    if (listed_->insert(row).second) rows += row + "\n";
  }
  if (run_.config.on_bad_sample == "report" && !rows.empty()) dir_->append_text("bad_samples.tsv", rows);
}

void RunRecorder::trained(const StepReport& r, int64_t batches, double seconds) {
  if (!dir_) return;
  dir_->metrics().write({.step = r.total_step,
                         .epoch = static_cast<double>(r.epoch),
                         .split = "train",
                         .loss = r.mean_loss,
                         .top1 = r.top1,
                         .lr = r.lr,
                         .samples_per_s = r.samples_per_s,
                         .data_s = r.data_percent / 100.0 * seconds,
                         .step_s = seconds / static_cast<double>(std::max<int64_t>(batches, 1)),
                         .mem_bytes = planned_bytes_,
                         .metric_name = run_.metric_name(),
                         .metric = r.metric});
}

void RunRecorder::tested(const StepReport& r, const Evaluation& test) {
  if (!dir_) return;
  dir_->metrics().write({.step = r.total_step,
                         .epoch = static_cast<double>(r.epoch),
                         .split = held_out_,
                         .loss = test.loss,
                         .top1 = test.top1,
                         .samples_per_s = test.seconds > 0
                                              ? std::optional(static_cast<double>(test.count) / test.seconds)
                                              : std::nullopt,  // it was measured along with the fit
                         .metric_name = run_.metric_name(),
                         .metric = test.metric});
}

void RunRecorder::epoch(const EpochReport& e) {
  if (!dir_) return;
  const StepReport& r = e.train;
  const std::string own = run_.metric_name();
  const std::string test = e.test ? cat(" ", held_out_, " loss ", fixed(e.test->loss, 4), top1_text(e.test->top1),
                                        metric_text(own, e.test->metric))
                                  : std::string();
  note_heard(cat(run_.pass(), " ", epoch_text(r.epoch, r.epochs), " loss ", fixed(r.mean_loss, 4), top1_text(r.top1),
                 metric_text(own, r.metric), test, e.best ? " * best" : ""));
}

void RunRecorder::diverged(const RunPosition& place, double loss, double rate) {
  if (!dir_) return;
  dir_->metrics().write(
      {.step = place.step + 1, .epoch = static_cast<double>(place.epoch), .split = "train", .loss = loss, .lr = rate});
}

void RunRecorder::checkpoint(const RunPosition& place, const WholeStates& states, bool best) {
  if (!dir_) return;
  RunState state{place, states.kept, run_.config, run_.fingerprint, run_.config.model_ema > 0, states.given};
  dir_->checkpoint(run_.bundle(place), state, best, {run_.config.keep, run_.config.save_in_place});
}

std::string RunRecorder::saved_weights(const char* which) const {
  if (!dir_) return cat(which, run_.ranks ? " are with rank 0" : " are not saved");
  const std::string last = dir_->file("last/model.safetensors");
  if (!std::filesystem::exists(last)) return "no weights were saved yet";
  return cat(which, " are in ", last);
}

std::string RunRecorder::store_model(const RunPosition& place) {
  if (!dir_) return {};
  const std::string path = dir_->file("model.safetensors");
  const store::Bundle bundle = run_.bundle(place);
  if (bundle.net()) {  // its spec was checked before it was trained; without a spec form these are the weights alone
    io::save_safetensors(path, store::sealed(store::to_file(bundle)));
  } else {
    store::save_bundle(path, bundle);
  }
  return path;
}

void RunRecorder::end(const Result& result, const Figures& figures) {
  if (!dir_) return;
  write_run(result.interrupted() ? "interrupted" : "complete", result.interrupted() ? signals::exit_code() : 0, &result,
            figures);
}

// A fault here has mostly the same cause, and must not take the place of the first error.
void RunRecorder::fail_with(const Result& result, const char* what, ErrorKind kind) noexcept {
  if (!dir_) return;
  try {
    dir_->log(cat(heard_ ? "freight: error: " : "error: ", printable(what, "\n\t")));
    // After a data error the user fixes the data and starts the run again, which a directory without a model would
    // block.
    const bool begun = run_.start.in_its_directory || !RunDir::barely_begun(dir_->path());
    if (kind == ErrorKind::data && !begun) return dir_->discard();
    write_run("failed", static_cast<int>(kind), result.interrupted() ? &result : nullptr);
  } catch (const std::exception& second) {
    dir_->log(cat("error: the failure is not recorded: ", second.what()));
  }
}

void RunRecorder::write_run(const char* status, int exit_code, const Result* result, const Figures& figures) {
  const RunSummary summary = run_.summary();
  json j = {{"freight", version()},
            {"argv", argv_},
            {"host", host_name()},
            {"device", summary.device},
            {"threads", thread_count()},
            {"compute", run_.compute()},
            {"status", status},
            {"exit_code", exit_code},
            {"time", static_cast<int64_t>(std::time(nullptr))}};
  j["data"] = {{"name", run_.config.data},
               {"train", summary.train_count},
               {"test", summary.test_count},
               {"fingerprint", cat(run_.fingerprint)}};
  if (const RankShares* shares = run_.rank_shares()) j["ranks"] = json::parse(to_json(*shares));
  j["local"] = "contains paths of this machine: saved models, checkpoints and ONNX files do not";
  if (result) j["result"] = json_of(*result, run_.left_out.samples().size(), run_.metric_name());
  if (result && result->comparison) j["leaderboard"] = io::parse_json<json>(result->comparison->json, "leaderboard");
  if (result && result->timeline) j["timeline"] = json_of(*result->timeline);
  for (const auto& [name, value] : figures) j["plan"][name] = value;
  dir_->write_text("run.json", j.dump(2) + "\n");
}

}  // namespace freight::train
