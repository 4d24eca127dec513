// The flags of `freight bench compare`, and the two comparisons that have files of their own: numbers of devices
// (bench_world.cpp) and the networks of a study of 2017 (bench_classic.cpp). Nets on several devices are in
// bench_compare.cpp, trees of a table in bench_trees.cpp.
#pragma once
#include <cstdint>
#include <string>

#include "command.h"
#include "freight/bench/compare.h"
#include "options.h"
#include "ranks.h"

namespace freight::app {

struct CompareFlags : JobFlags {
  std::string data, data_dir, model, target, rows, input_shape, input_size, optimizer, precision = "fp32";
  std::string devices, predict, batches = "1,2,4,8,16,32,64";
  std::string peaks, prices, watts, catalog, price_file, html, trace, out;
  std::string world, overlap = "auto", rates, scratch;
  std::string workloads, only, threads;
  int64_t classes = 0, shards = 0, workers = -1, most_steps = 0;
  bool json = false, quick = false;
  bench::CompareOptions run;

  void declare(Options& o);
};

// The batch size where one comparison takes one only; 0: none was given. Throws Error(usage) for several.
int64_t one_batch(const CompareFlags& flags, const Options& options);
// Writes the JSON to --out and prints it with --json; false: the table is to be printed.
bool print_json(const CompareFlags& flags, const std::string& json);

// Both return the exit code.
int compare_worlds(const CompareFlags& flags, const Options& options, const Args& args);
int compare_classic(const CompareFlags& flags, const Options& options);

}  // namespace freight::app
