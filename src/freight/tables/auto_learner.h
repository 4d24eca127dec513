// The learner auto: it compares those of tables that fit the task, and is whichever is best (train/row_learner.h). What
// it stores is a model of that learner.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "freight/train/row_learner.h"

namespace freight::tables {

class AutoLearner : public train::RowLearner {
 public:
  std::string name() const override { return "auto"; }
  std::string doc() const override { return "compares the others in a stated time (--time-budget), and is the best"; }
  std::vector<std::string> flags() const override;
  bool ranks() const override { return true; }
  bool chooses() const override { return true; }
  bool fits_by_several() const override { return true; }
  const char* compute() const override { return "f64 or f32"; }  // before one is chosen
  bool runs_on(const std::string& device) const override;
  train::RowData read(const train::RowSource& source) const override;
  // The largest of those that are compared.
  train::Cost cost(const train::Config& config, const train::RowData& data) const override;
  std::vector<train::Candidate> candidates(const train::Config& config, const train::RowData& data,
                                           std::vector<std::string>& left_out) const override;
  // Throws Error(usage): by itself it fits nothing.
  std::shared_ptr<const store::RowModel> fit(const train::Config& config, const train::RowData& data,
                                             const std::function<bool(const train::Round&)>& on_round) const override;
};

}  // namespace freight::tables
