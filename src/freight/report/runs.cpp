// See runs.h.
#include "freight/report/runs.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/io/file.h"
#include "freight/train/run_lock.h"

namespace freight::report {

namespace {

namespace fs = std::filesystem;

bool is_run(const std::string& path) {
  return io::file_exists(path + "/run.json") || io::file_exists(path + "/metrics.jsonl");
}

// Folders of runs may be grouped in folders; a run's own folders are not searched.
constexpr int kDeepest = 4;

void find_runs(const std::string& path, int depth, std::vector<std::string>& found) {
  if (is_run(path)) {
    found.push_back(path);
    return;
  }
  if (depth == kDeepest) return;
  std::error_code error;
  std::vector<std::string> folders;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (it->is_directory(error) && !it->is_symlink(error)) folders.push_back(it->path().string());
  }
  std::sort(folders.begin(), folders.end());
  for (const std::string& folder : folders) find_runs(folder, depth + 1, found);
}

// Where a run is, and how it is watched, is no setting of its model.
bool is_setting(const std::string& key) {
  static const std::set<std::string> kOthers = {"output_dir", "overwrite",     "resume",     "data_dir",   "workers",
                                                "keep",       "save_in_place", "save_every", "eval_every", "recipe"};
  return !kOthers.contains(key);
}

// A figure of the saved model, by the name of its metric: "test_auc". Nothing where there is none.
std::optional<std::pair<std::string, double>> saved_figure(const RunRecord& run, const std::string& wanted) {
  for (const auto& [name, text] : run.result) {
    const size_t end = name.find('_');
    const std::string of = name.substr(0, end), metric = end == std::string::npos ? "" : name.substr(end + 1);
    const std::optional<double> value = parse_number<double>(text);
    if (!value || (of != "test" && of != "val")) continue;
    const bool usual = metric == "loss" || metric == "top1";  // which every run has
    if (metric == wanted || (wanted.empty() && !usual)) return std::pair(metric, *value);
  }
  return std::nullopt;
}

// The metric that the run was asked for, else the accuracy of the best epoch, else the loss.
void set_metric(const RunRecord& run, ListedRun& listed) {
  const io::Metrics* const best = run.best();
  if (best) listed.epoch = best->epoch;
  const auto take = [&](const std::string& metric, double value) {
    listed.metric = metric;
    listed.value = value;
  };
  if (best && best->metric) return take(best->metric_name, *best->metric);
  if (const auto own = saved_figure(run, "")) return take(own->first, own->second);
  if (best && best->top1) return take("top1", *best->top1);
  if (const auto top1 = saved_figure(run, "top1")) return take("top1", top1->second);
  if (best && best->loss) return take("loss", *best->loss);
  if (const auto loss = saved_figure(run, "loss")) return take("loss", loss->second);
}

ListedRun listed(const RunRecord& run) {
  ListedRun l{.path = run.path,
              .model = run.config_value("model"),
              .data = run.data.empty() ? run.config_value("data") : run.data,
              .status = run.status,
              .steps = run.steps,
              .seconds = run.train_seconds,
              .time = run.time};
  if (run.status == "running" && !train::RunLock::held(run.path)) l.status = "killed";
  if (l.status.empty()) l.status = "unknown";
  if (!run.rows.empty()) {
    l.steps = std::max(l.steps, run.rows.back().step);
    l.time = std::max(l.time, run.rows.back().time);
    if (l.seconds == 0) l.seconds = run.rows.back().time - run.rows.front().time;
  }
  set_metric(run, l);
  return l;
}

}  // namespace

std::vector<ListedRun> list_runs(const std::string& dir) {
  std::error_code error;
  if (!fs::is_directory(dir, error)) fail(ErrorKind::data, dir, "there is no such directory; expected one with runs");
  std::vector<std::string> paths;
  find_runs(dir, 0, paths);
  if (paths.empty()) {
    fail(ErrorKind::data, dir,
         "contains no run: no folder in it has run.json or metrics.jsonl, as freight train makes");
  }
  std::vector<ListedRun> runs;
  std::vector<Facts> settings;
  std::map<std::string, std::set<std::string>> values;  // by key; a run without the key has ""
  for (const std::string& path : paths) {
    const RunRecord run = read_run(path);
    runs.push_back(listed(run));
    settings.emplace_back();
    for (const auto& [key, value] : run.config) {
      if (!is_setting(key)) continue;
      settings.back().emplace_back(key, value);
      values[key].insert(value);
    }
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const auto& [key, value] : settings[i]) {
      if (values[key].size() > 1) runs[i].settings.emplace_back(key, value);
    }
  }
  std::stable_sort(runs.begin(), runs.end(), [](const ListedRun& a, const ListedRun& b) { return a.time < b.time; });
  return runs;
}

}  // namespace freight::report
