// Advice: the least hardware that meets a deadline and a budget, the cheapest and the fastest devices that meet them,
// and by how much the goal is missed if none does. Every estimate is judged by its slow end.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "freight/plan/estimate.h"

namespace freight::plan {

// Ordered from little hardware to much.
enum class Hardware : uint8_t { processor, modest_gpu, large_gpu, several };
const char* to_string(Hardware hardware);

struct Goal {
  double deadline_hours = 0, budget_usd = 0;  // 0: not set
};
// The deadline if none is set.
inline constexpr double kNight = 8;
// A GPU with at most this much memory, in GiB, counts as small.
inline constexpr double kModestGib = 24;

struct Choice {
  Hardware hardware = Hardware::processor;
  Estimate estimate;
  bool here = false;  // this machine, which costs nothing extra
  double hours() const { return estimate.run_hours.high; }
  // -1: the price is not known.
  double usd() const { return here ? 0 : estimate.dollars ? estimate.dollars->high : -1; }
};

struct Advice {
  std::optional<Choice> answer;             // null: no device meets the goal
  std::optional<Choice> cheapest, fastest;  // of those that meet the goal, or of all that fit if none does
  std::optional<Choice> here;               // empty unless it was measured
  double late_hours = 0, over_usd = 0;      // without an answer: by how much the closest choice misses the goal
  std::string miss;                         // the same as a sentence
  std::vector<std::string> reasons, changes;
  // Choices with the answer's device by the number of devices, ascending; without an answer, those of the fastest
  // choice's device.
  std::vector<Choice> by_devices;
};
// The rate of a choice of by_devices divided by the rate of as many single devices; 0 if one device alone is not among
// the choices.
double efficiency(const Advice& advice, const Choice& choice);

// The step plans for a number of devices, a power of two from 1 to 64: of a device's share of the batch, and of a
// second batch size for the memory formula.
struct Share {
  int64_t devices = 1;
  std::vector<StepPlan> step_plans;
};
std::vector<Share> shares(const TrainingSetup& setup, const StepPlanOptions& options);

// The number of devices per machine is not fixed: it is that of the chosen offer.
inline constexpr int64_t kAsOffered = 0;

// `shares`: from shares(). `length` must know the epochs. `fleet`: how devices are connected; if it has a network
// between hosts, several machines like this one are among the choices. Throws Error(usage) if no device of the catalog
// can run it.
Advice advise(const std::vector<Share>& shares, const Catalog& catalog, const Rates* rates, const RunLength& length,
              const Goal& goal, const Fleet& fleet = {.per_machine = kAsOffered});

// Advice for fitting trees to a table on one device. `estimates`: those of plan/trees.h, with this machine first.
Advice advise_trees(const std::vector<Estimate>& estimates, const Catalog& catalog, const Goal& goal);

// Parses "8h", "90m", "1h30m", "2d" as hours. Throws Error(usage).
double parse_hours(const std::string& flag, const std::string& text);
// Formats hours: "1.2 h", "13 min", "3.1 days".
std::string hours_text(double hours);

}  // namespace freight::plan
