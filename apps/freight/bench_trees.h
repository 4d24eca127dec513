// `freight bench compare TABLE --model gbdt`: fits of trees to a table on several devices, over numbers of rows.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "freight/tables/row_learner.h"

namespace freight::app {

struct TreeComparison {
  struct TimedFit {
    std::string device;
    int64_t rows = 0;
    double seconds = 0;  // of the fastest fit, with the table in memory
    double times = 1;    // speedup over the first device
    std::optional<double> dollars = {};
  };
  std::string model, data;
  tables::TreeFitWork work;
  size_t columns = 0;
  std::vector<TimedFit> fits;  // by device, then rows
  std::vector<std::string> left_out = {};

  void add(const std::string& device, int64_t rows, double seconds);
  // A sentence on each GPU: whether it pays off, and from how many of the measured rows on.
  std::vector<std::string> findings() const;
};

struct TreeComparisonOptions {
  // If given, a device that cannot fit is an error; empty: those of this machine that can.
  std::vector<std::string> devices;
  std::vector<int64_t> rows;  // to fit, ascending; empty: a sixteenth, a quarter and all of the table's rows
  double seconds = 1;         // for which each fit is repeated
  std::map<std::string, double> hourly = {};  // dollars, by device
};

// Fits all rounds without early stopping. Throws Error: device, data, and usage if the table has fewer rows.
TreeComparison compare_trees(train::Config config, const data::Source& source, const tables::RowLearner& learner,
                             const TreeComparisonOptions& options,
                             const std::function<void(const std::string&)>& progress);
std::string to_json(const TreeComparison& comparison);
void print(const TreeComparison& comparison);

}  // namespace freight::app
