// `freight plan TABLE`: the time, memory and cost of fitting trees to a table, here and on GPUs, and whether a GPU is
// worth it.
#pragma once
#include <string>
#include <vector>

#include "freight/plan/trees.h"
#include "freight/tables/row_learner.h"
#include "plan_options.h"

namespace freight::app {

// The learner of trees in a configuration; null if it has another model.
const tables::RowLearner* planned_trees(const train::Config& config, const data::Source& source);

// The rows of the configuration's table, without those that cannot be read; from the first `most_bytes` of its files,
// 0: all. Sets what the learner chooses in the configuration.
tables::RowData read_rows(train::Config& config, const data::Source& source, const tables::RowLearner& learner,
                          uint64_t most_bytes = 0);

// The plan of a fit, before it is printed.
struct TablePlan {
  std::string model, data;
  double rows = 0;  // for training
  bool rows_estimated = false;
  size_t columns = 0, classes = 0;
  tables::TreeFitWork fit;
  double bytes = 0;
  plan::GpuWorth worth;
  std::vector<plan::Estimate> estimates;  // of this machine first, then of the devices

  bool forest() const { return fit.rounds == 1 && fit.trees_of_round > 1; }
  std::string trees_text() const;  // "1,000 rounds at most, 6 levels"
  std::string rows_text() const;   // "about 80,000 rows to fit, 28 columns learnt from, 2 classes"
  std::string outcome() const;     // whether a GPU pays off
};
// Measures a few rounds on this machine, on the table's first rows. `rows`: the number of rows if it differs from the
// file's; 0: the file's. Throws Error.
TablePlan make_table_plan(const train::Config& config, const PlanInput& in, int64_t rows);

// The planned fit of trees: each command begins its JSON with it.
nlohmann::ordered_json json_of_run(const TablePlan& plan);

struct TablePlanFlags {
  std::string sort;
  int64_t top = 20;  // devices to show; 0: all
  bool json = false, csv = false;
};
// Makes and prints the plan of a fit.
void plan_table(const train::Config& config, const PlanInput& in, int64_t rows, const TablePlanFlags& flags);

}  // namespace freight::app
