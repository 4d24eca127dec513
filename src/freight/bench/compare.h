// One training step on several devices over batch sizes: measured where the device is at hand, predicted from the
// catalogue where it is not; and the arithmetic of the comparison. Runs and counts, prints nothing.
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

// One batch size on one device.
struct BatchPoint {
  int64_t batch = 0;
  double seconds = 0;        // per step with batch and result on the device; 0: there is none, `skipped` says why
  double moved_seconds = 0;  // per step that fetches its batch from the host and brings its result back; 0: not known
  plan::Range range = {};    // of a prediction, whose `seconds` is the middle
  double flops = 0;          // of a step
  std::string skipped = {};
  bool known() const { return seconds > 0; }
  double samples_per_second() const;
};

// One step of the plan at Comparison::detail.
struct StepTime {
  plan::Work work;
  double seconds = 0;
  plan::Bound bound = plan::Bound::compute;
};

struct Curve {
  std::string name;         // "cpu", "opencl:0", "H100 SXM5 80GB"
  std::string description;  // what the device is
  bool predicted = false;
  std::string assumed;                                     // where roofs and times come from
  double peak_flops = 0;                                   // dense, per second: what utilisation is a share of
  std::string peak, peak_source = {};                      // the same in words
  double roof_flops = 0, roof_bytes = 0, launch = 0;       // per second; seconds per kernel
  double usd_per_hour = 0, watts_low = 0, watts_high = 0;  // 0: not known
  std::string price, power;                                // their sources
  std::vector<BatchPoint> points = {};
  std::vector<StepTime> step_times = {};

  const BatchPoint* at(int64_t batch) const;  // null where it is not known
  const BatchPoint* fastest() const;          // most samples per second; null where none is known
};

struct Comparison {
  std::string model, input, precision, optimizer, unit, data;
  int64_t parameters = 0;
  double samples = 0;  // of an epoch; 0: not known
  int64_t detail = 0;  // the batch size of all `step_times`; 0: none
  std::vector<Curve> curves = {};
};

// From which batch on `other` takes less time for a step than `base`.
struct Crossover {
  enum class Kind { always, never, at } kind = Kind::never;
  double batch = 0;   // at: between two batch sizes, on a line in the logarithms of batch and ratio
  int64_t first = 0;  // the first batch size seen at which it is faster, and is at all larger ones
};
// By the batch sizes that both have; null where there are none.
std::optional<Crossover> crossover(const Curve& base, const Curve& other, Batches batches = Batches::resident);
// How many times as fast `other` is; null where either is not known.
std::optional<double> speed_up(const Curve& base, const Curve& other, int64_t batch,
                               Batches batches = Batches::resident);

struct EpochCost {
  double hours = 0;
  std::optional<double> dollars;
  std::optional<plan::Range> watt_hours;
};
// The cost of the training steps alone, with moved batches where these are known.
std::optional<EpochCost> epoch_cost(const Curve& curve, const BatchPoint& point, double samples);
// FLOPs per second as a share of the dense peak.
double utilisation(const Curve& curve, const BatchPoint& point);

// The module that a step belongs to, "(loss and updates)" outside of all.
std::string layer_of(const plan::Work& work);
// A layer on all devices.
struct LayerRow {
  std::string path;
  struct On {
    double seconds = 0, flops = 0, bytes = 0;
    plan::Bound bound = plan::Bound::compute;  // of the longest part of the time
  };
  std::vector<On> on;  // as Comparison::curves
};
// In the order of the plan of the first curve that has one.
std::vector<LayerRow> layers_of(const Comparison& comparison);

// The findings that follow from the figures, a sentence each.
std::vector<std::string> findings(const Comparison& comparison);

struct CompareOptions {
  std::vector<std::string> devices;          // the first is what the others are held against
  std::vector<std::string> predicted = {};   // names of the catalogue
  std::vector<int64_t> batches;              // rising
  double seconds = 1;                        // per point
  double most_seconds = 30;                  // of one step: larger batches are left out
  bool deterministic = false;                // fixed kernel choices
  double samples = 0;                        // of an epoch; 0: the data's
  double link_gb = 0;                        // per second between the host and predicted devices; 0: not known
  std::map<std::string, double> peaks = {};  // by device at hand: dense TFLOP/s; else the best product measured
  std::map<std::string, double> prices = {}, watts = {};  // dollars per hour; watts under load
};
// Called with what comes next; false stops with what there is.
using Progress = std::function<bool(const std::string& what)>;

// Throws Error(device) for a device that is not there, Error(usage) for one the catalogue lacks, before anything is
// run; Error(capacity) where no batch size fits any device at hand.
Comparison compare(const plan::TrainingSetup& setup, const plan::Catalog& catalog, const CompareOptions& options,
                   const Progress& progress);

}  // namespace freight::bench
