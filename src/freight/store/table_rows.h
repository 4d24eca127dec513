// Converts the values of a table to the rows that a model takes: numbers of its columns, in its order.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "freight/data/cells.h"
#include "freight/store/row_model.h"

namespace freight::store {

// The kinds of cells to request from a reader of a table: those of `columns` at their places; all others are skipped.
std::vector<data::CellKind> kinds_of(const std::vector<Column>& columns, const std::vector<size_t>& places,
                                     size_t width);

// A row of a table that no model can take.
struct RowFault {
  int64_t row = 0;
  std::string reason;
};

// The values of a table for a model of these columns. The cells were read with kinds_of(), except that dates may be
// times.
class TableRows {
 public:
  TableRows(const std::vector<Column>& columns, std::shared_ptr<const data::Cells> cells, std::vector<size_t> places);
  // `cells` must outlive this object.
  TableRows(const std::vector<Column>& columns, const data::Cells& cells, const std::vector<size_t>& places)
      : TableRows(columns, {std::shared_ptr<void>(), &cells}, places) {}
  // Values that are not numbers where numbers are needed, ordered by row, at most one per row.
  const std::vector<RowFault>& faults() const { return faults_; }
  // f64 (rows, columns), as row_of makes them; NaN for invalid values.
  Array values(std::span<const uint32_t> rows) const;
  void values(std::span<const uint32_t> rows, double* to) const;
  Array row(int64_t row) const;  // f64 (columns)
  // One column's values of these rows.
  void column(size_t column, std::span<const uint32_t> rows, double* to) const { fill(column, rows, to, 1); }
  int64_t width() const { return static_cast<int64_t>(places_.size()); }

 private:
  void fill(size_t column, std::span<const uint32_t> rows, double* to, size_t stride) const;
  std::vector<Column> columns_;
  std::shared_ptr<const data::Cells> cells_;
  std::vector<size_t> places_;
  std::vector<std::vector<double>> word_numbers_;  // by column and code
  std::vector<RowFault> faults_;
};

}  // namespace freight::store
