// Compares a training step on several devices over batch sizes: measured on devices of this machine, predicted for
// others from the catalog; and the arithmetic of the comparison. Runs and computes, prints nothing.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "freight/bench/workload.h"
#include "freight/plan/estimate.h"
#include "freight/plan/training_setup.h"

namespace freight::bench {

// A batch size on one device.
struct BatchPoint {
  int64_t batch = 0;
  double seconds = 0;        // per step with batch and result on the device; 0: not known, see `skipped`
  double moved_seconds = 0;  // per step that copies its batch from the host and its result back; 0: not known
  plan::Range range = {};    // of a prediction, whose middle is `seconds`
  double flops = 0;          // of a step
  std::string skipped = {};
  bool known() const { return seconds > 0; }
  double samples_per_second() const;
};

// A step of the plan at the batch size Comparison::detail.
struct StepTime {
  plan::Work work;
  double seconds = 0;
  plan::Bound bound = plan::Bound::compute;
};

struct Curve {
  std::string name;         // "cpu", "opencl:0", "H100 SXM5 80GB"
  std::string description;  // a description of the device
  bool predicted = false;
  std::string assumed;                                     // the source of roofs and times
  double peak_flops = 0;                                   // dense, per second: the reference of utilization
  std::string peak, peak_source = {};                      // the same as texts
  double roof_flops = 0, roof_bytes = 0, launch = 0;       // per second; `launch`: seconds per kernel
  double usd_per_hour = 0, watts_low = 0, watts_high = 0;  // 0: not known
  std::string price, power;                                // the sources of these
  std::vector<BatchPoint> points = {};
  std::vector<StepTime> step_times = {};

  const BatchPoint* at(int64_t batch) const;  // null if it is not known
  const BatchPoint* fastest() const;          // the point with the most samples per second; null if none is known
};

struct Comparison {
  std::string model, input, precision, optimizer, unit, data;
  int64_t parameters = 0;
  double samples = 0;  // per epoch; 0: not known
  int64_t detail = 0;  // the batch size of all `step_times`; 0: none
  std::vector<Curve> curves = {};
};

// The batch size from which on a step takes less time on `other` than on `base`.
struct Crossover {
  enum class Kind { always, never, at } kind = Kind::never;
  double batch = 0;   // at: interpolated between two batch sizes, in the logarithms of batch and ratio
  int64_t first = 0;  // the first measured batch size from which on it is faster
};
// Compares the batch sizes that both curves have; null if there are none.
std::optional<Crossover> crossover(const Curve& base, const Curve& other, Batches batches = Batches::resident);
// The speedup of `other` over `base`; null if either is not known.
std::optional<double> speed_up(const Curve& base, const Curve& other, int64_t batch,
                               Batches batches = Batches::resident);

struct EpochCost {
  double hours = 0;
  std::optional<double> dollars;
  std::optional<plan::Range> watt_hours;
};
// The cost of the training steps only, with copied batches if these are known.
std::optional<EpochCost> epoch_cost(const Curve& curve, const BatchPoint& point, double samples);
// The FLOPs per second as a fraction of the dense peak.
double utilization(const Curve& curve, const BatchPoint& point);

// The module that a step belongs to; "(loss and updates)" outside of all.
std::string layer_of(const plan::Work& work);
// A layer on all devices.
struct LayerRow {
  std::string path;
  struct On {
    double seconds = 0, flops = 0, bytes = 0;
    plan::Bound bound = plan::Bound::compute;  // of the longest part of the time
  };
  std::vector<On> on;  // in the order of Comparison::curves
};
// The layers, in the order of the first plan.
std::vector<LayerRow> layers_of(const Comparison& comparison);

// Conclusions from the figures, a sentence each.
std::vector<std::string> findings(const Comparison& comparison);

struct CompareOptions {
  std::vector<std::string> devices;         // the others are compared with the first
  std::vector<std::string> predicted = {};  // names of the catalog
  std::vector<int64_t> batches;             // ascending
  double seconds = 1;                       // per point
  double most_seconds = 30;                 // per step: larger batches are skipped
  bool deterministic = false;               // fixed kernel choices
  double samples = 0;                       // per epoch; 0: those of the data
  double link_gb = 0;                       // per second between the host and predicted devices; 0: not known
  // By measured device: dense TFLOP/s; otherwise the best matmul that was measured.
  std::map<std::string, double> peaks = {};
  std::map<std::string, double> prices = {}, watts = {};  // dollars per hour; watts under load
};
// Called before each measurement with its name; false stops with the results so far.
using Progress = std::function<bool(const std::string& what)>;

// Throws Error(device) for a device that does not exist, and Error(usage) for one that is not in the catalog, before
// anything is run; Error(capacity) if no batch size fits any measured device.
Comparison compare(const plan::TrainingSetup& setup, const plan::Catalog& catalog, const CompareOptions& options,
                   const Progress& progress);

}  // namespace freight::bench
