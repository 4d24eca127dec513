// The styles in which tables of different countries write numbers: "1,234.5", "1.234,5", "1 234,5" and "1'234.5" are
// the same number. A style applies to a whole column, since "1,234" is ambiguous by itself.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace freight::data {

// The style of the numbers of a column.
struct NumberStyle {
  char decimal = '.';  // or ','
  char group = 0;      // between thousands: ',', '.', '\'' or ' ', which stands for any space; 0: none

  // True for digits with only a decimal point.
  bool plain() const { return decimal == '.' && group == 0; }
  friend bool operator==(const NumberStyle&, const NumberStyle&) = default;
};

// The finite number that the whole cell is in this style. Thousands separators are optional. Unless points separate
// thousands, a number with a decimal point is valid in every style.
std::optional<double> number_as(std::string_view cell, const NumberStyle& style);
// The number 1234.5 in this style: "1,234.5".
std::string example_of(const NumberStyle& style);
// Writes a plain number ("1.5") in this style ("1,5").
std::string in_style(std::string_view number, const NumberStyle& style);

// The style in which most of these cells, preferably all, are numbers. If all are like "1,234", the comma separates
// thousands; it is a decimal comma if semicolons separate the cells, or other cells have as many digits without a
// comma.
NumberStyle style_of(const std::vector<std::string_view>& cells, char separator);

// True for an integer, written only with digits, of magnitude 2^53 or above, which a double may not represent.
bool is_big_integer(std::string_view cell);

// The category of a cell: integers written as 2 and as 2.0 are the same one. "007" and "1.10" stay as they are.
std::string_view category_word(std::string_view cell);

}  // namespace freight::data
