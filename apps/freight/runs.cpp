// `freight runs`: the runs in a directory.
#include "freight/report/runs.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "command.h"
#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/io/json_library.h"
#include "freight/train/config_fields.h"
#include "freight/train/progress.h"
#include "options.h"
#include "text_table.h"
#include "train_result.h"

namespace freight::app {

namespace {

// "lr" for the key optimizer.lr: the flag as it is typed, without its dashes.
std::string flag_of_key(const std::string& key) {
  for (const train::Field& field : train::config_fields()) {
    if (key == field.key) return field.flag().substr(2);
  }
  return key;
}

// The directory of runs where none is named.
std::string usual_runs() {
  const std::string usual = "runs";
  std::error_code error;
  if (std::filesystem::is_directory(usual, error)) return usual;
  const bool here = [] {
    try {
      return !report::list_runs(".").empty();
    } catch (const Error&) {
      return false;
    }
  }();
  fail(ErrorKind::data, usual, "there is no such directory",
       here ? "; `freight runs .` lists the runs that are here" : "; name the directory of the runs: freight runs DIR");
}

// A setting that is off takes no room in a line: it is on in the runs that name it.
bool is_off(const std::string& value) {
  return value.empty() || value == "0" || value == "0.0" || value == "false" || value == "none";
}

// True for data and model, and for settings that differ between the runs on the same data: those of other data have
// other recipes, which would fill each line.
bool differs(const std::vector<report::ListedRun>& runs, const report::ListedRun& run, const std::string& key) {
  if (key == "data" || key == "model") return true;
  const auto value_in = [&](const report::ListedRun& r) {
    const auto at = std::find_if(r.settings.begin(), r.settings.end(), [&](const auto& s) { return s.first == key; });
    return at == r.settings.end() ? std::string() : at->second;
  };
  const std::string value = value_in(run);
  return std::any_of(runs.begin(), runs.end(),
                     [&](const report::ListedRun& r) { return r.data == run.data && value_in(r) != value; });
}

}  // namespace

int runs_command(const Args& args) {
  std::string dir;
  bool as_json = false;
  Options o("runs", "Lists the runs in a directory: status, best metric, the settings that differ, hours.",
            "[DIR] [options]", "  freight runs\n  freight runs experiments --json");
  o.positional("DIR", &dir, "a directory with runs (default runs)", false);
  o.add("--json", &as_json, "print a JSON array");
  if (o.parse(args) == Options::Outcome::done) return 0;
  if (dir.empty()) dir = usual_runs();
  constexpr double kHour = 3600;
  const std::vector<report::ListedRun> runs = report::list_runs(dir);
  if (as_json) {
    using Json = nlohmann::ordered_json;
    Json list = Json::array();
    for (const report::ListedRun& r : runs) {
      Json settings = Json::object();
      for (const auto& [key, value] : r.settings) settings[key] = value;
      list.push_back({{"path", r.path},
                      {"status", r.status},
                      {"model", r.model},
                      {"data", r.data},
                      {"metric", r.metric.empty() ? Json(nullptr) : Json(r.metric)},
                      {"best", r.metric.empty() ? Json(nullptr) : Json(r.value)},
                      {"epoch", r.epoch},
                      {"steps", r.steps},
                      {"hours", r.seconds / kHour},
                      {"time", r.time},
                      {"settings", settings}});
    }
    std::printf("%s\n", list.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const report::ListedRun& r : runs) {
    std::string settings;
    for (const auto& [key, value] : r.settings) {
      if (is_off(value) || !differs(runs, r, key)) continue;
      settings += cat(settings.empty() ? "" : "  ", flag_of_key(key), "=", excerpt(value));
    }
    const std::string best = r.metric.empty() ? "-" : cat(r.metric, " ", figure(r.value));
    rows.push_back({printable(r.path), r.status, best, clock_text(r.seconds), printable(settings)});
  }
  std::fputs(text_table({"run", "status", "best", "h:mm:ss", "settings that differ"}, rows).c_str(), stdout);
  return 0;
}

}  // namespace freight::app
