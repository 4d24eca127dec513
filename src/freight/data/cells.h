// The cells of a table in a file: CSV, TSV, or semicolons between them, .gz too. Knows no meanings: columns by kind and
// the one that is told are tables/table.h's.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "freight/io/file.h"

namespace freight::data {

struct Cells {
  std::vector<std::string> names;  // of the columns; column_1, column_2, ... without a header
  bool header = false;             // the first row was one
  std::vector<std::vector<std::string>> rows;
  std::vector<int64_t> lines;  // where each begins, from 1
};

// The first row is a header where none of its cells is a number, and a number stands below one of them or all of them
// look like names. A '#' before a header is passed over. Throws Error(data) naming file and line for a row of another
// number of cells, a column without rows, names that are there twice, and bytes that are not UTF-8.
Cells read_cells(const std::string& path);
Cells parse_cells(io::ByteView bytes, const std::string& name);
// Whether the only row looks like a header. As a sample it is taken only by those who know that none is missing.
bool only_names(const Cells& cells);

}  // namespace freight::data
