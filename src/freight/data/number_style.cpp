// See number_style.h.
#include "freight/data/number_style.h"

#include <algorithm>
#include <cmath>

#include "freight/data/columns.h"

namespace freight::data {

namespace {

constexpr double kEndOfIntegers = 0x1p53;  // below it doubles hold every integer
constexpr size_t kDigitsOfGroup = 3;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

size_t digits_from(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && is_digit(text[n])) ++n;
  return n;
}

// How many bytes at the start of `text` separate groups of digits in this style; 0 where none do.
size_t separator_at(std::string_view text, char group) {
  static constexpr std::string_view kBlanks[] = {" ", "\xc2\xa0", "\xe2\x80\xaf", "\xe2\x80\x89"};
  static constexpr std::string_view kMarks[] = {"'", "\xe2\x80\x99"};
  const auto among = [&](const auto& all) {
    const auto* const at = std::find_if(std::begin(all), std::end(all), [&](auto s) { return text.starts_with(s); });
    return at == std::end(all) ? size_t{0} : at->size();
  };
  if (group == ' ') return among(kBlanks);
  if (group == '\'') return among(kMarks);
  return group != 0 && text.starts_with(group) ? 1 : 0;
}

// Takes the digits in front of the decimals; false where they stand in groups that are none. India's last group has
// three digits, those before have two.
bool take_whole(std::string_view& rest, char group, std::string& digits) {
  std::vector<size_t> groups;
  for (;;) {
    const size_t n = digits_from(rest);
    digits.append(rest.substr(0, n));
    groups.push_back(n);
    rest.remove_prefix(n);
    const size_t separator = separator_at(rest, group);
    if (separator == 0 || digits_from(rest.substr(separator)) == 0) break;
    rest.remove_prefix(separator);
  }
  if (groups.size() == 1) return true;
  if (groups[0] < 1 || groups[0] > kDigitsOfGroup || digits[0] == '0' || groups.back() != kDigitsOfGroup) return false;
  const auto between = [&](size_t size) {
    return std::all_of(groups.begin() + 1, groups.end() - 1, [&](size_t n) { return n == size; });
  };
  return between(kDigitsOfGroup) || (group == ',' && groups[0] < kDigitsOfGroup && between(2));
}

bool has(std::string_view text, char c) { return text.find(c) != std::string_view::npos; }

}  // namespace

std::optional<double> number_as(std::string_view cell, const NumberStyle& style) {
  const auto finite = [](std::optional<double> v) { return v && std::isfinite(*v) ? v : std::nullopt; };
  cell = trimmed(cell);
  if (style.plain()) return finite(number_in(cell));
  std::string_view rest = cell;
  std::string plain;
  if (!rest.empty() && (rest[0] == '-' || rest[0] == '+')) {
    if (rest[0] == '-') plain = "-";
    rest.remove_prefix(1);
  }
  std::string digits;
  if (take_whole(rest, style.group, digits)) {
    plain += digits;
    if (rest.starts_with(style.decimal)) {
      plain += '.';
      const size_t n = digits_from(rest.substr(1));
      plain += rest.substr(1, n);
      rest.remove_prefix(1 + n);
    }
    const bool exponent = !rest.empty() && (rest[0] == 'e' || rest[0] == 'E');
    if (rest.empty() || exponent) {
      plain += rest;
      if (const auto v = finite(number_in(plain))) return v;
    }
  }
  return style.group == '.' ? std::nullopt : finite(number_in(cell));
}

std::string example_of(const NumberStyle& style) {
  std::string text = "1";
  if (style.group != 0) text += style.group;
  text += "234";
  text += style.decimal;
  return text + "5";
}

std::string in_style(std::string_view number, const NumberStyle& style) {
  std::string text(number);
  std::replace(text.begin(), text.end(), '.', style.decimal);
  return text;
}

NumberStyle style_of(const std::vector<std::string_view>& cells, char separator) {
  // Of styles that fit equally well the first one is taken. Decimal commas come before those with points between
  // thousands, which a column without such points does not show.
  static constexpr NumberStyle kStyles[] = {{'.', 0},   {'.', ','}, {',', 0},    {',', '.'},
                                            {'.', ' '}, {',', ' '}, {'.', '\''}, {',', '\''}};
  constexpr size_t kThousands = 1, kDecimals = 2, kPointsBetween = 3;
  constexpr size_t kMostOfUngrouped = 3;
  size_t counts[std::size(kStyles)] = {};
  bool ungrouped = false, points = false;
  for (const std::string_view cell : cells) {
    for (size_t s = 0; s < std::size(kStyles); ++s) counts[s] += number_as(cell, kStyles[s]).has_value() ? 1 : 0;
    const std::string_view digits = trimmed(cell);
    const size_t first = digits.starts_with('-') ? 1 : 0;
    ungrouped = ungrouped || digits_from(digits.substr(first)) > kMostOfUngrouped;
    points = points || (has(cell, '.') && number_as(cell, {',', '.'}));
  }
  size_t best = 0;
  for (size_t s = 1; s < std::size(kStyles); ++s) {
    if (counts[s] > counts[best]) best = s;
  }
  if (best == kThousands && counts[kDecimals] == counts[best] && (separator == ';' || ungrouped)) best = kDecimals;
  // Points beside decimal commas are no decimals.
  if (best == kDecimals && points && counts[kPointsBetween] == counts[best]) best = kPointsBetween;
  return kStyles[best];
}

bool is_big_integer(std::string_view cell) {
  constexpr size_t kLeastDigits = 16;
  cell = trimmed(cell);
  if (!cell.empty() && (cell[0] == '-' || cell[0] == '+')) cell.remove_prefix(1);
  if (cell.size() < kLeastDigits || digits_from(cell) != cell.size()) return false;
  return number_in(cell).value_or(INFINITY) >= kEndOfIntegers;
}

std::string_view category_word(std::string_view cell) {
  const size_t sign = !cell.empty() && cell[0] == '-' ? 1 : 0;
  const size_t digits = digits_from(cell.substr(sign)), point = sign + digits;
  if (digits == 0 || point + 1 >= cell.size() || cell[point] != '.') return cell;
  return cell.find_first_not_of('0', point + 1) == std::string_view::npos ? cell.substr(0, point) : cell;
}

}  // namespace freight::data
