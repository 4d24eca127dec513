// Reads rows of tables for `freight predict`: files whose columns are found by name. One thread reads blocks of rows,
// others predict a block each, and they are written in order; only a few are in memory at a time.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "freight/base/error.h"
#include "freight/data/cells.h"
#include "freight/deploy/predictor.h"
#include "freight/store/column_gaps.h"
#include "predict_output.h"

namespace freight::app {

// Consecutive rows of one file.
struct RowBlock {
  std::string file;
  std::vector<int64_t> lines;            // the line on which each row begins, from 1
  Array values;                          // f64 (N, columns), as the model takes them
  std::vector<Error> faults;             // of rows that cannot be read, which are skipped
  std::vector<std::string> passed = {};  // values that are passed through, row by row
  int64_t count() const { return static_cast<int64_t>(lines.size()); }
};

// Columns of the table whose values are written along with each row.
struct PassedColumns {
  std::vector<std::string> names = {};
  bool needed = false;  // a file without one of them is an error; otherwise its values are ""
};

// Reads several files in order. A file without a header has the model's columns in their order.
class RowStream {
 public:
  // Blocks have at most `most` rows. A row that cannot be read ends the stream if `stop_at_bad`.
  RowStream(const store::Bundle& bundle, std::vector<std::string> files, int64_t most, bool stop_at_bad,
            PassedColumns passed = {});

  // Reads the next rows; false at the end. Throws Error(data) for a file that cannot be read or lacks a column, and,
  // after the rows before it, for a row that cannot be read.
  bool next(RowBlock& block);
  // The number of blank rows that were skipped so far.
  int64_t blank_rows() const { return blank_rows_; }

 private:
  void open(const std::string& file);

  const std::vector<store::Column>& columns_;
  std::vector<std::string> files_;
  const int64_t most_;
  const bool stop_at_bad_;
  size_t next_file_ = 0;
  int64_t blank_rows_ = 0;
  std::unique_ptr<data::CellReader> reader_;  // of the current file
  std::vector<size_t> places_;                // of the model's columns
  PassedColumns passed_;
  std::vector<std::optional<size_t>> passed_places_;  // of the passed columns, in the current file
  std::optional<Error> fault_;
};

// A number of rows with which a block fills some megabytes.
int64_t rows_per_block(const store::Bundle& bundle);

struct RowsPredicted {
  int64_t rows = 0;
  double seconds = 0;  // of the model only
  std::vector<Error> left_out = {};
  std::vector<std::string> beyond = {};  // numbers outside the range of training, the first of each column
  std::string file = {};
  store::ColumnGaps gaps = {};
};
// Predicts all rows, as many blocks at a time as there are compute threads. `predicted` is called for each block in
// order, on the calling thread, which writes; if it returns false, prediction ends early.
void predict_rows(const deploy::Predictor& predictor, RowStream& stream, PredictionWriter& writer, bool explain,
                  const std::function<bool(const RowsPredicted&)>& predicted);

}  // namespace freight::app
