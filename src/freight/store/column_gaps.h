// Columns of a table in which a model finds nothing: no cell of one is a category of training, or all are missing.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "freight/base/array.h"
#include "freight/store/row_model.h"

namespace freight::store {

class ColumnGaps {
 public:
  // `values` are f64 (rows, columns), as the model takes them.
  void add(const std::vector<Column>& columns, const Array& values);
  void add(const ColumnGaps& others);  // of the same columns
  int64_t rows() const { return rows_; }
  // A line for each column that is empty in all rows, and for each of whose cells training had none. A few rows may
  // lack a column that training lacked in places.
  std::vector<std::string> warnings(const std::vector<Column>& columns) const;

 private:
  int64_t rows_ = 0;
  std::vector<int64_t> unknown_, missing_;  // cells, by column
};

}  // namespace freight::store
