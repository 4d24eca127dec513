// The one way to read a number from text; every other one is refused by tools/check_structure. Numbers are as
// std::from_chars reads them: "12", "-3", "1.5e-3", "inf", "nan"; no leading blanks, no plus sign, no locale. Two
// readers of table cells, data/columns.cpp and data/cell_filler_internal.h, read by themselves: they run once for each
// cell.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace freight {

// The number that the whole text is. Nothing for any other text, and for a number beyond the range of T: a type of
// integers, float or double.
template <class T>
std::optional<T> parse_number(std::string_view text);
// The number with which the text begins, which is removed from it. Nothing, and the text as it was, where there is
// none.
template <class T>
std::optional<T> take_number(std::string_view& text);
// The number that the whole text is in hexadecimal digits, without a prefix.
std::optional<uint64_t> parse_hex(std::string_view text);

}  // namespace freight
