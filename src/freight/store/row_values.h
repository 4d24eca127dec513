// The values of rows for a model, f64 (N, columns): an array, or cells of a table that become numbers where they are
// read, so that a table which is fitted is in memory once. table_rows.h says which number a cell is.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "freight/base/array.h"

namespace freight::store {

class TableRows;

class RowValues {
 public:
  RowValues() = default;
  RowValues(Array values);  // NOLINT(google-explicit-constructor): an array has the values of its rows
  // The rows of a table with these numbers.
  RowValues(std::shared_ptr<const TableRows> table, std::vector<uint32_t> numbers);

  bool defined() const { return array_.defined() || table_; }
  bool of_table() const { return table_ != nullptr; }
  int64_t count() const;
  int64_t width() const;
  double bytes() const { return static_cast<double>(sizeof(double) * static_cast<size_t>(count() * width())); }
  // The values of consecutive rows: in the array, or in `room` for a table.
  const double* read(int64_t begin, int64_t end, std::vector<double>& room) const;
  std::vector<double> column(int64_t column) const;
  // All values: the array itself, or a new one for a table.
  Array array() const;
  // The rows with these numbers, which may repeat. For a table no values are copied.
  RowValues at(const std::vector<int64_t>& rows) const;
  // These rows and those of `others`, which has the same columns.
  RowValues followed_by(const RowValues& others) const;

 private:
  Array array_;
  std::shared_ptr<const TableRows> table_;
  std::vector<uint32_t> numbers_;  // of the table's rows
};

}  // namespace freight::store
