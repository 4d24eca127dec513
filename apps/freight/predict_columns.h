// The columns of the CSV that `freight predict` writes for a table: what identifies a row first, then the prediction
// under the target's name and the probability of each class under the class's name; or those of --columns.
#pragma once
#include <string>
#include <vector>

#include "freight/store/bundle.h"

namespace freight::app {

struct CsvColumn {
  enum class Of {
    place,       // file:line of the row
    input,       // a column of the table, as it is written
    prediction,  // the value, or the class; of top-k lines that of the line
    confidence,  // the probability of that class
    probability  // of the class `index`
  };
  Of of = Of::prediction;
  std::string name = {};
  int64_t index = 0;  // of a class, or among input_columns()
};

struct CsvAsked {
  std::vector<std::string> names = {};  // of --columns; empty: the usual ones
  bool lines_of_classes = false;        // top-k lines for each row, with a class and its probability in each
};
// Names that are neither the target, a class, "path" nor "probability" are columns of the table. Throws Error(usage)
// that names --columns for one that stands twice.
std::vector<CsvColumn> csv_columns(const store::Bundle& bundle, const CsvAsked& asked);
// Those of the table, in the order of CsvColumn::index.
std::vector<std::string> input_columns(const std::vector<CsvColumn>& columns);

}  // namespace freight::app
