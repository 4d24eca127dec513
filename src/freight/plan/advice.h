// Advice: the least hardware that does a run within a deadline and a budget, the cheapest and the fastest that do, and
// by how much nothing does. Judged by the slow end of each estimate.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "freight/plan/estimate.h"

namespace freight::plan {

// From little to much.
enum class Hardware : uint8_t { processor, modest_gpu, large_gpu, several };
const char* to_string(Hardware hardware);

struct Goal {
  double deadline_hours = 0, budget_usd = 0;  // 0: none was said
};
// The deadline where none was said.
inline constexpr double kNight = 8;
// The memory of a GPU up to which it counts as modest, in GiB.
inline constexpr double kModestGib = 24;

struct Choice {
  Hardware hardware = Hardware::processor;
  Estimate estimate;
  bool here = false;  // this machine: it costs nothing more
  double hours() const { return estimate.run_hours.high; }
  double usd() const { return here ? 0 : estimate.dollars ? estimate.dollars->high : -1; }  // -1: no price is known
};

struct Advice {
  std::optional<Choice> answer;             // null: nothing meets the wish
  std::optional<Choice> cheapest, fastest;  // of those that meet it, or of all that fit
  std::optional<Choice> here;               // where it was measured
  double late_hours = 0, over_usd = 0;      // without an answer: by how much the nearest miss, at the least
  std::string miss;                         // in words
  std::vector<std::string> reasons, changes;
  // Choices of the answer's device by its number, rising; without an answer, of the fastest choice's.
  std::vector<Choice> by_devices;
};
// The share of so many times one device's rate that a choice of by_devices keeps; 0 where one alone is not among them.
double efficiency(const Advice& advice, const Choice& choice);

// For so many devices at once, from 1 to 64, in powers of two: step plans of a device's share of the batch and of a
// neighbouring one.
struct Share {
  int64_t devices = 1;
  std::vector<StepPlan> step_plans;
};
std::vector<Share> shares(const TrainingSetup& setup, const StepPlanOptions& options);

// A fleet that leaves open how many devices a machine has: as many as in the offer that is taken.
inline constexpr int64_t kAsOffered = 0;

// `shares`: as made above. `length` must know the epochs. `fleet`: how devices are connected; several machines like
// this one are among the choices where it says what connects hosts. Throws Error(usage) where nothing in the catalogue
// can run it.
Advice advise(const std::vector<Share>& shares, const Catalog& catalog, const Rates* rates, const RunLength& length,
              const Goal& goal, const Fleet& fleet = {.per_machine = kAsOffered});

// The same of fitting trees to a table, by one device. `estimates`: plan/trees.h's, that of this machine first.
Advice advise_trees(const std::vector<Estimate>& estimates, const Catalog& catalog, const Goal& goal);

// "8h", "90m", "1h30m", "2d" as hours. Throws Error(usage).
double parse_hours(const std::string& flag, const std::string& text);
// "1.2 h", "13 min", "3.1 days".
std::string hours_text(double hours);

}  // namespace freight::plan
