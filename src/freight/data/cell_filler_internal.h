// Fills the columns of a table with cells, for every file format: readers provide the text of a cell, and here it
// becomes a number or a category.
#pragma once
#include <bit>
#include <cstring>

#include "freight/data/cells.h"

namespace freight::data {

// The number of bytes after a cell that may be read; readers of files guarantee it.
inline constexpr size_t kReadableBehind = 8;

// The number of leading digits in eight bytes of text, of which the first is in the lowest byte.
inline unsigned digits_at(uint64_t bytes) {
  const uint64_t values = bytes ^ 0x3030303030303030ull;
  // For a value above 9 the sum has its high bit set. A carry changes only bytes after the first such byte.
  const uint64_t others = ((values + 0x7676767676767676ull) | values) & 0x8080808080808080ull;
  return others == 0 ? 8 : static_cast<unsigned>(std::countr_zero(others)) / 8;
}

// The number that the first `count` digits form; 0 for none. Digits are joined to pairs, pairs to fours, then to eight.
inline uint64_t number_of_digits(uint64_t bytes, unsigned count) {
  if (count == 0) return 0;
  uint64_t v = (bytes ^ 0x3030303030303030ull) << (64 - 8 * count);
  v = 10 * v + (v >> 8);
  constexpr uint64_t kEvenPairs = 0x000000FF000000FFull;
  return ((v & kEvenPairs) * (100 + (uint64_t{1000000} << 32)) +
          ((v >> 16) & kEvenPairs) * (1 + (uint64_t{10000} << 32))) >>
         32;
}

// Parses a number with up to seven digits before and after the decimal point, as most have. Its digits as an integer
// and the power of ten are exact doubles, so one division rounds as std::from_chars does (W. Clinger, How to read
// floating point numbers accurately, 1990). Returns false for all other cells.
inline bool plain_number(std::string_view cell, double& number) {
  static constexpr double kPowers[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7};
  static constexpr uint64_t kWholePowers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};
  const char* at = cell.data();
  const char* end = at + cell.size();
  while (at < end && *at == ' ') ++at;
  while (at < end && end[-1] == ' ') --end;
  if (at == end) return false;
  const bool negative = *at == '-';
  at += negative;
  uint64_t bytes = 0;
  std::memcpy(&bytes, at, sizeof(bytes));
  const unsigned before = digits_at(bytes);
  uint64_t digits = number_of_digits(bytes, before);
  at += before;
  unsigned behind = 0;
  if (at < end && *at == '.') {
    std::memcpy(&bytes, ++at, sizeof(bytes));
    behind = digits_at(bytes);
    if (behind == 8) return false;
    digits = digits * kWholePowers[behind] + number_of_digits(bytes, behind);
    at += behind;
  }
  if (at != end || before == 8 || before + behind == 0) return false;
  const double value = static_cast<double>(digits) / kPowers[behind];
  number = std::bit_cast<double>(std::bit_cast<uint64_t>(value) ^ (uint64_t{negative} << 63));
  return true;
}

class ColumnFiller {
 public:
  ColumnFiller(CellColumn& column, CellKind asked);
  // Adds the next row's cell, given as text, with its line; kReadableBehind bytes after it must be readable.
  void add(std::string_view cell, int64_t line) {
    double number = 0;
    if (column_->kind == CellKind::numbers && plain_number(cell, number)) {
      column_->numbers.push_back(number);
      numbers_seen_ = true;
      ++rows_;
    } else {
      add_other(cell, line);
    }
  }
  // The number of leading rows that were read as numbers before a word was found; `correct` must be called for each.
  int64_t to_correct() const { return to_correct_; }
  void correct(int64_t row, std::string_view cell);

 private:
  void add_other(std::string_view cell, int64_t line);
  void add_number(std::string_view cell, int64_t line);
  void add_word(std::string_view cell);
  void turn_to_words(std::string_view cell, int64_t line);
  void note_missing(std::string_view cell);
  CellColumn* column_;
  CellKind asked_;
  int64_t rows_ = 0, to_correct_ = 0;
  bool numbers_seen_ = false;  // numbers, or cells that count as words in a column of words
};

// The names of a table's columns: the first row if it is a header, else the requested names, else column_1, ... Throws
// Error(data) at `place` for duplicate names.
std::vector<std::string> column_names(const std::vector<std::string>& first, bool header, const CellsAsked& asked,
                                      const std::string& place);
// The decision if the first row of a table is a header.
struct HeaderReading {
  bool header = false;
  bool sure = true;  // false if only the look of its cells suggests that it is a header
};
HeaderReading read_header(const std::vector<std::string>& first, const std::vector<std::vector<std::string>>& below,
                          char separator, const CellsAsked& asked);
// True if the header has one cell less than the rows, as in files that R writes with an index column.
bool lacks_index_name(const std::vector<std::string>& first, const std::vector<std::string>& second);
std::vector<CellKind> asked_kinds(const CellsAsked& asked, const TableHead& head);

}  // namespace freight::data
