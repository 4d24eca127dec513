// StepPlan: the plans of a training step at one batch size, read off: memory by kind, the tensors at the peak, the work
// of every step. Made for one backend with fixed kernel choices; runs nothing and allocates no weights.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "freight/passes/options.h"
#include "freight/plan/memory.h"
#include "freight/plan/training_setup.h"
#include "freight/plan/work.h"
#include "freight/train/net_training.h"

namespace freight::plan {

struct StepPlanOptions {
  int64_t batch = 64, parts = 1;  // parts: of a batch, whose gradients are added
  Recompute recompute = Recompute::none;
  DType compute = DType::f32;
  int64_t ranks = 1;       // that many have a batch like this together
  int64_t tokens = 0;      // of each text; 0: of the longest
  bool whole_run = false;  // with evaluation and checkpoints, as train does
  std::string backend = "cpu";
  // It says what may go to host memory so that total() stays within the device's, in bytes (0: any number).
  Offload offload = Offload::none;
  double device_bytes = 0;
  DeviceSpeed speed = {};
};
// The options that the configuration of the setup says.
StepPlanOptions options_of(const TrainingSetup& setup);
// The same of a whole run, with evaluation where there is something to evaluate.
StepPlanOptions options_of_run(const TrainingSetup& setup);

struct StepPlanOfLength;

struct StepPlan {
  StepPlanOptions options;
  std::array<size_t, kParts> bytes{};  // by kind
  std::vector<LiveTensor> live;        // in the arena of the training step at its peak, largest first
  std::string peak;                    // the step at the peak
  size_t arena_bytes = 0;              // of all plans of the training step
  std::vector<size_t> arenas;          // of each
  int64_t transfers = 0;               // steps that copy to host memory or back, in one training step
  double transferred = 0;              // bytes that they move
  size_t plan_steps = 0;
  double flops = 0, moved = 0;  // of one training step: FLOPs, bytes
  int64_t parameters = 0;
  bool random = false;  // the step draws random numbers
  bool beside = false;  // the device has memory of its own, beside the host's
  struct Stage {
    std::vector<Work> work;
    double times = 1;
  };
  std::vector<Stage> stages;     // of one training step
  std::vector<Work> evaluation;  // of one evaluation batch
  int64_t evaluation_batch = 0;

  std::vector<size_t> states;  // bytes of the optimizer's states by parameter, wherever they are kept
  // The steps of an epoch of texts, whose batches have one of a few lengths (data/tokens.h), rising. All else here is
  // of the longest, which decides the memory. Empty where all steps are alike, or nothing is known of the texts.
  std::vector<StepPlanOfLength> lengths;

  size_t part(Part p) const { return bytes[static_cast<size_t>(p)]; }
  size_t total() const;  // on the device: all parts but host memory
};
// The steps that have texts of one length.
struct StepPlanOfLength {
  LengthShare length = {};  // how often texts of that length come
  StepPlan step_plan = {};  // without lengths
};
// The mean of f(step_plan) over the steps of an epoch.
template <class F>
double mean_over_steps(const StepPlan& d, F f) {
  if (d.lengths.empty()) return f(d);
  double mean = 0;
  for (const StepPlanOfLength& l : d.lengths) mean += l.length.steps * f(l.step_plan);
  return mean;
}

// The bytes that each plan of a step may have as its arena, for the total of a step plan without such a limit to stay
// within `device_bytes`. 0: any number of bytes, it fits.
size_t arena_within(const StepPlan& unlimited, double device_bytes);
StepPlan plan_step(const TrainingSetup& setup, const StepPlanOptions& options);
// The same of the plans that a run has made.
StepPlan plan_step(const train::Planned& planned);
// The setup of such a run, for step plans of other ways to make it.
TrainingSetup setup_of(const train::Planned& planned);

// Adds the step plans of all lengths to one of the longest, where the setup knows how often each comes. They are made
// with the options of that one.
void add_lengths(StepPlan& step_plan, const TrainingSetup& setup);

// Memory as a function of the batch: fixed + per_sample x batch, through step plans at two batch sizes.
struct Formula {
  double fixed = 0, per_sample = 0;  // bytes
  double error = 0;                  // share by which a third step plan departs from the line; 0 where there is none
  int64_t third = 0;                 // its batch size
  double at(int64_t batch) const { return fixed + per_sample * static_cast<double>(batch); }
  // The largest batch that `bytes` hold, 0 where none fits.
  int64_t largest(double bytes) const;
};
// `step_plans`: two or three, of different batch sizes.
Formula formula(const std::vector<StepPlan>& step_plans);

// Several, made side by side.
std::vector<StepPlan> plan_steps(const TrainingSetup& setup, const std::vector<StepPlanOptions>& options);
// The step plan that was asked for, with those of other lengths, and its companions for the formula, made side by side:
// at half the batch (twice where it is 1), and for nets of few steps also at twice.
std::vector<StepPlan> plan_steps(const TrainingSetup& setup, const StepPlanOptions& options);

// True of a net with BatchNorm, which takes its statistics over what runs at once.
bool has_batch_statistics(const models::Model& model);

}  // namespace freight::plan
