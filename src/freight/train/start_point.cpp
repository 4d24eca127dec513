// See start_point.h.
#include "freight/train/start_point.h"

#include <filesystem>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/io/file.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/train/run_dir.h"

namespace freight::train {

namespace {

// The record of a run is rewritten when the run resumes, so a damaged record is only a warning.
void name_damaged_record(const std::string& run, std::vector<std::string>& warnings) {
  const std::string path = run + "/run.json";
  if (!io::file_exists(path)) return;
  try {
    if (io::read_json<nlohmann::json>(path, ErrorKind::data).is_object()) return;
    warnings.push_back(cat(path, " is damaged: not a JSON object; it will be rewritten"));
  } catch (const Error& e) {
    warnings.push_back(cat(path, " is damaged: ", e.message(), "; it will be rewritten"));
  }
}

void find_checkpoint_of(Config& c, std::optional<Found> found, StartPoint& start) {
  if (c.resume == "auto" && c.output_dir.empty()) c.output_dir = usual_dir(c);
  if (!found) found = find_checkpoint(c.resume, c.output_dir);
  start.lock = found->lock;
  start.checkpoint = std::move(found->checkpoint);
  start.warnings = std::move(found->warnings);
  if (!start.checkpoint) {
    if (!start.warnings.empty() && !c.overwrite) {
      fail(ErrorKind::checkpoint, c.output_dir, "no checkpoint is intact: ", join(start.warnings, "; "),
           "; --overwrite begins a new run in its place");
    }
    start.notes.push_back(cat("nothing to resume in ", c.output_dir, ": a new run"));
    // A run that was killed before its first checkpoint has left nothing that is a loss.
    c.overwrite = c.overwrite || RunDir::barely_begun(c.output_dir);
    return;
  }
  need_same_run(*start.checkpoint, c);
  const std::string run = run_of(*start.checkpoint);
  if (c.output_dir.empty()) c.output_dir = run;
  std::error_code missing;  // a directory that is yet to be made is another one
  start.in_its_directory = std::filesystem::equivalent(c.output_dir, run, missing);
  if (start.in_its_directory) name_damaged_record(run, start.warnings);
}

// A run that has the directory is named before anything is prepared, and keeps it until this one may have it.
void claim_output(const Config& c, StartPoint& start) {
  std::error_code error;
  if (!start.lock && std::filesystem::is_directory(c.output_dir, error) &&
      (c.overwrite || RunLock::file_exists(c.output_dir))) {
    start.lock = std::make_shared<RunLock>(c.output_dir);
  }
  RunDir::check(c.output_dir, c.overwrite);
}

}  // namespace

StartPoint start_point(Config& c, std::optional<Found> found) {
  StartPoint start;
  if (!c.resume.empty()) find_checkpoint_of(c, std::move(found), start);
  if (c.output_dir.empty()) c.output_dir = RunDir::free_name(usual_dir(c));
  if (!start.in_its_directory) claim_output(c, start);
  return start;
}

}  // namespace freight::train
