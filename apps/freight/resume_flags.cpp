// See resume_flags.h.
#include "resume_flags.h"

#include <cstdio>

#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/train/run_dir.h"

namespace freight::app {

train::Found found_to_resume(const train::Config& probe, const data::Source& source, train::Config& fresh,
                             const std::function<void(train::Config&)>& apply) {
  std::string dir = probe.output_dir;
  if (probe.resume == "auto") {
    fresh = train::recipe(source, probe.recipe);
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
    const GivenFlag resume{"--resume", true};
    excludes({"--weights", other_weights}, resume,
             cat("a run resumes with its own weights; without --resume a new run starts from ", config.weights));
    excludes({"--overwrite", o.given("--overwrite") && config.overwrite}, resume,
             "a run resumes in its directory; without --resume a new one replaces it");
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
