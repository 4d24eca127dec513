// Fills the columns of a table with cells, whatever the file's form: readers say what is written in a cell, and here
// it becomes a number or a word.
#pragma once
#include "freight/data/cells.h"

namespace freight::data {

class ColumnFiller {
 public:
  ColumnFiller(CellColumn& column, CellKind asked);
  // The next row's cell, as it is written; it stands in that line.
  void add(std::string_view cell, int64_t line);
  void add_missing() { add({}, 0); }
  // Rows from 0 on whose numbers were read before a word came: they must be told again by `correct`. 0: none.
  int64_t to_correct() const { return to_correct_; }
  void correct(int64_t row, std::string_view cell);
  // The column is that of the part at hand; another begins.
  void restart(CellColumn& column);

 private:
  void add_number(std::string_view cell, int64_t line);
  void turn_to_words(std::string_view cell, int64_t line);
  CellColumn* column_;
  CellKind asked_;
  int64_t rows_ = 0, to_correct_ = 0;
  bool numbers_seen_ = false;
  uint32_t last_ = Words::kMissing;  // the word before, which often comes again
};

// What the columns of a table are called: `first` where it is a header, else the names that are asked for, else
// column_1, ... Throws Error(data) at `place` for names that are there twice.
std::vector<std::string> column_names(const std::vector<std::string>& first, bool header, const CellsAsked& asked,
                                      const std::string& place);
// Whether the first row of a table is its header. `second` is null where there is none.
bool is_header(const std::vector<std::string>& first, const std::vector<std::string>* second, const CellsAsked& asked);
std::vector<CellKind> asked_kinds(const CellsAsked& asked, const TableHead& head);

}  // namespace freight::data
