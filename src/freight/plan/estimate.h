// Estimate: a step plan on a device. It says whether the run fits and by what means, how long it takes, and what it
// costs. Every time is a range, and the assumption behind it is named.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "freight/plan/catalog.h"
#include "freight/plan/parallel.h"
#include "freight/plan/rates.h"
#include "freight/plan/step_plan.h"

namespace freight::plan {

struct Range {
  double low = 0, high = 0;
  double middle() const;  // the geometric mean
  Range operator*(double factor) const { return {low * factor, high * factor}; }
  Range operator+(const Range& other) const { return {low + other.low, high + other.high}; }
};

// The limit of the speed of a step.
enum class Bound : uint8_t { compute, memory, launch, transfer };
inline constexpr size_t kBounds = 4;
const char* to_string(Bound bound);

// Times, or fractions of a time, by what limits them.
struct ByBound {
  std::array<double, kBounds> at{};
  double& operator[](Bound b) { return at[static_cast<size_t>(b)]; }
  double operator[](Bound b) const { return at[static_cast<size_t>(b)]; }
  double sum() const;
  Bound largest() const;
  void add(const ByBound& other, double times = 1);
  ByBound shares() const;  // fractions of the sum; all 0 if the sum is 0
};

// The speed of a device on which nothing was measured: fractions of its dense peak and bandwidth, and seconds per
// kernel. `best`: as in well-tuned large kernels; `usual`: as in whole training steps of common software.
struct Assumption {
  double best_matmul = 0, usual_matmul = 0;  // of the dense peak
  double best_bandwidth = 0, usual_bandwidth = 0;
  double best_launch = 0, usual_launch = 0;  // seconds per kernel
  std::string peak;                          // "bf16 989 TFLOP/s dense"
  std::string matmul_source, bandwidth_source;
};
Assumption assumption(const Device& device, DType compute);

// Rates that a device reaches: FLOPs per second in products of each type and in everything else, bytes per second,
// seconds per kernel, and bytes per second to or from its host (0: not known, counted as copies within its memory).
struct Speed {
  double f32 = 0, f64 = 0, bf16 = 0, f16 = 0, plain = 0, bytes = 0, transfer = 0, launch = 0;
  double chained = 0;  // seconds per further kernel of a step (Work::launches); 0 for a CPU, which stays in its kernel
};
Speed best_speed(const Device& device, const Assumption& assumption);
Speed usual_speed(const Device& device, const Assumption& assumption);

// The seconds of one step of a plan by itself.
double seconds_of(const Work& work, const Speed& speed, Bound* bound = nullptr);
// The seconds of a plan. Copies to and from host memory overlap with kernels that need not wait for them.
double seconds_of(const std::vector<Work>& work, const Speed& speed);

struct Estimate {
  std::string device;
  int64_t devices = 1;
  double total_bytes = 0;   // needed by the run at its peak, on each device
  double memory_bytes = 0;  // of each device; 0: not known
  std::optional<bool> fits;
  std::string means;          // how it fits: "", "--grad-accum 4"; or why it does not
  int64_t largest_batch = 0;  // without other means; 0: none fits, or the memory is not known
  Range step_seconds;         // of one training step, including reading data and the all-reduce
  // Reading a batch and sending it to the device; it overlaps with the computation unless a CPU does both.
  Range data_seconds;
  Range summing_seconds;      // the all-reduce of gradients, as far as the computation does not hide it
  Range all_summing_seconds;  // the whole all-reduce, hidden or not
  Range waiting_seconds;      // for the slowest device
  std::string link;           // over which gradients are sent
  std::string beyond;         // why the range extends beyond what was measured; "": it does not
  // The limit of the speedup of several devices: "computing" if little does, "sums over ...", "waiting for the slowest
  // device", "reading data".
  std::string limit;
  bool timed = false;
  ByBound shares;          // of the computation's time
  double utilization = 0;  // of the dense peak, at the middle of the range
  std::string assumed;     // where the times come from
  Range samples_per_second, epoch_hours, run_hours;
  Range evaluation_hours, checkpoint_hours;  // of the whole run
  std::optional<Range> dollars, watt_hours;  // of the whole run
  std::optional<Offer> offer;
};

// The parts of a run besides the computation of its steps.
struct RunLength {
  double steps_per_epoch = 0, epochs = 0;  // 0: not known
  double evaluations = 0;                  // of the whole run
  double evaluation_samples = 0;           // of each evaluation
  double checkpoints = 0;                  // of the whole run
  Range load_seconds;                      // of one sample, on one core
  double sample_bytes = 0;                 // sent to the device
  bool saves_in_place = false;             // the run waits until a checkpoint has been written
  double workers = 0;                      // threads that read data; 0: one per core
  // From the setup's data and configuration; `samples` > 0 replaces the data's number of samples.
  static RunLength of(const TrainingSetup& setup, int64_t samples = 0);
};

// An estimate on a device of the catalog. `step_plans`: as from plan_steps(), with the batch of one device. `running`:
// the plan that runs if it is not the first of them but one that offloads.
Estimate estimate(const std::vector<StepPlan>& step_plans, const Device& device, const Catalog& catalog,
                  const RunLength& length, const Fleet& fleet = {}, const StepPlan* running = nullptr);
// The pace of one device that trains the first step plan at `rate` samples per second, as measured.
Pace pace_of(const std::vector<StepPlan>& step_plans, const Device& device, double rate);
// The seconds of the computation of one training step, by rates measured on this machine.
Range step_seconds(const StepPlan& step_plan, const Rates& rates);
// An estimate on this machine, by its measured rates (null: not calibrated; then without times). If the fleet's sums
// were measured on one host, several devices are ranks that share its cores, and they sum gradients after the backward
// pass. Otherwise they are machines like this one, which overlap the sums with the backward pass where a run would. If
// it was measured how much computing and summing slow each other down, that counts, too.
Estimate estimate_here(const std::vector<StepPlan>& step_plans, const Rates* rates, const RunLength& length,
                       const StepPlan* running = nullptr, const Fleet& fleet = {});

// The smallest "--grad-accum 4" with which a batch fits into `bytes`; "" if not even single samples fit.
std::string accumulation_for(const std::vector<StepPlan>& step_plans, double bytes);

}  // namespace freight::plan
