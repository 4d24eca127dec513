// `freight plan`, `explain` and `advise` have this in common: the flags of training, the catalogue, and the setup
// that they make of them.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "command.h"
#include "freight/plan/catalog.h"
#include "freight/plan/estimate.h"
#include "freight/plan/rates.h"
#include "freight/plan/training_setup.h"
#include "freight/train/row_learner.h"
#include "options.h"

namespace freight::app {

struct PlanFlags {
  train::Config config;
  std::string input_shape, catalog, prices, rates;
  int64_t samples = 0;
  // A device that the catalogue lacks.
  std::string device_name = "described";
  std::string device_memory;
  double device_bandwidth = 0, device_tflops = 0, device_watts = 0, device_price = 0;
  bool json = false;

  double device_bytes() const;  // 0: not said
  void declare(Options& o);
};

// Parses as `train` does: the data set's recipe gives the defaults, flags change them. `make` makes the command's
// options, which declare `flags`. Null where help or the configuration was printed.
struct PlanInput {
  plan::TrainingSetup setup;
  plan::Catalog catalog;
  const train::RowLearner* trees = nullptr;  // set: these are planned for a table, and there is no setup
  std::optional<plan::Rates> rates;
};
// Trees: whether the command plans those of a table, too.
enum class Trees : uint8_t { refused, planned };
// Whether the command answers for --device-memory alone, of a device of which nothing else is said.
enum class MemoryAlone : uint8_t { refused, answered };
std::optional<PlanInput> read_plan_input(const Args& args, PlanFlags& flags,
                                         const std::function<std::unique_ptr<Options>()>& make,
                                         Trees trees = Trees::refused, MemoryAlone alone = MemoryAlone::refused);

// {"compute": 0.6, "memory": 0.3, ...}
nlohmann::ordered_json json_of(const plan::ByBound& shares);

}  // namespace freight::app
