// The learners gbdt and forest: boosted trees and random forests, fitted by XGBoost.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "freight/tables/row_learner.h"
#include "freight/tables/xgboost_model.h"

namespace freight::tables {

inline constexpr double kGbdtRate = 0.1;

class TreeLearner : public RowLearner {
 public:
  enum class Kind { gbdt, forest };
  explicit TreeLearner(Kind kind) : kind_(kind) {}

  std::string name() const override { return kind_ == Kind::gbdt ? "gbdt" : "forest"; }
  std::string doc() const override;
  void choose(train::Config& config) const override;
  std::vector<std::string> flags() const override;
  bool fits_rankings() const override { return kind_ == Kind::gbdt; }
  const char* compute() const override { return "f32"; }
  bool runs_on(const std::string& device) const override;
  RowData read(const RowSource& source) const override;
  std::string folder_for(const train::Config& config, const RowSource& source) const override;
  train::Cost cost(const train::Config& config, const RowData& data) const override;
  std::optional<TreeFitWork> tree_work(const train::Config& config, const RowData& data) const override;
  std::shared_ptr<const store::RowModel> fit(const train::Config& config, const RowData& data,
                                             const std::function<bool(const Round&)>& on_round) const override;
  std::optional<Candidate> trial(const train::Config& config, int64_t number) const override;
  train::Config settled(const train::Config& config,
                        const std::vector<std::shared_ptr<const store::RowModel>>& folds) const override;
  bool reads_held_out(const train::Config& config) const override;
  bool fits_by_several() const override { return true; }
  void fit_with_rank_zero(const train::Config& config, job::Ranks& ranks) const override;
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

// Parameters under XGBoost's own names.
using TreeParameters = std::vector<std::pair<std::string, std::string>>;

// The settings of a fit, all of them decided.
struct TreeSettings {
  TreeParameters parameters;
  std::string objective;  // "binary:logistic"
  int64_t rounds = 1, early_stop = 0;
  double min_improvement = 0;  // a smaller one counts as none
  double quantile = 0.5, tweedie_power = 1.5;
};
// Throws Error(usage) that names a flag which does not suit the data, and Error(device) if the library cannot do what
// is asked.
TreeSettings tree_settings(const train::Config& config, const RowData& data, const Xgboost& library,
                           TreeLearner::Kind kind);

// The loss of a row's prediction by the objective: nats for classes, the squared error for squarederror, ... Rankings
// are judged by a metric, since their rows have no loss of their own.
double tree_loss(const TreeSettings& settings, const float* prediction, double label);

}  // namespace freight::tables
