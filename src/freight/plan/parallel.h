// Data parallelism: what the all-reduce of gradients adds to a training step. It is predicted: gradients become final
// at the times of the plan's own steps, and are summed while the following steps run, in the pieces of a real run
// (passes/pieces.h).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "freight/passes/options.h"
#include "freight/plan/catalog.h"
#include "freight/plan/work.h"

namespace freight::plan {

// The factors by which computing and summing slow each other down on the ranks of a job, as `freight bench comm`
// measured them with the reference step of plan/reference_step.h on each.
struct BesideCompute {
  int64_t threads = 1;            // of each rank
  double products = 1, rest = 1;  // the factor by which a rank's kernels take longer while all ranks compute
  double slowest = 1;             // the slowest rank's step time divided by the mean
  SumCost sum = {0, 0};           // of a sum while all ranks compute
  double lost_per_byte = 0;       // seconds of computing that a rank loses per summed byte
};

// An all-reduce over this many ranks as `freight bench comm` measured it: start + per_byte * bytes seconds. No size
// deviated from that by more than the fraction `deviation`.
struct MeasuredSum {
  int64_t world = 1;
  double start = 0, per_byte = 0, deviation = 0;
  std::optional<BesideCompute> beside = {};
};
struct MeasuredSums {
  std::string source;             // the file
  bool one_host = true;           // all ranks were on one host and shared its cores and memory
  std::vector<MeasuredSum> sums;  // ascending, for two ranks and more
};

// The times of a device's kernels, as multiples of those by its figures, at both ends of the range.
struct Pace {
  double best = 1, usual = 1;
};

// Several devices of one kind, with the same number in each machine.
struct Fleet {
  int64_t devices = 1;
  int64_t per_machine = 8;
  // Null: the device's own link or PCIe inside, 100 Gbit/s between machines.
  std::optional<Link> inside = {}, between = {};
  std::optional<MeasuredSums> measured = {};  // replaces all links
  Pace pace = {};
  // Bytes of gradients that other software sums at once (PyTorch: 25 MiB); 0: Freight's pieces.
  double piece_of_others = 0;
};
// Larger numbers of devices were never compared with a published run (bench/results/2026-11-27-scaling-predicted.txt).
inline constexpr int64_t kMostCompared = 512;

struct Sums {
  SumCost best = {0, 0}, usual = {0, 0};     // of one sum over all devices
  std::optional<BesideCompute> beside = {};  // null unless it was measured
  std::string link;                          // the slowest one used; "": it is not known what connects the devices
  std::string beyond;                        // why the range extends beyond what was measured; "": it does not
};
// The costs of sums, by figures of links or by measured sums. With one device they take no time.
Sums sums_of(const Device& device, const Fleet& fleet, const Catalog& catalog);
// The costs of sums between CPUs, one per host unless all measured ranks were on one host: by measured sums, or by the
// network that the fleet names.
Sums sums_of_processors(const Fleet& fleet);

struct Summing {
  double seconds = 0;  // of all pieces
  double exposed = 0;  // by which the last piece ends after the last step
  double beside = 0;   // bytes of the pieces that are sent before the last step ends
};
// `seconds`: of each step of `work`. `bytes`: all gradients; those that no step is seen to finish are sent after the
// last step. `cost` determines the pieces and their times; `beside`, if given, is their cost while computing.
struct SumCosts {
  SumCost cost = {0, 0};
  std::optional<SumCost> beside = {};
};
Summing sum_gradients(const std::vector<Work>& work, const std::vector<double>& seconds, double bytes,
                      const SumCosts& costs, double piece_of_others = 0);

// The expected maximum of n draws from a normal distribution, in standard deviations: all devices wait for the slowest.
double slowest_of(int64_t n);

}  // namespace freight::plan
