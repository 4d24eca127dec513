// The output of `freight predict`: a line, CSV record or JSON document per sample on standard output or in a file, and
// the probabilities as an npy file. Files appear when they are complete.
#pragma once
#include <cstdio>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "freight/deploy/predictor.h"
#include "freight/io/file.h"
#include "predict_columns.h"

namespace freight::app {

enum class Form { lines, csv, json, jsonl, none };

struct OutputOptions {
  Form form = Form::lines;
  size_t top = 3;                       // classes per sample, in lines, CSV and JSONL
  std::string file;                     // empty: standard output
  std::string npy;                      // empty: none
  bool explain = false;                 // of a table model: also the contribution of each column
  std::vector<CsvColumn> columns = {};  // of the CSV of a table, or of a network with named values or several labels
};

class PredictionWriter {
 public:
  PredictionWriter(const deploy::Predictor& predictor, const OutputOptions& options);
  ~PredictionWriter();
  PredictionWriter(const PredictionWriter&) = delete;
  PredictionWriter& operator=(const PredictionWriter&) = delete;

  // Writes rows (N, outputs) of the named samples one by one, with their contributions (store::RowModel::contributions)
  // if requested, and the values of input_columns(); then flushes standard output. Throws Error(runtime) if it cannot
  // be written.
  void write(const std::vector<std::string>& names, const Array& rows, const Array* contributions = nullptr,
             const std::vector<std::string>& passed = {});
  // True if the text of a sample does not depend on earlier ones: all forms but lines, whose first column grows.
  bool texts_stand_alone() const { return options_.form != Form::lines; }
  // The text that write() makes of these samples. Any number of threads may call it.
  std::string text_of(const std::vector<std::string>& names, const Array& rows, const Array* contributions,
                      const std::vector<std::string>& passed) const;
  // Writes a text from text_of(), and its rows.
  void write_text(const std::string& text, const Array& rows);
  // Renames the files to their final names.
  void commit();

 private:
  // The contributions of columns to the sums of one sample: (groups, columns + 1), null if they were not requested.
  using Added = const double*;
  void add_text(std::string& out, const std::string& name, const float* row, Added added) const;
  void add_values(std::string& out, const std::string& name, const float* row, Added added) const;
  // Appends the CSV record of a table's row. `passed`: its values of input_columns().
  void add_record(std::string& out, const std::string& name, const float* row, const std::string* passed,
                  Added added) const;
  // The classes by rank: the predicted one, then the most probable others; ties are ordered by number.
  std::vector<int64_t> ranked_classes(const float* row) const;
  std::vector<std::string> labels_in(const float* row) const;  // predicted, of several labels
  std::string added_cells(Added added, int64_t group) const;
  nlohmann::ordered_json added_members(Added added) const;  // "shap" and "base"
  std::string first_column(const std::string& name) const;  // of lines
  void put(const std::string& text);

  const store::Bundle& bundle_;
  const OutputOptions options_;
  const bool probabilities_;
  const int64_t outputs_;
  int64_t groups_ = 1;  // of contributions
  size_t inputs_ = 0;   // number of input_columns()
  size_t width_ = 0;    // of the first column in lines
  std::unique_ptr<io::AtomicFile> file_;
  std::FILE* rows_ = nullptr;  // an unnamed file for the rows of the npy file, whose header needs their number
  int64_t count_ = 0;
};

}  // namespace freight::app
