// See run_record.h.
#include "freight/report/run_record.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/io/file.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"

namespace freight::report {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

constexpr size_t kLongestSpec = 200'000;
constexpr size_t kMostSums = 10'000;  // of one step

std::string text_of(const Json& v) {
  return v.is_string() ? v.get<std::string>() : v.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void flatten(const Json& j, const std::string& prefix, Facts& out) {
  for (const auto& [key, value] : j.items()) {
    if (value.is_object()) {
      flatten(value, cat(prefix, key, "."), out);
    } else {
      out.emplace_back(prefix + key, text_of(value));
    }
  }
}

// A JSON object in a file of the run; empty, with a note, if it cannot be read.
Json object_in(const RunRecord& run, const char* name, std::vector<std::string>& notes) {
  const std::string path = cat(run.path, "/", name);
  if (!io::file_exists(path)) {
    notes.push_back(cat(name, " is missing"));
    return Json::object();
  }
  try {
    Json j = io::read_json<Json>(path, ErrorKind::data);
    if (j.is_object()) return j;
    notes.push_back(cat(name, " is damaged: no JSON object"));
  } catch (const Error& e) {
    notes.push_back(cat(name, " is damaged: ", e.message()));
  }
  return Json::object();
}

std::string text(const Json& j, const char* key) {
  const auto it = j.find(key);
  return it == j.end() || it->is_null() ? std::string() : text_of(*it);
}

double number(const Json& j, const char* key) {
  const auto it = j.find(key);
  return it == j.end() || !it->is_number() ? 0 : it->get<double>();
}

int64_t integer(const Json& j, const char* key) {
  const double v = number(j, key);
  return std::fabs(v) < 9e15 ? static_cast<int64_t>(v) : 0;
}

Json part(const Json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_object() ? *it : Json::object();
}

// Reads a step's times; empty unless each sum begins after the one before it and ends within the step.
StepTimes step_times_in(const Json& j) {
  StepTimes t{
      .ranks = integer(j, "ranks"), .computed = number(j, "computed_s"), .step = number(j, "step_s"), .sums = {}};
  const auto it = j.find("sums");
  if (it == j.end() || !it->is_array() || it->size() > kMostSums || !(t.computed >= 0 && t.computed <= t.step))
    return {};
  double at = 0;
  for (const Json& s : *it) {
    if (!s.is_object()) return {};
    const StepTimes::Sum sum{number(s, "begin_s"), number(s, "end_s"), number(s, "bytes")};
    if (!(sum.begin >= at && sum.end >= sum.begin && sum.end <= t.step && sum.bytes >= 0)) return {};
    at = sum.end;
    t.sums.push_back(sum);
  }
  return t;
}

std::vector<metrics::Score> scores_in(const Json& j) {
  std::vector<metrics::Score> scores;
  for (const auto& [name, of] : j.items()) {
    if (!of.is_object() || !of.contains("value") || !of["value"].is_number()) continue;
    metrics::Score s{.name = name, .value = number(of, "value"), .interval = metrics::Score::Interval::none};
    s.low = s.high = s.value;
    if (of.contains("low") && of["low"].is_number() && of.contains("high") && of["high"].is_number()) {
      s.low = number(of, "low");
      s.high = number(of, "high");
      s.interval = metrics::Score::Interval::known;
    }
    scores.push_back(std::move(s));
  }
  return scores;
}

void read_outcome(RunRecord& run, const Json& j) {
  run.status = text(j, "status");
  run.exit_code = integer(j, "exit_code");
  run.version = text(j, "freight");
  run.host = text(j, "host");
  run.device = text(j, "device");
  run.compute = text(j, "compute");
  run.threads = integer(j, "threads");
  run.time = number(j, "time");
  const Json data = part(j, "data"), result = part(j, "result");
  run.data = text(data, "name");
  run.fingerprint = text(data, "fingerprint");
  run.train_count = integer(data, "train");
  run.test_count = integer(data, "test");
  run.steps = integer(result, "steps");
  run.bad_samples = integer(result, "bad_samples");
  run.train_seconds = number(result, "train_seconds");
  const auto numbers = [](const Json& of, Facts& to) {
    for (const auto& [name, value] : of.items()) {
      if (value.is_number()) to.emplace_back(name, text_of(value));
    }
  };
  numbers(result, run.result);
  run.scores = scores_in(part(result, "scores"));
  const Json plan = part(j, "plan");
  numbers(plan, run.plan);
  run.planned_bytes = number(plan, "planned_bytes");
  run.measured_bytes = number(plan, "measured_bytes");
  run.timeline = step_times_in(part(j, "timeline"));
  run.leaderboard = train::leaderboard_in(part(j, "leaderboard").dump(-1, ' ', false, Json::error_handler_t::replace));
  if (const auto argv = j.find("argv"); argv != j.end() && argv->is_array()) {
    run.command = "freight train";
    for (const Json& a : *argv) run.command += " " + shell_word(text_of(a));
  }
}

void read_rows(RunRecord& run) {
  const std::string path = run.path + "/metrics.jsonl";
  if (!io::file_exists(path)) {
    run.notes.emplace_back("metrics.jsonl is missing");
    return;
  }
  io::MetricsFile file = io::read_metrics(path);
  run.rows = std::move(file.rows);
  std::stable_sort(run.rows.begin(), run.rows.end(),
                   [](const io::Metrics& a, const io::Metrics& b) { return a.step < b.step; });
  const size_t damaged = file.damaged.size();
  if (damaged > 0) {
    run.notes.push_back(cat(damaged, damaged == 1 ? " line" : " lines", " of metrics.jsonl ",
                            damaged == 1 ? "is not a row of metrics and was skipped: line "
                                         : "are not rows of metrics and were skipped: the first is line ",
                            file.damaged.front()));
  }
}

}  // namespace

const std::string& RunRecord::config_value(const std::string& key) const {
  static const std::string kNone;
  for (const auto& [name, value] : config) {
    if (name == key) return value;
  }
  return kNone;
}

double RunRecord::plan_figure(const std::string& name) const {
  for (const auto& [key, value] : plan) {
    if (key == name) return parse_number<double>(value).value_or(0);
  }
  return 0;
}

std::vector<std::string> RunRecord::splits() const {
  std::vector<std::string> all;
  for (const io::Metrics& row : rows) {
    if (std::find(all.begin(), all.end(), row.split) == all.end()) all.push_back(row.split);
  }
  return all;
}

std::vector<const io::Metrics*> RunRecord::rows_of(const std::string& split) const {
  std::vector<const io::Metrics*> all;
  for (const io::Metrics& row : rows) {
    if (row.split == split) all.push_back(&row);
  }
  return all;
}

const io::Metrics* RunRecord::best() const {
  std::error_code ignored;  // of a run without checkpoints
  const std::string checkpoint = fs::read_symlink(path + "/best", ignored).filename();
  for (const io::Metrics& row : rows) {
    if (row.split != "train" && checkpoint == cat("step-", row.step)) return &row;
  }
  const io::Metrics* best = nullptr;
  for (const io::Metrics& row : rows) {
    if (row.split == "train" || !row.loss || !std::isfinite(*row.loss)) continue;
    const auto score = [](const io::Metrics& m) { return m.top1.value_or(-*m.loss); };
    if (!best || score(row) > score(*best)) best = &row;
  }
  return best;
}

RunRecord read_run(const std::string& path) {
  RunRecord run;
  run.path = path;
  while (run.path.size() > 1 && run.path.back() == '/') run.path.pop_back();
  std::error_code error;
  if (!fs::exists(path, error)) fail(ErrorKind::data, path, "there is no such directory; expected that of a run");
  if (!fs::is_directory(path, error)) {
    fail(ErrorKind::data, path, "is a file, expected the directory of a run, which freight train -o DIR creates");
  }
  if (!io::file_exists(run.path + "/run.json") && !io::file_exists(run.path + "/metrics.jsonl")) {
    fail(ErrorKind::data, path, "not the directory of a run: it has neither run.json nor metrics.jsonl");
  }
  read_outcome(run, object_in(run, "run.json", run.notes));
  flatten(object_in(run, "config.json", run.notes), "", run.config);
  read_rows(run);
  if (io::file_exists(run.path + "/model.json")) {
    const bool sound = !object_in(run, "model.json", run.notes).empty();
    if (sound) run.spec = io::read_text(run.path + "/model.json");
    if (run.spec.size() > kLongestSpec) run.spec.clear();
  }
  // The final model of a run that was resumed is from before that, so it is the last choice.
  std::vector<const char*> models = {"/best/model.safetensors", "/last/model.safetensors"};
  models.insert(run.status == "running" ? models.end() : models.begin(), "/model.safetensors");
  for (const char* name : models) {
    if (run.model.empty() && io::file_exists(run.path + name)) run.model = run.path + name;
  }
  return run;
}

}  // namespace freight::report
