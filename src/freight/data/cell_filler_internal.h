// Fills the columns of a table with cells, whatever the file's form: readers say what is written in a cell, and here
// it becomes a number or a word.
#pragma once
#include <bit>
#include <cstring>

#include "freight/data/cells.h"

namespace freight::data {

// Readers of files give cells behind which so many bytes may be read.
inline constexpr size_t kReadableBehind = 8;

// Eight bytes of a text as eight digits, the first one in the lowest byte: how many of them are, from the first on.
inline unsigned digits_at(uint64_t bytes) {
  const uint64_t values = bytes ^ 0x3030303030303030ull;
  // Above 9 the sum has its high bit set. A carry changes only bytes behind the first of these.
  const uint64_t others = ((values + 0x7676767676767676ull) | values) & 0x8080808080808080ull;
  return others == 0 ? 8 : static_cast<unsigned>(std::countr_zero(others)) / 8;
}

// The number that the first `count` digits are, 0 for none. Neighbors are joined to pairs, then pairs, then fours.
inline uint64_t number_of_digits(uint64_t bytes, unsigned count) {
  if (count == 0) return 0;
  uint64_t v = (bytes ^ 0x3030303030303030ull) << (64 - 8 * count);
  v = 10 * v + (v >> 8);
  constexpr uint64_t kEvenPairs = 0x000000FF000000FFull;
  return ((v & kEvenPairs) * (100 + (uint64_t{1000000} << 32)) +
          ((v >> 16) & kEvenPairs) * (1 + (uint64_t{10000} << 32))) >>
         32;
}

// A number of up to seven digits in front of a point and seven behind it, which most are. Its digits as a whole number
// and the power of ten that divides it are doubles exactly, so that one division rounds as std::from_chars does
// (W. Clinger, How to read floating point numbers accurately, 1990). False for all others.
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
  // The next row's cell, as it is written; it stands in that line, and kReadableBehind bytes behind it may be read.
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
  // Rows from 0 on whose numbers were read before a word came: they must be told again by `correct`. 0: none.
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
  bool numbers_seen_ = false;  // or cells that would be words if words were beside them
};

// The names of a table's columns: `first` where it is a header, else the names that are asked for, else
// column_1, ... Throws Error(data) at `place` for names that are there twice.
std::vector<std::string> column_names(const std::vector<std::string>& first, bool header, const CellsAsked& asked,
                                      const std::string& place);
// The first row of a table is its header, or it is not: the rows below it decide.
struct HeaderReading {
  bool header = false;
  bool sure = true;  // false of a header of which nothing but the look of its cells tells that it is one
};
HeaderReading read_header(const std::vector<std::string>& first, const std::vector<std::vector<std::string>>& below,
                          char separator, const CellsAsked& asked);
// True where the header lacks a name for the first column alone, as those that R writes: it is one cell shorter.
bool lacks_index_name(const std::vector<std::string>& first, const std::vector<std::string>& second);
std::vector<CellKind> asked_kinds(const CellsAsked& asked, const TableHead& head);

}  // namespace freight::data
