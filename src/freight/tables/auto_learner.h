// The learner auto: it compares the learners of tables that fit the task, and becomes the best one
// (tables/row_learner.h). The saved model is a model of that learner.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "freight/tables/row_learner.h"

namespace freight::tables {

class AutoLearner : public RowLearner {
 public:
  std::string name() const override { return "auto"; }
  std::string doc() const override { return "compares the others in a stated time (--time-budget), and is the best"; }
  std::vector<std::string> flags() const override;
  bool fits_rankings() const override { return true; }
  bool chooses() const override { return true; }
  bool fits_by_several() const override { return true; }
  const char* compute() const override { return "f64 or f32"; }  // before a learner is chosen
  bool runs_on(const std::string& device) const override;
  RowData read(const RowSource& source) const override;
  // The largest cost of the learners that are compared.
  train::Cost cost(const train::Config& config, const RowData& data) const override;
  std::vector<Candidate> candidates(const train::Config& config, const RowData& data,
                                    std::vector<std::string>& left_out) const override;
  // Throws Error(usage): auto itself fits nothing.
  std::shared_ptr<const store::RowModel> fit(const train::Config& config, const RowData& data,
                                             const std::function<bool(const Round&)>& on_round) const override;
};

}  // namespace freight::tables
