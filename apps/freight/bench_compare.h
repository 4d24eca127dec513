// The flags of `freight bench compare`, and the two comparisons with their own files: numbers of devices
// (bench_world.cpp) and the networks of a study of 2017 (bench_classic.cpp). bench_compare.cpp compares devices for a
// network, bench_trees.cpp for trees of a table.
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

// The batch size, for comparisons with a single one; 0: not given. Throws Error(usage) for several.
int64_t one_batch(const CompareFlags& flags, const Options& options);
// Writes the JSON to --out and prints it with --json; returns false if the table is to be printed instead.
bool print_json(const CompareFlags& flags, const std::string& json);

// Both return the exit code.
int compare_worlds(const CompareFlags& flags, const Options& options, const Args& args);
int compare_classic(const CompareFlags& flags, const Options& options);

}  // namespace freight::app
