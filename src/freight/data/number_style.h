// Numbers as tables of several countries write them: "1,234.5", "1.234,5", "1 234,5" and "1'234.5" are one number. The
// style is one of a whole column, since "1,234" alone may be either of two numbers.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace freight::data {

// How the numbers of a column are written.
struct NumberStyle {
  char decimal = '.';  // or ','
  char group = 0;      // between thousands: ',', '.', '\'' or ' ', which stands for any blank; 0: none

  // True of digits and a decimal point alone.
  bool plain() const { return decimal == '.' && group == 0; }
  friend bool operator==(const NumberStyle&, const NumberStyle&) = default;
};

// The finite number that is all that a cell holds in this style. Digits need not stand in groups. Where points separate
// no groups, a number with a decimal point is one in every style.
std::optional<double> number_as(std::string_view cell, const NumberStyle& style);
// 1234.5 as numbers of this style are written: "1,234.5".
std::string example_of(const NumberStyle& style);
// A plain number ("1.5") as it is written in this style ("1,5").
std::string in_style(std::string_view number, const NumberStyle& style);

// The style in which most of these cells are numbers, preferably all. Cells such as "1,234" alone have thousands, but
// decimals where semicolons stand between cells, or others have as many digits without a comma.
NumberStyle style_of(const std::vector<std::string_view>& cells, char separator);

// True of an integer, written as digits alone, whose magnitude is 2^53 or above: doubles do not hold all of them.
bool is_big_integer(std::string_view cell);

// The category of a cell: integers are the same one whether they are written as 2 or as 2.0. "007" and "1.10" stay.
std::string_view category_word(std::string_view cell);

}  // namespace freight::data
