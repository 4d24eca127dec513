// See xgboost_learner.h.
#include "freight/tables/xgboost_learner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>

#include "freight/base/clock.h"
#include "freight/base/cpu_info.h"
#include "freight/base/cpu_share.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "freight/base/usage.h"
#include "freight/io/file.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/job/signals.h"
#include "freight/tables/rank_work.h"
#include "freight/tables/table.h"
#include "freight/tables/xgboost_bins.h"
#include "freight/tables/xgboost_fit.h"

namespace freight::tables {

namespace {

constexpr double kSecondsOfCell = 1.6e-9;  // measured, for a value on a level of a tree, on one core
// Measured: a value takes its bin number twice; if the value itself is kept, also an f32 and XGBoost's own pair of
// column and value.
constexpr double kBytesOfBins = 2, kBytesOfCell = 4 + 8 + 2;
constexpr double kPagesAtOnce = 8;

double fit_seconds(const TreeFitWork& work, double cells) {
  return cells * kSecondsOfCell * static_cast<double>(work.levels * work.trees_of_round) / thread_count();
}

}  // namespace

std::string TreeLearner::doc() const {
  return kind_ == Kind::gbdt ? "boosted trees, by XGBoost" : "a random forest, by XGBoost";
}

void TreeLearner::choose(train::Config& config) const {
  if (kind_ == Kind::gbdt) config.lr = kGbdtRate;
}

std::vector<std::string> TreeLearner::flags() const {
  std::vector<std::string> all = {"--objective",      "--quantile",  "--tweedie-power",    "--max-depth",
                                  "--subsample",      "--colsample", "--min-child-weight", "--monotone",
                                  "--class-weight",   "--lambda",    "--xgboost",          "--weight-column",
                                  "--external-memory"};
  const std::vector<std::string> own =
      kind_ == Kind::gbdt ? std::vector<std::string>{"--rounds", "--early-stop", "--min-improvement", "--lr"}
                          : std::vector<std::string>{"--trees"};
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

bool TreeLearner::runs_on(const std::string& device) const { return on_gpu(device); }

RowData TreeLearner::read(const RowSource& source) const { return read_table(source); }

std::string TreeLearner::folder_for(const train::Config& c, const RowSource& source) const {
  if (c.external_memory == "off") return {};
  const char* const against = c.folds > 0                                       ? "--folds"
                              : c.tune > 0                                      ? "--tune"
                              : on_gpu(c.backend)                               ? "--device"
                              : source.several                                  ? "--devices"
                              : source.ranking && !source.weight_column.empty() ? "--weight-column of a ranking"
                                                                                : nullptr;
  const std::string folder = std::filesystem::temp_directory_path().string();
  if (c.external_memory == "on") {
    excludes({"--external-memory on", true}, {against ? against : "", against != nullptr},
             "expected one fit on the CPU");
    return folder;
  }
  const auto free = static_cast<double>(cpu_info().memory_available_bytes);
  return !against && free > 0 && bytes_of_reading(source, free) > free ? folder : std::string();
}

train::Cost TreeLearner::cost(const train::Config& c, const RowData& data) const {
  const Xgboost& library = xgboost(c.xgboost);  // a missing library is reported before anything is written
  library.hear_warnings();
  check_device(library, c.backend);
  const TreeSettings settings = tree_settings(c, data, library, kind_);
  const TreeFitWork work = *tree_work(c, data);
  const auto width = static_cast<double>(data.shape.columns.size());
  const double cells = static_cast<double>(data.train.count()) * width;
  const bool binned = !on_gpu(c.backend) && can_be_binned(data.train);
  const double held = static_cast<double>(data.held_out.count()) * width;
  if (data.together) {
    check_ranks(library, data, settings);
    // In addition to its share, a rank makes bins of all rows to find their borders.
    const double ranks = data.together->ranks().world();
    const double bytes = (binned ? (cells + cells / ranks) * kBytesOfBins : cells / ranks * kBytesOfCell) +
                         held / ranks * kBytesOfCell + cells / ranks * sizeof(double);
    return {.bytes = bytes, .seconds = fit_seconds(work, cells) / ranks};
  }
  double bytes = cells * (binned ? kBytesOfBins : kBytesOfCell) + held * kBytesOfCell;
  if (!data.folder.empty()) {
    bytes = library.version() < kOldestPages ? (cells + held) * kBytesOfBins
                                             : kPagesAtOnce * 8 * static_cast<double>(kCellsOfPage);
  }
  return {.bytes = bytes, .seconds = fit_seconds(work, cells)};
}

std::shared_ptr<const store::RowModel> TreeLearner::fit(const train::Config& config, const RowData& data,
                                                        const std::function<bool(const Round&)>& on_round) const {
  return fit_trees(*this, config, data, on_round);
}

// Sets the rounds to the mean of the best rounds on the folds: the fit on all rows has no validation set for early
// stopping.
train::Config TreeLearner::settled(const train::Config& config,
                                   const std::vector<std::shared_ptr<const store::RowModel>>& folds) const {
  train::Config c = config;
  if (kind_ == Kind::forest) return c;
  double rounds = 0;
  for (const auto& model : folds) rounds += static_cast<double>(dynamic_cast<const XgboostModel&>(*model).rounds());
  c.rounds = std::max<int64_t>(std::llround(rounds / static_cast<double>(folds.size())), 1);
  c.early_stop = 0;
  return c;
}

bool TreeLearner::reads_held_out(const train::Config& config) const {
  return kind_ == Kind::gbdt && config.early_stop != 0;
}

void TreeLearner::fit_with_rank_zero(const train::Config& config, job::Ranks& ranks) const {
  fit_trees_with_rank_zero(*this, config, ranks);
}

}  // namespace freight::tables
