// Leaderboard: the result of comparing learners of tables and their settings, best first, or of cross-validating a
// network. tables/selection_internal.h and net_folds.cpp make it, the command and `report` show it, run.json keeps it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace freight::train {

// The scores of a learner with its settings.
struct ModelScore {
  std::string learner, settings;   // settings that differ from the defaults: "--lr 0.05 --max-depth 4"
  double mean = 0, deviation = 0;  // mean and standard deviation of the metric over the folds
  int64_t folds = 0;               // the number of folds it was evaluated on
  int64_t rows = 0;                // the number of rows of each fit
  bool whole = true;               // false: only a fraction of the rows, on which other settings were better
  double fit_seconds = 0;          // the mean time of a fit
  double row_seconds = 0;          // the time of predicting a row
  double bytes = 0;                // the size of the saved model
};

// The result of a comparison, as run.json has it.
struct Leaderboard {
  std::string metric;                 // the name of the metric that decided
  bool higher = false;                // true if higher is better
  std::string pass = "round";         // a pass of the chosen learner's fit: "round" or "epoch"
  int64_t folds = 0;                  // into which the training set was divided
  std::vector<ModelScore> standings;  // the chosen one first
  std::vector<std::string> left_out;  // "gbdt: why"
  double seconds = 0;                 // the time of the comparison

  // The chosen one with its settings: "gbdt --lr 0.05"; "" if nothing was compared.
  std::string best() const;
};

// The lines of a table with a heading.
std::vector<std::string> lines_of(const Leaderboard& board);
// The JSON in run.json: {"metric", "folds", "seconds", "standings": [{"learner", "mean", ...}], "left_out"}.
std::string to_json(const Leaderboard& board);
// Reads what to_json wrote; in runs that are damaged or of another version, missing parts stay empty.
Leaderboard leaderboard_in(const std::string& text);

}  // namespace freight::train
