// The division of a batch among heterogeneous ranks. All ranks measure steps of the network at the same time, on the
// devices that will train. From a line of time over work for each rank follow the shares that end together, the time of
// a common step, and the time that each rank would need alone.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "freight/job/ranks.h"
#include "freight/models/models.h"
#include "freight/trace/compile.h"
#include "freight/train/config.h"

namespace freight::train {

// The seconds of a step as a function of units (samples or shards) of a batch.
struct StepLine {
  double fixed = 0, per_unit = 0;
  double of(double units) const { return fixed + per_unit * units; }
};
// The line through two measurements (units, seconds) of one device. The fixed part is limited to between zero and half
// of the second measurement, since close and noisy measurements would otherwise give arbitrary lines.
StepLine line_through(std::pair<double, double> a, std::pair<double, double> b);
// The units of each rank, at least `least`, that minimize the time of the slowest; total >= least * ranks.
std::vector<int64_t> shares_of(const std::vector<StepLine>& lines, int64_t total, int64_t least);

struct RankShares {
  std::vector<std::string> devices;  // by rank: "cpu", "opencl:0"
  std::vector<int64_t> units;        // the units of a full batch, by rank
  bool of_shards = false;            // units are shards (--shards); else samples
  int64_t batch_size = 0;
  // The measured lines, by rank; empty if the shares were given, or are those of a resumed run.
  std::vector<StepLine> lines = {};
  double sums = 0;  // the seconds of a step's all-reduce

  bool measured() const { return !lines.empty(); }
  // Predicted seconds of a step of all ranks together, and of one rank on the whole batch.
  double together() const;
  double alone(size_t rank) const;
  size_t fastest() const;  // alone
  // "cpu 88 + opencl:0 40"; equal neighbors are combined.
  std::string text() const;
  // The note at the start of a run: the shares and, if they were measured, the times.
  std::string note() const;
  // A warning if all ranks together are slower than one of them alone; else "".
  std::string warning() const;
};

// The network for trial steps, which is made again for each trial.
struct TriedNet {
  const Config& config;
  std::function<models::Model()> make_model;
  Type inputs, targets;  // of a full batch
  CompileOptions compile;
};
// The mean seconds of a training step of this process on the first `units` of a batch, without all-reduce, over one
// second, at least three steps. `ready` is called before the first step that counts.
double seconds_of_step(
    const TriedNet& net, int64_t units, const std::function<void()>& ready = [] {});

// Measures all ranks of a job. A collective, with the same result on every rank. `device`: this rank's.
RankShares measure_ranks(const TriedNet& net, const std::string& device, job::Ranks& ranks);

// Convert the shares to JSON for run.json and back, for resumed runs. Empty if the text has no shares for these
// devices, this batch size and this kind of units.
std::string to_json(const RankShares& shares);
std::optional<RankShares> shares_in(const std::string& run_json, const RankShares& like);

}  // namespace freight::train
