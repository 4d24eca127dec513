// Columns of words that are numbers in another writing: "1,234", "9,1", "1 234,5". Says how each was read.
#pragma once
#include <string>

#include "freight/data/cells.h"
#include "freight/data/number_style.h"

namespace freight::tables {

struct NumberReading {
  data::NumberStyle style = {};  // of its numbers
  std::string note = {};         // how it was read, and which cells are no numbers; missing ones are missing_note's
};

struct NumberRequest {
  bool said = false;        // it holds numbers: cells that are none are odd
  bool quantity = false;    // integers beyond 2^53 are rounded; else they are words, as identifiers are
  std::string folder = {};  // of which files hold the numbers, in place of memory
};

// Makes numbers of a column that was read by its cells, where all of its words are some.
NumberReading read_numbers(data::Cells& cells, size_t column, const NumberRequest& request);

// "'?' (3 cells) read as missing values": the spellings that pandas does not read so; empty where there are none.
std::string missing_note(const data::CellColumn& column);

// "a; b", or the one that is not empty.
std::string both_notes(const std::string& a, const std::string& b);

// A name that is usual for what tells rows apart: "id", "user_id", "PassengerId".
bool names_identifiers(const std::string& name);

}  // namespace freight::tables
