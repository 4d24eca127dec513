// The cells of a table as the rows that a model takes: numbers of its columns, in its order.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "freight/data/cells.h"
#include "freight/store/row_model.h"

namespace freight::store {

// A request to a reader of a table: the kinds of `columns` at their places, all others skipped.
std::vector<data::CellKind> kinds_of(const std::vector<Column>& columns, const std::vector<size_t>& places,
                                     size_t width);

// A row of a table that no model takes.
struct RowFault {
  int64_t row = 0;
  std::string reason;
};

// The cells of a table as what a model of these columns takes. `cells` outlive it, and were read as kinds_of says.
class TableRows {
 public:
  TableRows(const std::vector<Column>& columns, const data::Cells& cells, const std::vector<size_t>& places);
  // By row, one for each: cells that are no numbers where numbers are needed.
  const std::vector<RowFault>& faults() const { return faults_; }
  // f64 (rows, columns), as row_of makes them; NaN in place of cells at fault.
  Array values(std::span<const int64_t> rows) const { return values(rows, {}); }
  Array values(std::span<const int64_t> rows,
               const std::string& folder) const;  // in a file of this folder (io::zeros_in)
  Array row(int64_t row) const;                   // f64 (columns)

 private:
  void fill(size_t column, std::span<const int64_t> rows, double* out) const;
  const data::Cells& cells_;
  std::vector<size_t> places_;
  std::vector<std::vector<double>> word_numbers_;  // by column and code
  std::vector<RowFault> faults_;
};

}  // namespace freight::store
