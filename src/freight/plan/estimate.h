// Estimate: a step plan on a device: does it fit and by what means, how long, what it costs. Every time is a range, and
// the assumption behind it is named.
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
  double middle() const;  // geometric mean
  Range operator*(double factor) const { return {low * factor, high * factor}; }
  Range operator+(const Range& other) const { return {low + other.low, high + other.high}; }
};

// A step is bound by one of these.
enum class Bound : uint8_t { compute, memory, launch, transfer };
inline constexpr size_t kBounds = 4;
const char* to_string(Bound bound);

// Times or shares of a time, by what bounds it.
struct ByBound {
  std::array<double, kBounds> at{};
  double& operator[](Bound b) { return at[static_cast<size_t>(b)]; }
  double operator[](Bound b) const { return at[static_cast<size_t>(b)]; }
  double sum() const;
  Bound largest() const;
  void add(const ByBound& other, double times = 1);
  ByBound shares() const;  // of the sum; all 0 where that is 0
};

// How a device turns work into time where nothing was measured on it: fractions of its dense peak and bandwidth, and
// seconds per kernel. `best`: as in well-tuned large kernels; `usual`: as in whole training steps of common software.
struct Assumption {
  double best_matmul = 0, usual_matmul = 0;  // of the dense peak
  double best_bandwidth = 0, usual_bandwidth = 0;
  double best_launch = 0, usual_launch = 0;  // seconds per kernel
  std::string peak;                          // "bf16 989 TFLOP/s dense"
  std::string matmul_source, bandwidth_source;
};
Assumption assumption(const Device& device, DType compute);

// A device reaches these: FLOPs per second in products of each type and in all else, bytes per second, seconds per
// kernel; bytes per second to or from its host (0: not known, counted as copies in its memory).
struct Speed {
  double f32 = 0, f64 = 0, bf16 = 0, f16 = 0, plain = 0, bytes = 0, transfer = 0, launch = 0;
  double chained =
      0;  // seconds per further kernel of a step (Work::launches); 0 of a processor, which stays in its kernel
};
Speed best_speed(const Device& device, const Assumption& assumption);
Speed usual_speed(const Device& device, const Assumption& assumption);

// Seconds of one step of a plan, alone.
double seconds_of(const Work& work, const Speed& speed, Bound* bound = nullptr);
// Seconds of a plan: copies to host memory and back run beside its kernels, as far as these need not wait for them.
double seconds_of(const std::vector<Work>& work, const Speed& speed);

struct Estimate {
  std::string device;
  int64_t devices = 1;
  double total_bytes = 0;   // that the run takes of each at its peak
  double memory_bytes = 0;  // of each; 0: unknown
  std::optional<bool> fits;
  std::string means;          // by what it fits: "", "--grad-accum 4"; or why not
  int64_t largest_batch = 0;  // without other means; 0: none, or unknown
  Range step_seconds;         // of one training step, data and gradients of other devices included
  // Reading its batch and sending it to the device takes these, beside the computation unless a processor does both.
  Range data_seconds;
  Range summing_seconds;      // of gradients over the devices, as far as the computation does not hide it
  Range all_summing_seconds;  // of them, hidden or not
  Range waiting_seconds;      // for the slowest device
  std::string link;           // that gradients are sent over
  std::string beyond;         // why the range is a band around what nobody measured; "": it is none
  // What keeps more devices from being as many times as fast: "computing" where little does, "sums over ...", "waiting
  // for the slowest device", "reading data".
  std::string limit;
  bool timed = false;
  ByBound shares;          // of the computation
  double utilisation = 0;  // of the dense peak, at the range's middle
  std::string assumed;     // the source of the times
  Range samples_per_second, epoch_hours, run_hours;
  Range evaluation_hours, checkpoint_hours;  // in the run
  std::optional<Range> dollars, watt_hours;  // of the run
  std::optional<Offer> offer;
};

// A run is made of these besides the computation of its step.
struct RunLength {
  double steps_per_epoch = 0, epochs = 0;  // 0: not known
  double evaluations = 0;                  // in the run
  double evaluation_samples = 0;           // in each
  double checkpoints = 0;                  // in the run
  Range load_seconds;                      // of one sample, on one core
  double sample_bytes = 0;                 // sent to the device
  bool saves_in_place = false;             // the run waits until a checkpoint is written
  double workers = 0;                      // threads that read; 0: one for each core
  // From the setup's data and configuration; `samples` > 0 stands for the data's count.
  static RunLength of(const TrainingSetup& setup, int64_t samples = 0);
};

// On devices of the catalogue. `step_plans`: as plan_steps() makes them, of the batch of one device. `running`: the
// plan that runs, where it is not the first of them, but one that offloads.
Estimate estimate(const std::vector<StepPlan>& step_plans, const Device& device, const Catalog& catalog,
                  const RunLength& length, const Fleet& fleet = {}, const StepPlan* running = nullptr);
// The pace at which one device that trains `rate` samples per second, as was measured, does the first step plan.
Pace pace_of(const std::vector<StepPlan>& step_plans, const Device& device, double rate);
// Seconds of the computation of one training step, by rates measured on the machine.
Range step_seconds(const StepPlan& step_plan, const Rates& rates);
// On this machine, by its measured rates (null: not calibrated; then without times). Several devices are ranks that
// share its processors where the fleet's sums were measured on one host, and sum gradients behind the backward half.
// Else they are machines like this one, and sum beside it where a run would. What computing and summing cost each other
// counts where that was measured.
Estimate estimate_here(const std::vector<StepPlan>& step_plans, const Rates* rates, const RunLength& length,
                       const StepPlan* running = nullptr, const Fleet& fleet = {});

// "--grad-accum 4", the fewest parts with which `bytes` hold a batch; "" where not even single samples fit.
std::string accumulation_for(const std::vector<StepPlan>& step_plans, double bytes);

}  // namespace freight::plan
