// Finds columns of a table without information for a model: none of their values is a category of training, or all are
// missing.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "freight/base/array.h"
#include "freight/store/row_model.h"

namespace freight::store {

class ColumnGaps {
 public:
  // Counts the rows of `values`, f64 (rows, columns), as the model takes them.
  void add(const std::vector<Column>& columns, const Array& values);
  void add(const ColumnGaps& others);  // adds the counts of the same columns
  int64_t rows() const { return rows_; }
  // A line for each column that is missing in all rows, and for each whose values all did not occur in training. Few
  // rows may lack a column that was missing in some rows of training, too.
  std::vector<std::string> warnings(const std::vector<Column>& columns) const;

 private:
  int64_t rows_ = 0;
  std::vector<int64_t> unknown_, missing_;  // number of values, by column
};

}  // namespace freight::store
