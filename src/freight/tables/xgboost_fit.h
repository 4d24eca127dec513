// Fits trees by XGBoost, in this process alone or on several ranks, each of which keeps the bins of its share of the
// rows (xgboost_job.h). The bins have the borders of all rows, so that the trees are those of one process, except for
// the order in which numbers are added.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "freight/tables/xgboost_learner.h"

namespace freight::tables {

// The values of a page that XGBoost stores on disk, 8 bytes each; it reads some pages ahead.
inline constexpr int64_t kCellsOfPage = 1 << 20;

// True for "cuda:1".
bool on_gpu(const std::string& device);
// Called before anything is fitted. Throws Error(device) for a library without CUDA, or if there is no GPU that it can
// use.
void check_device(const Xgboost& library, const std::string& device);
// Checks a fit by several ranks: the library, the objective, and that each rank has a row. Throws Error(device, usage).
void check_ranks(const Xgboost& library, const RowData& data, const TreeSettings& settings);

// See RowLearner::fit. `data.together`: all ranks but the first call fit_trees_with_rank_zero.
std::shared_ptr<const store::RowModel> fit_trees(const TreeLearner& learner, const train::Config& config,
                                                 const RowData& data,
                                                 const std::function<bool(const Round&)>& on_round);
void fit_trees_with_rank_zero(const TreeLearner& learner, const train::Config& config, job::Ranks& ranks);

}  // namespace freight::tables
