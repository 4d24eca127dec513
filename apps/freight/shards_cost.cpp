// See shards_cost.h.
#include "shards_cost.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>

#include "freight/base/clock.h"
#include "freight/base/strings.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/job/signals.h"
#include "freight/train/trainer.h"
#include "ranks.h"

namespace freight::app {

namespace {

// In shorter runs noise hides the difference.
constexpr double kLeastSeconds = 2;
constexpr double kMostSeconds = 5, kShare = 0.1;
constexpr int64_t kLeastSteps = 4;  // the first step allocates, and is not counted

class Trial : public train::Observer {
 public:
  explicit Trial(double seconds) : seconds_(seconds) {}
  train::AfterStep on_step(const train::StepReport&) override {
    if (steps_++ == 0) began_ = std::chrono::steady_clock::now();
    return {.stop = steps_ >= kLeastSteps && seconds_since(began_) >= seconds_};
  }

 private:
  const double seconds_;
  int64_t steps_ = 0;
  std::chrono::steady_clock::time_point began_;
};

std::string milliseconds(double seconds) { return cat(fixed(seconds * 1e3, seconds < 0.01 ? 2 : 1), " ms"); }

}  // namespace

ShardedTime sharded_time(const std::string& run) {
  const auto j = io::read_json<nlohmann::json>(run + "/run.json");
  if (j.value("status", "") != "complete" || !j.contains("plan") || !j.contains("result")) return {};
  return {.step_seconds = j["plan"].value("measured_step_seconds", 0.0),
          .train_seconds = j["result"].value("train_seconds", 0.0)};
}

std::string shards_cost(train::Config config, const ShardedTime& sharded) {
  if (sharded.step_seconds <= 0 || sharded.train_seconds < kLeastSeconds || signals::stop_requested()) return {};
  try {
    const LogFolder folder("train");
    config.shards = 0;
    config.resume.clear();
    config.weights.clear();  // they may have been replaced since, and do not change the time
    config.save_every = 0;
    config.save_seconds = 0;
    config.output_dir = folder.path() + "/run";
    config.overwrite = false;
    Trial trial(std::min(kMostSeconds, kShare * sharded.train_seconds));
    const double without = train::train(config, trial).step_seconds;
    if (without <= 0 || signals::stop_requested()) return {};
    const double percent = std::round(100 * (sharded.step_seconds / without - 1));
    return cat(milliseconds(sharded.step_seconds), " a step, ", milliseconds(without), " without: they cost ",
               percent <= 0 ? "nothing" : cat(fixed(percent, 0), " %"));
  } catch (const std::exception&) {
    return {};  // the run itself is complete and saved: a full disk only prevents the comparison
  }
}

}  // namespace freight::app
