// Columns of words that are numbers in another style: "1,234", "9,1", "1 234,5". Reports how each was read.
#pragma once
#include <string>

#include "freight/data/cells.h"
#include "freight/data/number_style.h"

namespace freight::tables {

struct NumberReading {
  data::NumberStyle style = {};  // of its numbers
  // Says how the column was read, and which values are not numbers; missing_note reports missing ones.
  std::string note = {};
};

struct NumberRequest {
  bool said = false;  // the column was declared to contain numbers: other values are unusual
  // Integers beyond 2^53 are rounded; otherwise such a column contains words, since they are identifiers.
  bool quantity = false;
  std::string folder = {};  // the folder of files for numbers that should not be in memory
};

// Converts a column that was read by its cells to numbers, if all of its words are numbers.
NumberReading read_numbers(data::Cells& cells, size_t column, const NumberRequest& request);

// Lists the spellings of missing values that pandas does not recognize: "'?' (3 cells) read as missing values"; empty
// if there are none.
std::string missing_note(const data::CellColumn& column);

// Joins two notes, either of which may be empty: "a; b".
std::string both_notes(const std::string& a, const std::string& b);

// True for usual names of identifiers: "id", "user_id", "PassengerId".
bool names_identifiers(const std::string& name);

}  // namespace freight::tables
