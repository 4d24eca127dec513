// Rows of tables as what `freight predict` reads: files whose columns a model of rows finds by their names.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "freight/data/cells.h"
#include "freight/store/table_rows.h"
#include "predict_inputs.h"

namespace freight::app {

// Reads one file after the other, in their order. A file without a header has the model's columns in their order.
class RowStream {
 public:
  RowStream(const deploy::Predictor& predictor, std::vector<std::string> files);

  // Up to `most` rows; none at the end. Throws Error(data) for a file that cannot be read or lacks a column.
  std::vector<Input> next(size_t most);

 private:
  void open(const std::string& file);
  bool read_part();  // false at the end of all files

  const deploy::Predictor& predictor_;
  std::vector<std::string> files_;
  size_t next_file_ = 0, next_fault_ = 0;
  int64_t next_row_ = 0;  // of the part
  std::unique_ptr<data::CellReader> reader_;
  std::vector<size_t> places_;  // of the model's columns
  data::Cells cells_;           // a part of the file
  std::unique_ptr<store::TableRows> rows_;
};

}  // namespace freight::app
