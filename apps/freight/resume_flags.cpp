// See resume_flags.h.
#include "resume_flags.h"

#include <cstdio>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/train/run_dir.h"

namespace freight::app {

train::Found found_to_resume(const train::Config& probe, train::Config& fresh,
                             const std::function<void(train::Config&)>& apply) {
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

void check_resume(const train::Config& config, const train::Found& found, const Options& o) {
  const bool other_weights = o.given("--weights") && !config.weights.empty() &&
                             !(found.checkpoint && found.checkpoint->config.weights == config.weights);
  if (config.resume != "auto") {
    if (other_weights) {
      fail(ErrorKind::usage, "--weights",
           "cannot be combined with --resume: a run resumes with its own weights; without "
           "--resume a new run starts from ",
           config.weights);
    }
    if (o.given("--overwrite") && config.overwrite) {
      fail(ErrorKind::usage, "--overwrite",
           "cannot be combined with --resume: a run resumes in its directory; without "
           "--resume a new one replaces it");
    }
    return;
  }
  if (!found.checkpoint) return;
  const auto warn = [&](const std::string& what) {
    std::fprintf(stderr, "warning: %s: the run resumes from %s\n", printable(what).c_str(),
                 printable(found.checkpoint->dir).c_str());
  };
  if (other_weights) warn(cat("--weights ", config.weights, " is not read"));
  if (o.given("--overwrite") && config.overwrite) warn("--overwrite replaces nothing");
}

}  // namespace freight::app
