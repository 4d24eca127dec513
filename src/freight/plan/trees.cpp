// See trees.h.
//
// Published: GBM-perf (github.com/szilard/GBM-perf, README and issues 57 and 58, November 2025), XGBoost on the airline
// table of 8 cells a row, 100 trees of 10 levels. Seconds:
//   rows        32 cores   V100   A10G   A100   H100
//   100,000     0.4        0.7
//   1,000,000   2.7        1.3
//   10,000,000  40         5      3.7    3.7    3.6
// A V100's times are a line: what each level of a tree costs by itself (its kernels are launched), and what a cell on
// it costs. The others are published at 10 million rows alone; their levels are taken to cost what a V100's do.
#include "freight/plan/trees.h"

#include <algorithm>

#include "freight/base/cpu_info.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"

namespace freight::plan {

namespace {

constexpr double kCells = 8, kLevels = 100 * 10;  // of the published table and its trees
constexpr double kV100Small = 1.3, kV100Large = 5;
constexpr double kSmallRows = 1e6, kLargeRows = 1e7;
constexpr double kSecondsOfCell = (kV100Large - kV100Small) / ((kLargeRows - kSmallRows) * kCells * kLevels);
constexpr double kSecondsOfLevel = kV100Small / kLevels - kSecondsOfCell * kSmallRows * kCells;
// Other tables have other numbers of bins and of missing values than the published one.
constexpr Range kOtherTables = {0.6, 2};
constexpr double kUsable = 0.94;  // fraction of a GPU's memory, as for networks
// Bytes of a value's bin number; of a row's gradients, position in the tree, prediction and label; of CUDA itself.
constexpr double kBytesOfCell = 2, kBytesOfRow = 28, kBytesOfCuda = 0.5e9;
constexpr int kFirstYear = 2016;  // The year of the first GPUs that XGBoost's packages with CUDA support: Pascal.

struct PublishedGpu {
  const char* name;  // part of a name in the catalog
  double seconds;    // for 10 million rows
};
constexpr PublishedGpu kPublished[] = {{"V100", 5}, {"A10G", 3.7}, {"A100", 3.7}, {"H100", 3.6}};
constexpr double kFastest = 3.6, kV100Bandwidth = 900;  // in GB/s

// The seconds of the published run, of 10 million rows, on a device.
Range large_run_on(const Device& device, std::string& from) {
  for (const PublishedGpu& p : kPublished) {
    if (device.name.find(p.name) == std::string::npos) continue;
    from = cat("10 million rows x 100 trees took ", p.seconds, " s (GBM-perf, November 2025)");
    return {p.seconds, p.seconds};
  }
  const double slower = std::max(1.0, kV100Bandwidth / std::max(device.bandwidth_gb, 1.0));
  from = "nothing is published of this card: between an H100 and a V100, slower with its bandwidth";
  return {kFastest * std::max(1.0, 0.5 * slower), kV100Large * slower};
}

double run_seconds(const TreeWork& work, double large_run) {
  const double of_cell = std::max((large_run - kSecondsOfLevel * kLevels) / (kLargeRows * kCells * kLevels), 0.0);
  return work.tree_levels() * (kSecondsOfLevel + of_cell * work.cells());
}

void fill_times(Estimate& e, const TreeWork& work, double rounds, const Range& seconds) {
  e.timed = true;
  e.step_seconds = seconds * (1 / rounds);
  e.run_hours = seconds * (1 / 3600.0);
  e.epoch_hours = e.step_seconds * (1 / 3600.0);
  e.samples_per_second = {work.rows * rounds / seconds.high, work.rows * rounds / seconds.low};
}

}  // namespace

Estimate trees_here(const TreeWork& work, double rounds, double bytes, const TreeRate& rate) {
  const CpuInfo cpu = cpu_info();
  Estimate e;
  e.device = cat("this machine: ", cpu.model, ", ", thread_count(), " threads");
  e.memory_bytes = static_cast<double>(cpu.memory_bytes);
  e.total_bytes = bytes;
  e.fits = bytes <= e.memory_bytes;
  if (!*e.fits) e.means = "no";
  const double seconds = work.tree_levels() * work.cells() * rate.seconds_of_cell;
  fill_times(e, work, rounds, {seconds * rate.spread.low, seconds * rate.spread.high});
  e.assumed = rate.from;
  return e;
}

Estimate trees_on(const Device& device, const Catalog& catalog, const TreeWork& work, double rounds) {
  Estimate e;
  e.device = device.name;
  e.memory_bytes = device.memory_gib * 0x1p30;
  const bool runs = device.kind == "gpu" && device.vendor == "NVIDIA" && device.year >= kFirstYear;
  if (!runs) {
    e.assumed = "XGBoost has no package for it";
    return e;
  }
  e.total_bytes = kBytesOfCuda + kBytesOfCell * work.cells() + kBytesOfRow * work.rows;
  if (e.memory_bytes > 0) e.fits = e.total_bytes <= kUsable * e.memory_bytes;
  const Range large = large_run_on(device, e.assumed);
  fill_times(e, work, rounds,
             {run_seconds(work, large.low) * kOtherTables.low, run_seconds(work, large.high) * kOtherTables.high});
  e.offer = catalog.cheapest(device.name);
  if (e.offer) e.dollars = e.run_hours * e.offer->usd();
  if (device.tdp_watts > 0) {
    e.watt_hours = Range{e.run_hours.low * device.tdp_watts * 0.6, e.run_hours.high * device.tdp_watts};
  }
  return e;
}

GpuWorth worth_of_gpu(const TreeWork& work, const TreeRate& rate, const Estimate& here,
                      const std::vector<Estimate>& devices) {
  GpuWorth worth;
  // Uses the line of the V100, of which both terms are published.
  const double gained = rate.seconds_of_cell - kSecondsOfCell;
  if (gained > 0) worth.rows_here = kSecondsOfLevel / gained / std::max(work.columns, 1.0);
  worth.seconds_here = here.run_hours.middle() * 3600;
  const Estimate* best = nullptr;
  for (const Estimate& e : devices) {
    if (!e.timed || !e.fits.value_or(false)) continue;
    if (!best || e.run_hours.middle() < best->run_hours.middle()) best = &e;
  }
  if (!best) return worth;
  worth.gpu = best->device;
  worth.seconds_on_gpu = best->run_hours.middle() * 3600;
  worth.outcome = best->run_hours.high < here.run_hours.low   ? GpuWorth::Outcome::pays
                  : best->run_hours.low > here.run_hours.high ? GpuWorth::Outcome::loses
                                                              : GpuWorth::Outcome::even;
  return worth;
}

const char* published_crossing() {
  return "published: compared with 32 cores a GPU is slower below about 300,000 rows of 8 columns (100 trees of 10 "
         "levels)";
}

}  // namespace freight::plan
