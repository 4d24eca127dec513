// `freight plan --world`: how a run scales with the number of its devices; and the flags of `plan` and `advise` that
// describe how several devices are connected.
#pragma once
#include <string>
#include <vector>

#include "freight/plan/estimate.h"
#include "options.h"
#include "plan_options.h"

namespace freight::app {

struct FleetFlags {
  std::string link;
  int64_t per_machine = 8;
  int64_t per_device_batch = 0;  // 0: the batch is shared
  double rate_of_one = 0;        // in samples per second; 0: not measured

  // Throws Error(usage, data) that names --link for a name that is not in the catalog, or a file that is neither a link
  // nor times.
  plan::Fleet fleet(const plan::Catalog& catalog) const;
};
void declare(Options& o, FleetFlags& f);
// Declares the flags for the connection of devices.
void declare_links(Options& o, FleetFlags& f);

// The batch of each device. Throws Error(usage) that names `flag` if the whole batch has fewer samples than devices.
int64_t batch_of_each(const char* flag, const PlanInput& in, int64_t devices, int64_t per_device_batch);

// The settings of estimates of devices for a table.
struct EstimateOptions {
  plan::Fleet fleet;
  int64_t samples = 0;
  std::string sort = "speed";
  int64_t batch = 0;                                 // of all devices; 0: the configuration's
  double rate_of_one = 0;                            // in samples per second, with the batch of `one`
  const std::vector<plan::StepPlan>* one = nullptr;  // step plans of one device; null: there is no such rate
};
// Estimates for this machine first, then for the catalog's devices. `running`: the plan that offloads; null: the first
// of the step plans.
std::vector<plan::Estimate> estimates(const std::vector<plan::StepPlan>& step_plans, const PlanInput& in,
                                      const EstimateOptions& options, const plan::StepPlan* running);

struct WorldRequest {
  std::vector<int64_t> devices;  // numbers of devices, ascending
  plan::Fleet fleet;
  int64_t batch_of_each = 0;  // 0: the batch is shared
  double rate_of_one = 0;
  int64_t samples = 0, top = 20;
  std::string sort = "speed";
  bool json = false;
};
void print_world(const PlanInput& in, const WorldRequest& request);

}  // namespace freight::app
