// `freight plan --world`: how a run grows with the number of its devices. Also what `plan` and `advise` have in common
// for several devices: the flags that say how they are connected.
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
  double rate_of_one = 0;        // samples per second; 0: not measured

  // Throws Error(usage, data) naming --link: a name that the catalogue lacks, a file that is neither a link nor times.
  plan::Fleet fleet(const plan::Catalog& catalog) const;
};
void declare(Options& o, FleetFlags& f);
// Declares those of them that say how devices are connected.
void declare_links(Options& o, FleetFlags& f);

// The batch of each of so many devices. Throws Error(usage) naming `flag` where the whole has fewer samples.
int64_t batch_of_each(const char* flag, const PlanInput& in, int64_t devices, int64_t per_device_batch);

// How the devices of a table are estimated.
struct EstimateOptions {
  plan::Fleet fleet;
  int64_t samples = 0;
  std::string sort = "speed";
  int64_t batch = 0;                                 // of all devices; 0: the configuration's
  double rate_of_one = 0;                            // samples per second, with the batch of these step plans:
  const std::vector<plan::StepPlan>* one = nullptr;  // of one device; null: there is no such rate
};
// This machine first, then the catalogue's devices. `running`: the plan that offloads; null: the first of the step
// plans.
std::vector<plan::Estimate> estimates(const std::vector<plan::StepPlan>& step_plans, const PlanInput& in,
                                      const EstimateOptions& options, const plan::StepPlan* running);

struct WorldRequest {
  std::vector<int64_t> devices;  // numbers of them, rising
  plan::Fleet fleet;
  int64_t batch_of_each = 0;  // 0: the batch is shared
  double rate_of_one = 0;
  int64_t samples = 0, top = 20;
  std::string sort = "speed";
  bool json = false;
};
void print_world(const PlanInput& in, const WorldRequest& request);

}  // namespace freight::app
