// Shares of a batch for ranks that are not alike. Each rank measures steps of the net by itself, all at the same time
// and where they will compute; a line of time by work for each then says which shares are ready together, what a step
// of all takes, and what one of them alone would take.
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

// Seconds of a step on so many units, samples or shards, of a batch.
struct StepLine {
  double fixed = 0, per_unit = 0;
  double of(double units) const { return fixed + per_unit * units; }
};
// The line through two measurements (units, seconds) of one device. What is fixed is between nothing and half of the
// second: measurements that are close to each other and noisy would say anything.
StepLine line_through(std::pair<double, double> a, std::pair<double, double> b);
// Units by rank, each `least` or more, of which the slowest is ready as early as can be. total >= least * ranks.
std::vector<int64_t> shares_of(const std::vector<StepLine>& lines, int64_t total, int64_t least);

struct RankShares {
  std::vector<std::string> devices;  // by rank: "cpu", "opencl:0"
  std::vector<int64_t> units;        // of a full batch, by rank
  bool of_shards = false;            // the units are --shards; else samples
  int64_t batch_size = 0;
  // The measured lines, by rank; empty where the shares were given, or are those of the run that goes on.
  std::vector<StepLine> lines = {};
  double sums = 0;  // seconds of a step's sums

  bool measured() const { return !lines.empty(); }
  // Predicted: a step of all together; a step of one on the whole batch.
  double together() const;
  double alone(size_t rank) const;
  size_t fastest() const;  // alone
  // "cpu 88 + opencl:0 40": like neighbors are one.
  std::string text() const;
  // The line that the start of a run says: shares and, where they were measured, times.
  std::string note() const;
  // The line that warns of computing by all of them; "" where that is faster than one alone.
  std::string warning() const;
};

// A net that is tried: made new for each trial.
struct TriedNet {
  const Config& config;
  std::function<models::Model()> make_model;
  Type inputs, targets;  // of a full batch
  CompileOptions compile;
};
// Mean seconds of a training step on the first `units` of a batch by this process alone, without sums. At least
// three steps, and as many as a second takes; `ready` is called before the first that counts.
double seconds_of_step(
    const TriedNet& net, int64_t units, const std::function<void()>& ready = [] {});

// Measures all ranks of a job, which call it together; the same result on each. `device`: this rank's.
RankShares measure_ranks(const TriedNet& net, const std::string& device, job::Ranks& ranks);

// JSON of what a run that is resumed must know, and back: nothing where the text has no shares for these devices, this
// batch and this kind of units.
std::string to_json(const RankShares& shares);
std::optional<RankShares> shares_in(const std::string& run_json, const RankShares& like);

}  // namespace freight::train
