// Examines a model of rows by rows that it has not seen: how much worse it is without each column, what each
// adds in the mean, how its answer moves with each, and the rows that it tells worst.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "freight/store/bundle.h"
#include "freight/train/scores.h"

namespace freight::report {

// The mean answers where a column of all rows has one value.
struct PartialDependence {
  int64_t column = 0;
  std::vector<std::string> words;  // of a column of words, those that are most frequent; else empty
  std::vector<double> at;          // of a column of numbers, rising
  // By output, along `at` or `words`: of two classes the probability of the second, of more those of the first six.
  std::vector<std::vector<double>> answers;
  std::vector<std::string> outputs;  // names of these
};

struct WorstRow {
  int64_t row = 0;                 // its number in the held-out part, from 0
  std::string truth, told;         // classes or values
  double loss = 0;                 // nats, or the squared error
  std::vector<std::string> cells;  // by column; "" where it is missing
};

struct TableExamination {
  std::vector<std::string> columns;
  // Measures of the model itself (gain, cover, splits), then "permutation": by how much the loss of the held-out rows
  // rises where the column's cells are shuffled among them, and "mean |SHAP|" where the model has that.
  std::vector<store::Importance> importance;
  int64_t measured_rows = 0;                  // that the last two are of
  std::vector<PartialDependence> dependence;  // of the strongest columns
  std::vector<WorstRow> worst;                // the worst first; of a ranking none, since no row is told by itself
  std::vector<train::Score> ranking;          // of a ranking alone: how good it is
  int64_t queries = 0;                        // that these are means over
};

// `poll` says whether to go on, false ends with what there is so far.
TableExamination examine_table(const store::Bundle& bundle, const store::Rows& rows, int64_t worst,
                               const std::function<bool()>& poll);

}  // namespace freight::report
