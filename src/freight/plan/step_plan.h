// StepPlan: what the plans of a training step at one batch size need: memory by kind, the tensors at the peak, the work
// of every step. It is made for one backend with fixed kernel choices; nothing is run and no weights are allocated.
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
  int64_t batch = 64, parts = 1;  // parts: micro-batches, whose gradients are accumulated
  Recompute recompute = Recompute::none;
  DType compute = DType::f32;
  int64_t ranks = 1;       // as many devices have a batch like this
  int64_t tokens = 0;      // per text; 0: those of the longest
  bool whole_run = false;  // includes evaluation and checkpoints, as train does
  std::string backend = "cpu";
  // The tensors that may be offloaded to host memory so that total() stays within `device_bytes` (0: no limit).
  Offload offload = Offload::none;
  double device_bytes = 0;
  DeviceSpeed speed = {};
};
// The options that follow from the setup's configuration.
StepPlanOptions options_of(const TrainingSetup& setup);
// The options of a whole run, with evaluation if there are samples for it.
StepPlanOptions options_of_run(const TrainingSetup& setup);

struct StepPlanOfLength;

struct StepPlan {
  StepPlanOptions options;
  std::array<size_t, kParts> bytes{};  // by kind
  std::vector<LiveTensor> live;        // largest first, in the arena of the training step at its peak
  std::string peak;                    // the step at the peak
  size_t arena_bytes = 0;              // of all plans of the training step together
  std::vector<size_t> arenas;          // of each plan of the training step
  int64_t transfers = 0;               // steps that copy to or from host memory, in one training step
  double transferred = 0;              // bytes that these steps move
  size_t plan_steps = 0;
  double flops = 0, moved = 0;  // FLOPs and bytes of one training step
  int64_t parameters = 0;
  bool random = false;  // the step draws random numbers
  bool beside = false;  // the device has its own memory, separate from the host's
  struct Stage {
    std::vector<Work> work;
    double times = 1;
  };
  std::vector<Stage> stages;     // of one training step
  std::vector<Work> evaluation;  // of one evaluation batch
  int64_t evaluation_batch = 0;

  std::vector<size_t> states;  // bytes of the optimizer's states by parameter, on the device or the host
  // The step plans by the length of texts, ascending, since batches of texts have one of a few lengths (data/tokens.h).
  // All other members are those of the longest texts, which decide the memory. Empty if all steps are alike, or the
  // lengths are not known.
  std::vector<StepPlanOfLength> lengths;

  size_t part(Part p) const { return bytes[static_cast<size_t>(p)]; }
  size_t total() const;  // on the device, without what is offloaded to the host
};
// The step plan for texts of one length.
struct StepPlanOfLength {
  LengthShare length = {};  // how often these texts occur
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

// The bytes that the arena of each plan of a step may have so that the total stays within `device_bytes`. 0: no limit
// is needed. `unlimited` is the step plan without a limit.
size_t arena_within(const StepPlan& unlimited, double device_bytes);
StepPlan plan_step(const TrainingSetup& setup, const StepPlanOptions& options);
// The step plan of a prepared run, from its own plans.
StepPlan plan_step(const train::Planned& planned);
// The setup of a prepared run, for step plans with other options.
TrainingSetup setup_of(const train::Planned& planned);

// Adds step plans for all lengths of texts to the plan of the longest, with the same options, if the setup knows how
// often each length occurs.
void add_lengths(StepPlan& step_plan, const TrainingSetup& setup);

// Memory as a function of the batch size: fixed + per_sample x batch, fitted to step plans of two batch sizes.
struct Formula {
  double fixed = 0, per_sample = 0;  // bytes
  double error = 0;                  // fraction by which a third step plan deviates from the line; 0 without a third
  int64_t third = 0;                 // the batch size of the third step plan
  double at(int64_t batch) const { return fixed + per_sample * static_cast<double>(batch); }
  // The largest batch that fits into `bytes`; 0 if none does.
  int64_t largest(double bytes) const;
};
// `step_plans`: two or three, with different batch sizes.
Formula formula(const std::vector<StepPlan>& step_plans);

// Makes several step plans in parallel.
std::vector<StepPlan> plan_steps(const TrainingSetup& setup, const std::vector<StepPlanOptions>& options);
// Makes the step plan for `options`, with those of other lengths, and further ones for the formula, in parallel: at
// half the batch (twice if it is 1), and for networks of few steps also at twice the batch.
std::vector<StepPlan> plan_steps(const TrainingSetup& setup, const StepPlanOptions& options);

// True for a network with BatchNorm, whose statistics are taken over the samples that run at once.
bool has_batch_statistics(const models::Model& model);

}  // namespace freight::plan
