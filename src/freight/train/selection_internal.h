// Selection: which of several learners of tables, or of their settings, is best, found inside the training part alone.
// Every candidate is fitted to the rows outside of each fold and measured on the fold. Whoever asks fits the chosen one
// to all rows (row_learner.cpp).
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "freight/metrics/scores.h"
#include "freight/train/leaderboard.h"
#include "freight/train/row_learner.h"

namespace freight::train {

struct SelectionRequest {
  std::vector<Candidate> whole;   // measured on all folds
  std::vector<Candidate> trials;  // further settings, by successive halving: Jamieson and Talwalkar, AISTATS 2016
  std::vector<std::string> left_out = {};
  metrics::Metric metric = {};
  int64_t folds = 5;
  uint64_t seed = 0;
  double seconds = 0;  // for all of it; 0: as long as it takes
  // Hears what is fitted next, and after each round; false ends the comparison with what is known.
  std::function<bool(const std::string& what)> goes_on = [](const std::string&) { return true; };
};

struct Selected {
  Candidate candidate;                                         // with settings for the fit on all rows
  std::vector<std::shared_ptr<const store::RowModel>> models;  // of the folds
  Array answers;         // predictions for the rows of these folds, by models that had not seen them
  metrics::Truth truth;  // of the same rows
  Leaderboard board;
  bool stopped = false;  // by goes_on
};

// True where the first is better by the mean of the folds that both have: the time may have ended before one had all,
// and folds are not equally hard. Scores are in the order of the folds.
bool better_on_shared_folds(const metrics::Metric& metric, const std::vector<double>& first,
                            const std::vector<double>& second);

// Throws the error of a candidate that is the only one. Where all fail: Error(runtime) with the reasons.
Selected select(const RowData& data, const SelectionRequest& request);

}  // namespace freight::train
