// See run_dir.h.
#include "freight/train/run_dir.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/io/file.h"

namespace freight::train {

namespace fs = std::filesystem;

struct RunDir::Log {
  std::FILE* file = nullptr;
  ~Log() {
    if (file) std::fclose(file);
  }
};

namespace {
constexpr const char* kGone = ".checkpoints.gone";

// Removes what an earlier run left; other people's files are not touched.
void remove_old_run(const fs::path& dir) {
  std::error_code none;
  fs::remove_all(dir / kGone);
  fs::rename(dir / "checkpoints", dir / kGone, none);  // no checkpoint is ever there in part
  for (const char* name : {"run.json", "config.json", "model.json", "log.txt", "metrics.csv", "bad_samples.tsv",
                           "model.safetensors", "report.html", kGone, "checkpoints", "last", "best"}) {
    fs::remove_all(dir / name);
  }
  if (RunDir::has_card(dir.string())) fs::remove(dir / RunDir::kCard);
  for (const auto& e : fs::directory_iterator(dir)) {
    if (e.path().filename().string().find("tfevents") != std::string::npos) fs::remove(e.path());
  }
  fs::remove(dir / "metrics.jsonl");  // the last: by it a run is known that was killed here (barely_begun)
}

// Leaves the lines of a text file that f(line) is true for.
template <class F>
void keep_lines(const std::string& path, F f) {
  if (!io::file_exists(path)) return;
  std::string kept;
  for (const std::string& line : split(io::read_text(path), '\n')) {
    if (!line.empty() && f(line)) kept += line + "\n";
  }
  io::write_file_atomic(path, std::string_view(kept));
}

// Says whether a row of metrics is still true of a run that goes on.
bool stays(int64_t step, double epoch, const std::string& split, const RunDir::GoesOn& from) {
  const bool part = split == "train" && epoch == static_cast<double>(from.open_epoch);
  return step <= from.step && !part;
}
}  // namespace

std::string usual_dir(const Config& c) {
  fs::path data = fs::path(c.data).lexically_normal();
  if (!data.has_filename()) data = data.parent_path();  // photos/ is photos
  return cat("runs/", fs::path(c.model).stem().string(), "-", data.filename().string());
}

void RunDir::check(const std::string& path, bool overwrite) {
  std::error_code error;
  need_no_stream("--output-dir", path, "a run is a directory");
  if (fs::exists(path, error) && !fs::is_directory(path, error)) {
    fail(ErrorKind::usage, "--output-dir", path, " is not a directory");
  }
  if (!overwrite && fs::is_directory(path, error) && !is_empty(path)) {
    fail(ErrorKind::usage, "--output-dir", path,
         " is not empty: pass --overwrite to replace the run in it, or another directory");
  }
}

std::string RunDir::free_name(const std::string& name) {
  std::string path = name;
  std::error_code error;
  for (int i = 2; fs::exists(path, error) && !is_empty(path); ++i) path = cat(name, "-", i);
  return path;
}

bool RunDir::barely_begun(const std::string& path) {
  const auto has = [&](const char* name) { return fs::exists(path + "/" + name); };
  return has("metrics.jsonl") && !has("model.safetensors") && checkpoints_of(path).empty();
}

bool RunDir::is_empty(const std::string& path) {
  std::error_code error;
  const fs::directory_iterator all(path, error);
  return std::all_of(begin(all), end(all), [](const auto& e) {
    return e.path().filename() == RunLock::kFile || e.path().filename() == kRankLogs;
  });
}

RunDir::RunDir(const std::string& path, bool overwrite, std::shared_ptr<RunLock> lock)
    : path_(path), lock_(std::move(lock)), log_(std::make_unique<Log>()) {
  check(path, overwrite);
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail(ErrorKind::runtime, "--output-dir", "cannot make ", path, ": ", error.message());
  if (!lock_) {
    lock_ = std::make_shared<RunLock>(path);
    check(path, overwrite);  // again, since another run may have begun and ended here meanwhile
  }
  remove_old_run(path);
  tidy();
  open();
}

bool RunDir::has_card(const std::string& folder) {
  const std::string path = cat(folder, "/", kCard);
  return io::file_exists(path) && io::read_text(path).find(kCardMark) != std::string::npos;
}

// Removes what a run left that was killed while it wrote. A report may be written beside us: its files are not touched.
void RunDir::tidy() {
  std::vector<fs::path> left;
  for (const auto& e : fs::directory_iterator(path_)) {
    const std::string name = e.path().filename().string();
    bool ours = name == "last.new" || name == "best.new" || name == kGone;
    for (const char* file :
         {"run.json", "config.json", "model.json", "metrics.jsonl", "metrics.csv", "model.safetensors"}) {
      ours = ours || starts_with(name, cat(file, ".tmp-"));
    }
    if (ours) left.push_back(e.path());
  }
  for (const fs::path& path : left) fs::remove_all(path);
  for (const char* folder : {"checkpoints", "checkpoints/set-aside"}) tidy_checkpoints(file(folder));
}

RunDir::RunDir(const std::string& path, const GoesOn& from, std::shared_ptr<RunLock> lock)
    : path_(path), lock_(std::move(lock)), log_(std::make_unique<Log>()) {
  if (!lock_) lock_ = std::make_shared<RunLock>(path);
  tidy();
  keep_lines(file("metrics.jsonl"), [&](const std::string& line) {
    const std::optional<io::Metrics> row = io::from_json_line(line);
    return row && stays(row->step, row->epoch, row->split, from);
  });
  bool header = true;
  keep_lines(file("metrics.csv"), [&](const std::string& line) {
    if (std::exchange(header, false)) return true;
    const std::vector<std::string> cells = split(line, ',');
    return cells.size() > 2 && stays(parse_number<int64_t>(cells[0]).value_or(0),
                                     parse_number<double>(cells[1]).value_or(0), cells[2], from);
  });
  open(from.step);
  set_aside_after(from.step);
}

// Puts away what was taken back: the newest checkpoint of the run is the one that it goes on from.
void RunDir::set_aside_after(int64_t step) {
  const fs::path aside = fs::path(path_) / "checkpoints/set-aside";
  bool moved = false;
  for (const std::string& path : checkpoints_of(path_)) {
    if (step_of(path) <= step) continue;
    const fs::path name = fs::path(path).filename();
    fs::create_directories(aside);
    if (fs::exists(aside / name)) remove_checkpoint((aside / name).string());
    fs::rename(path, aside / name);
    log(cat("moved: ", (aside / name).string(), ", since the run resumes from step ", step));
    moved = true;
  }
  if (!moved) return;
  point("last", cat("checkpoints/step-", step));
  std::error_code ignored;
  if (!fs::exists(fs::path(path_) / "best", ignored)) fs::remove(fs::path(path_) / "best", ignored);
}

void RunDir::open(std::optional<int64_t> last_step) {
  metrics_ = std::make_unique<io::MetricsWriter>(path_, last_step);  // its rows are the first file (barely_begun)
  log_->file = std::fopen(file("log.txt").c_str(), "ae");
  if (!log_->file)
    fail(ErrorKind::runtime, "--output-dir", "cannot write ", file("log.txt"), ": ", std::strerror(errno));
}

RunDir::~RunDir() {
  if (writing_.valid()) writing_.wait();
  if (!discard_) return;
  try {
    log_.reset();
    metrics_.reset();
    remove_old_run(path_);
    lock_.reset();
    std::error_code not_empty;
    fs::remove(path_, not_empty);
  } catch (const std::exception&) {  // what cannot be removed stays
  }
}

void RunDir::write_text(const std::string& name, const std::string& text) {
  io::write_file_atomic(file(name), std::string_view(text));
}

void RunDir::append_text(const std::string& name, const std::string& text) {
  const std::string path = file(name);
  std::FILE* f = std::fopen(path.c_str(), "ae");
  // One write, unbuffered: a run that is killed leaves whole lines.
  bool good =
      f && std::setvbuf(f, nullptr, _IONBF, 0) == 0 && std::fwrite(text.data(), 1, text.size(), f) == text.size();
  const int error = errno;
  if (f) good = std::fclose(f) == 0 && good;
  if (!good) fail(ErrorKind::runtime, "--output-dir", "cannot write ", path, ": ", std::strerror(error));
}

void RunDir::add_to_log(const std::string& path, const std::string& line) {
  if (!io::file_exists(path + "/log.txt")) return;  // a directory with a log alone would be no run's
  std::FILE* const f = std::fopen((path + "/log.txt").c_str(), "ae");
  if (!f) return;
  std::fputs((line + "\n").c_str(), f);
  std::fclose(f);
}

void RunDir::log(const std::string& line) {
  std::fputs((line + "\n").c_str(), log_->file);
  std::fflush(log_->file);
}

void RunDir::checkpoint(const store::Bundle& bundle, const RunState& state, bool best, const Saving& saving) {
  settle();
  if (saving.in_place) return write(values_of(bundle, state), best, saving.keep);
  taken_ = snapshot(bundle, state, std::move(taken_));
  writing_ = std::async(std::launch::async, [this, best, keep = saving.keep] { write(taken_, best, keep); });
}

void RunDir::check_written() {
  if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) writing_.get();
}

void RunDir::settle() {
  if (writing_.valid()) writing_.get();
}

void RunDir::drop_given() {
  settle();
  auto& tensors = taken_.state.tensors;
  tensors.resize(tensors.size() - std::exchange(taken_.given, 0));
}

void RunDir::write(const Snapshot& taken, bool best, int64_t keep) {
  const std::string name = cat("checkpoints/step-", taken.step);
  save_checkpoint(file(name), taken);
  point("last", name);
  if (best) point("best", name);
  if (keep < 1) return;
  std::error_code error;
  const fs::path best_target = fs::path(path_) / fs::read_symlink(fs::path(path_) / "best", error);
  const std::vector<std::string> all = checkpoints_of(path_);
  for (size_t i = static_cast<size_t>(keep); i < all.size(); ++i) {
    if (all[i] != best_target) remove_checkpoint(all[i]);
  }
}

// A symbolic link, replaced in one step.
void RunDir::point(const std::string& link, const std::string& target) {
  const fs::path temporary = fs::path(path_) / (link + ".new");
  std::error_code ignored;
  fs::remove(temporary, ignored);
  fs::create_symlink(target, temporary);
  try {
    fs::rename(temporary, fs::path(path_) / link);
  } catch (...) {
    fs::remove(temporary, ignored);
    throw;
  }
}

}  // namespace freight::train
