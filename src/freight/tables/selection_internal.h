// Model selection: finds the best of several learners of tables and their settings by cross-validation on the training
// set. Every candidate is fitted on the rows outside of each fold and evaluated on the fold. The caller fits the chosen
// one on all rows (row_learner.cpp).
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "freight/metrics/scores.h"
#include "freight/tables/row_learner.h"
#include "freight/train/leaderboard.h"

namespace freight::tables {

struct SelectionRequest {
  std::vector<Candidate> whole;   // candidates that are evaluated on all folds
  std::vector<Candidate> trials;  // further settings, for successive halving (Jamieson and Talwalkar, AISTATS 2016)
  std::vector<std::string> left_out = {};
  metrics::Metric metric = {};
  int64_t folds = 5;
  uint64_t seed = 0;
  double seconds = 0;  // the time budget; 0: unlimited
  // Called before each fit and after each round; false ends the comparison with the results so far.
  std::function<bool(const std::string& what)> goes_on = [](const std::string&) { return true; };
};

struct Selected {
  Candidate candidate;                                         // with settings for the fit on all rows
  std::vector<std::shared_ptr<const store::RowModel>> models;  // its models of the folds
  Array predictions;                                           // out-of-fold predictions
  metrics::Truth truth;                                        // the targets of the same rows
  train::Leaderboard board;
  bool stopped = false;  // goes_on returned false
};

// True if the first is better on average over the folds that both have: time may have ended before one had all folds,
// and folds are not equally hard. Scores are in the order of the folds.
bool better_on_shared_folds(const metrics::Metric& metric, const std::vector<double>& first,
                            const std::vector<double>& second);

// If the only candidate fails, its error is thrown. If all of several fail, throws Error(runtime) with the reasons.
Selected select(const RowData& data, const SelectionRequest& request);

}  // namespace freight::tables
