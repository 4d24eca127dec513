// Rows of tables as what `freight predict` reads: files whose columns a model of rows finds by their names. One thread
// reads blocks of rows, others answer a block each, and they are written in their order; a few are in memory at once.
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

// Some rows of one file, in their order.
struct RowBlock {
  std::string file;
  std::vector<int64_t> lines;            // where each begins, from 1
  Array values;                          // f64 (N, columns), as the model takes them
  std::vector<Error> faults;             // of rows that cannot be read; they are left out
  std::vector<std::string> passed = {};  // cells that are passed through, row by row
  int64_t count() const { return static_cast<int64_t>(lines.size()); }
};

// Columns of the table whose cells go with each row as they are written.
struct PassedColumns {
  std::vector<std::string> names = {};
  bool needed = false;  // a file without one of them is an error; else its cells are ""
};

// Reads one file after the other, in their order. A file without a header has the model's columns in their order.
class RowStream {
 public:
  // Blocks have at most `most` rows; a row that cannot be read ends the stream if `stop_at_bad`.
  RowStream(const store::Bundle& bundle, std::vector<std::string> files, int64_t most, bool stop_at_bad,
            PassedColumns passed = {});

  // The next rows; false at the end. Throws Error(data) for a file that cannot be read or lacks a column, and, behind
  // the rows before it, for one that cannot be read.
  bool next(RowBlock& block);
  // Rows of separators alone that were skipped so far.
  int64_t blank_rows() const { return blank_rows_; }

 private:
  void open(const std::string& file);

  const std::vector<store::Column>& columns_;
  std::vector<std::string> files_;
  const int64_t most_;
  const bool stop_at_bad_;
  size_t next_file_ = 0;
  int64_t blank_rows_ = 0;
  std::unique_ptr<data::CellReader> reader_;  // of the file at hand
  std::vector<size_t> places_;                // of the model's columns
  PassedColumns passed_;
  std::vector<std::optional<size_t>> passed_places_;  // of these, in the file at hand
  std::optional<Error> fault_;
};

// So many rows that a block fills some megabytes.
int64_t rows_per_block(const store::Bundle& bundle);

struct RowsAnswered {
  int64_t rows = 0;
  double seconds = 0;  // of the model alone
  std::vector<Error> left_out = {};
  std::vector<std::string> beyond = {};  // numbers that training did not see, the first of each column
  std::string file = {};
  store::ColumnGaps gaps = {};
};
// Answers all rows, as many blocks at the same time as there are threads to compute. `answered` hears of each block in
// its order, on the calling thread, which writes; false from it ends early.
void predict_rows(const deploy::Predictor& predictor, RowStream& stream, PredictionWriter& writer, bool explain,
                  const std::function<bool(const RowsAnswered&)>& answered);

}  // namespace freight::app
