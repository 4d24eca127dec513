// Examines a table model on held-out rows: permutation importance of each column, mean SHAP values, partial
// dependence, and the worst predictions.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "freight/metrics/scores.h"
#include "freight/store/bundle.h"

namespace freight::report {

// Partial dependence: the mean prediction if a column has one value in all rows.
struct PartialDependence {
  int64_t column = 0;
  std::vector<std::string> words;  // the most frequent categories of a column of categories; else empty
  std::vector<double> at;          // of a column of numbers, ascending
  // By output, along `at` or `words`: for two classes the probability of the second, for more those of the first six.
  std::vector<std::vector<double>> predictions;
  std::vector<std::string> outputs;  // the names of these outputs
};

struct WorstRow {
  int64_t row = 0;                 // its number in the held-out part, from 0
  std::string truth, predicted;    // true and predicted class or value
  double loss = 0;                 // nats, or the squared error
  std::vector<std::string> cells;  // by column; "" for missing values
};

struct TableExamination {
  std::vector<std::string> columns;
  // Measures of the model itself (gain, cover, splits), then "permutation": the increase of the held-out loss if the
  // column's values are shuffled among the rows, and "mean |SHAP|" if the model has contributions.
  std::vector<store::Importance> importance;
  int64_t measured_rows = 0;                  // number of rows behind the last two measures
  std::vector<PartialDependence> dependence;  // of the most important columns
  std::vector<WorstRow> worst;  // the worst first; empty for a ranking, since its rows are not predicted individually
  std::vector<metrics::Score> ranking;  // for a ranking only: its metrics
  int64_t queries = 0;                  // number of queries behind these means
};

// `poll` returns whether to continue; false ends the examination with the results so far.
TableExamination examine_table(const store::Bundle& bundle, const store::Rows& rows, int64_t worst,
                               const std::function<bool()>& poll);

}  // namespace freight::report
