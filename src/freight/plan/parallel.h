// Data parallel: what summing gradients over several devices adds to a training step. Predicted: gradients become final
// in the order and at the times of the plan's own steps; they are summed beside the steps that follow in the pieces
// that a run cuts, too (passes/pieces.h).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "freight/passes/options.h"
#include "freight/plan/catalog.h"
#include "freight/plan/work.h"

namespace freight::plan {

// Computing and summing cost each other this much on the ranks of a job, as `freight bench comm` measured it with the
// reference step of plan/reference_step.h on each.
struct BesideCompute {
  int64_t threads = 1;            // of each rank
  double products = 1, rest = 1;  // a rank's kernels take so many times as long while all ranks compute
  double slowest = 1;             // the step of the slowest rank over that of the mean one
  SumCost sum = {0, 0};           // of a sum that is made while all ranks compute
  double lost_per_byte = 0;       // seconds that each of its bytes takes from a rank's computing
};

// What `freight bench comm` measured for so many ranks: an all-reduce takes start + per_byte * bytes seconds, and no
// size departed from that by more than `deviation`, as a share.
struct MeasuredSum {
  int64_t world = 1;
  double start = 0, per_byte = 0, deviation = 0;
  std::optional<BesideCompute> beside = {};
};
struct MeasuredSums {
  std::string source;             // the file
  bool one_host = true;           // all ranks were on one, and share its processors and memory
  std::vector<MeasuredSum> sums;  // rising, of two ranks and more
};

// Times of a device's kernels, as multiples of what its figures say at both ends of the range.
struct Pace {
  double best = 1, usual = 1;
};

// Several devices of one kind, alike many in each machine.
struct Fleet {
  int64_t devices = 1;
  int64_t per_machine = 8;
  std::optional<Link> inside = {}, between = {};  // null: the device's own link, or PCIe; 100 Gbit/s
  std::optional<MeasuredSums> measured = {};      // stands in for all links
  Pace pace = {};
  double piece_of_others = 0;  // bytes of gradients that other software sums at once (PyTorch: 25 MiB); 0: Freight's
};
// A larger number was never held against a published run (bench/results/2026-11-27-scaling-predicted.txt).
inline constexpr int64_t kMostCompared = 512;

struct Sums {
  SumCost best = {0, 0}, usual = {0, 0};     // of one sum over all devices
  std::optional<BesideCompute> beside = {};  // where it was measured
  std::string link;                          // the slowest on the way; "": what connects the devices is not known
  std::string beyond;                        // why the range is a band around what was not measured; "": it is none
};
// By the figures of links, or by measured sums. One device has none, which take no time.
Sums sums_of(const Device& device, const Fleet& fleet, const Catalog& catalog);
// Of ranks on processors, one per host unless all measured ones were on one host: by measured sums, or by the network
// that the fleet names.
Sums sums_of_processors(const Fleet& fleet);

struct Summing {
  double seconds = 0;  // of all pieces
  double exposed = 0;  // by which the last ends after the last step
  double beside = 0;   // bytes of the pieces that travel before it
};
// `seconds`: of each step of `work`. `bytes` of gradients in all: what no step is seen to finish is sent behind the
// last. Pieces are cut by `cost`, and take it, or `beside`, which sums beside compute take.
struct SumCosts {
  SumCost cost = {0, 0};
  std::optional<SumCost> beside = {};
};
Summing sum_gradients(const std::vector<Work>& work, const std::vector<double>& seconds, double bytes,
                      const SumCosts& costs, double piece_of_others = 0);

// The largest of n draws from a normal distribution, on average, in standard deviations: all devices wait for the
// slowest.
double slowest_of(int64_t n);

}  // namespace freight::plan
