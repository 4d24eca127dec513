// Common to `freight plan`, `explain` and `advise`: the flags of training, the catalog, and the training setup that
// follows from them.
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
#include "freight/tables/row_learner.h"
#include "options.h"

namespace freight::app {

struct PlanFlags {
  train::Config config;
  std::string input_shape, catalog, prices, rates;
  int64_t samples = 0;
  // A device that is not in the catalog.
  std::string device_name = "described";
  std::string device_memory;
  double device_bandwidth = 0, device_tflops = 0, device_watts = 0, device_price = 0;
  bool json = false;

  double device_bytes() const;  // 0: not set
  void declare(Options& o);
};

// Parses like `train`: the data set's recipe gives the defaults, flags change them. `make` makes the command's options,
// which declare `flags`. Null if the help or the configuration was printed.
struct PlanInput {
  plan::TrainingSetup setup;
  plan::Catalog catalog;
  data::Source source = {};                   // the data, where there are any
  const tables::RowLearner* trees = nullptr;  // set: these are planned for a table, and there is no setup
  std::optional<plan::Rates> rates;
};
// The command refuses trees of a table, or plans them, too.
enum class Trees : uint8_t { refused, planned };
// The command refuses --device-memory without other figures of the device, or answers with what it tells.
enum class MemoryAlone : uint8_t { refused, answered };
std::optional<PlanInput> read_plan_input(const Args& args, PlanFlags& flags,
                                         const std::function<std::unique_ptr<Options>()>& make,
                                         Trees trees = Trees::refused, MemoryAlone alone = MemoryAlone::refused);

// {"compute": 0.6, "memory": 0.3, ...}
nlohmann::ordered_json json_of(const plan::ByBound& shares);

}  // namespace freight::app
