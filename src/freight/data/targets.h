// Targets of the samples in a list that are not one class each: values of one or several columns (regression), or
// several labels per sample. The readers of lists give the cells of each row (image_list.cpp, text_file.cpp). Layouts
// and rules: docs/images.md. N samples, K values or labels.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "freight/base/array.h"

namespace freight::data {

// The meaning of a list's targets.
enum class TargetKind {
  classes,  // one class per sample
  values,   // numbers to regress
  labels,   // any number of labels per sample
};

// Settings of reading the targets of a list.
struct TargetOptions {
  TargetKind kind = TargetKind::classes;  // of the list's rows
  std::vector<std::string> columns = {};  // by name in the header, or number from 1; empty: the label column
  std::vector<std::string> labels = {};   // the labels of a saved model by number; empty: those of the training set
  // The column of groups, whose samples no split separates (groups.h); empty: none.
  std::string group_column = {};
};
// "price, area" as names of columns.
std::vector<std::string> column_names(const std::string& list);

// The targets of all rows of a list.
struct Targets {
  Array array;                     // f32 (N, K): values; or u8 (N, K): 1 for each label that a sample has
  std::vector<std::string> names;  // of the K values or labels
  std::vector<std::string> notes;  // for the user
};

// Separates the labels of a sample in a cell that a reader has joined from a list.
inline constexpr char kLabelSeparator = '\x1f';

// Collects the target cells of a list's rows. Values are numbers. Labels are the words of one cell, separated by "|",
// ";" or ",", whichever the column has, and otherwise by spaces; or one column of 0 and 1 per label.
class TargetRows {
 public:
  // `columns`: the names of the target columns.
  TargetRows(TargetKind kind, std::vector<std::string> columns) : kind_(kind), columns_(std::move(columns)) {}
  // Takes the cells of a row, one per column; `where` is "file:line". Returns the reason why they are no target, and
  // then does not take them; "" if they are one.
  std::string add(const std::vector<std::string>& cells, const std::string& where);
  // `known`: the labels of the training set, or of a saved model; empty: those of these rows. Throws Error(data) that
  // names the file and line of a label that is not among them, and for rows that have no label at all.
  Targets finished(const std::string& file, const std::vector<std::string>& known) const;

 private:
  bool one_cell() const { return kind_ == TargetKind::labels && columns_.size() == 1; }
  Targets split_labels(const std::string& file, const std::vector<std::string>& known) const;

  TargetKind kind_;
  std::vector<std::string> columns_;
  std::vector<float> values_;        // of all rows; not for labels of one cell
  std::vector<std::string> cells_;   // for labels of one cell
  std::vector<std::string> wheres_;  // by row
};

// Numbers by which rows of such targets are divided evenly (hold_out): of labels the rarest one that a row has, or K
// for a row without one; of values 0.
struct Strata {
  std::vector<int64_t> of_row;  // its stratum
  size_t count = 1;             // of strata
};
// The strata of targets f32 (N, K) or u8 (N, K).
Strata strata_of(const Array& targets);
// Labels by which samples are divided into folds (metrics/folds.h), i64 (N) or f32 (N): classes as they are, the first
// of several values, the strata of labels.
Array fold_labels(const Array& targets);

}  // namespace freight::data
