// `freight plan TABLE`: what fitting trees to a table takes, here and on GPUs, and whether a GPU is worth it.
#pragma once
#include <string>

#include "freight/train/row_learner.h"
#include "plan_options.h"

namespace freight::app {

// The learner of trees that a configuration asks for; null where it asks for something else.
const train::RowLearner* planned_trees(const train::Config& config);

struct TablePlanFlags {
  std::string sort;
  int64_t top = 20;  // devices; 0: all
  bool json = false, csv = false;
};
// Measures a few rounds on this machine, on the table's first rows, and prints. Throws Error.
void plan_table(const train::Config& config, const train::RowLearner& learner, const plan::Catalog& catalog,
                int64_t rows, const TablePlanFlags& flags);

}  // namespace freight::app
