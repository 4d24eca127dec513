// The columns of the CSV that `freight predict` writes for a table: first those that identify a row, then the
// prediction under the target's name and the probability of each class under the class's name; or those of --columns.
#pragma once
#include <string>
#include <vector>

#include "freight/store/bundle.h"

namespace freight::app {

struct CsvColumn {
  enum class Of {
    place,        // file:line of the row
    input,        // a column of the table, as it is written there
    prediction,   // the value, or the class; for top-k lines the class of the line
    confidence,   // the probability of that class
    probability,  // of the class or label `index`
    value,        // of the target `index`, of a network
    labels        // those that are predicted, of a network
  };
  Of of = Of::prediction;
  std::string name = {};
  int64_t index = 0;  // of a class, or among input_columns()
};

struct CsvOptions {
  std::vector<std::string> names = {};  // of --columns; empty: the default ones
  bool lines_of_classes = false;        // top-k lines for each row, each with a class and its probability
};
// The columns of a table, or of a network with named values or several labels per sample; none for other networks.
// Names other than the target, a class, "path" and "probability" are columns of the table. Throws Error(usage) that
// names --columns for a name that appears twice.
std::vector<CsvColumn> csv_columns(const store::Bundle& bundle, const CsvOptions& options);
// The columns of the table among them, in the order of CsvColumn::index.
std::vector<std::string> input_columns(const std::vector<CsvColumn>& columns);

}  // namespace freight::app
