// `freight predict` writes this: one line, CSV record or JSON document per sample on standard output or in a file, and
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
  size_t top = 3;                       // classes per sample, of lines, CSV and JSONL
  std::string file;                     // empty: standard output
  std::string npy;                      // empty: none
  bool explain = false;                 // of a model of rows: what each column adds, too
  std::vector<CsvColumn> columns = {};  // of the CSV of a table
};

class PredictionWriter {
 public:
  PredictionWriter(const deploy::Predictor& predictor, const OutputOptions& options);
  ~PredictionWriter();
  PredictionWriter(const PredictionWriter&) = delete;
  PredictionWriter& operator=(const PredictionWriter&) = delete;

  // Rows (N, outputs) of the named samples, with store::RowModel::contributions where they are asked for, and the cells
  // of input_columns(), sample by sample; standard output is flushed. Throws Error(runtime) where it cannot be
  // written.
  void write(const std::vector<std::string>& names, const Array& rows, const Array* contributions = nullptr,
             const std::vector<std::string>& passed = {});
  // True where the text of some samples does not depend on those before: all forms but lines, whose first column grows.
  bool texts_stand_alone() const { return options_.form != Form::lines; }
  // The text that write() makes of these samples. Any number of threads may ask.
  std::string text_of(const std::vector<std::string>& names, const Array& rows, const Array* contributions,
                      const std::vector<std::string>& passed) const;
  // Writes a text that was made so, and its rows.
  void write_text(const std::string& text, const Array& rows);
  // Puts the files under their names.
  void commit();

 private:
  // Contributions of columns to the sums of one sample: (groups, columns + 1), null where they are not asked for.
  using Added = const double*;
  void add_text(std::string& out, const std::string& name, const float* row, Added added) const;
  void add_values(std::string& out, const std::string& name, const float* row, Added added) const;
  // The CSV of a row of a table. `passed`: its cells of input_columns().
  void add_record(std::string& out, const std::string& name, const float* row, const std::string* passed,
                  Added added) const;
  // Classes by rising rank: the predicted one, then the most likely ones; ties by number.
  std::vector<int64_t> ranked_classes(const float* row) const;
  std::string added_cells(Added added, int64_t group) const;
  nlohmann::ordered_json added_members(Added added) const;  // "shap" and "base"
  std::string first_column(const std::string& name) const;  // of a line
  void put(const std::string& text);

  const store::Bundle& bundle_;
  const OutputOptions options_;
  const bool probabilities_;
  const int64_t outputs_;
  int64_t groups_ = 1;  // of contributions
  size_t inputs_ = 0;   // input_columns()
  size_t width_ = 0;    // of the first column of lines
  std::unique_ptr<io::AtomicFile> file_;
  std::FILE* rows_ = nullptr;  // of the npy file, whose header needs their number; without a name
  int64_t count_ = 0;
};

}  // namespace freight::app
