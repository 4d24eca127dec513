// Leaderboard: the result of comparing learners of tables and their settings, best first. selection_internal.h makes
// it, the command and `report` show it, run.json keeps it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace freight::tables {

// A learner with settings, as far as it was measured.
struct ModelScore {
  std::string learner, settings;   // the latter where they are not the usual ones: "--lr 0.05 --max-depth 4"
  double mean = 0, deviation = 0;  // of the metric over the folds
  int64_t folds = 0;               // measured on so many
  int64_t rows = 0;                // that each fit had
  bool whole = true;               // false: on a share of the rows, which others did better on
  double fit_seconds = 0;          // of one fit, in the mean
  double row_seconds = 0;          // of answering one row
  double bytes = 0;                // of the model as it is stored
};

struct Leaderboard {
  std::string metric;
  bool higher = false;         // the higher, the better
  std::string pass = "round";  // of the chosen one's fit: "round" or "epoch"
  int64_t folds = 0;
  std::vector<ModelScore> standings;  // the chosen one first
  std::vector<std::string> left_out;  // "gbdt: why"
  double seconds = 0;                 // that the comparison took

  // The chosen one with its settings: "gbdt --lr 0.05"; "" if nothing was compared.
  std::string best() const;
};

// The table, a line each, under a line of headings.
std::vector<std::string> lines_of(const Leaderboard& board);
// The form that run.json has: {"metric", "folds", "seconds", "standings": [{"learner", "mean", ...}], "left_out"}.
std::string to_json(const Leaderboard& board);
// Reads what to_json wrote; in runs that are damaged or of another version, missing parts stay empty.
Leaderboard leaderboard_in(const std::string& json);

}  // namespace freight::tables
