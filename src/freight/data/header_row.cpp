// Whether the first row of a table is its header. Words above numbers are one, and so are numbers that are names: years
// (region,2019,2020) and the places that pandas gives to columns without names (0,1,2,3).
#include <algorithm>

#include "freight/base/parse_number.h"
#include "freight/data/cell_filler_internal.h"
#include "freight/data/columns.h"

namespace freight::data {

namespace {

using Row = std::vector<std::string>;

// A whole number of at least 0, written as digits alone.
std::optional<int64_t> count_in(std::string_view cell) {
  cell = trimmed(cell);
  const std::optional<int64_t> value = parse_number<int64_t>(cell);
  return value.value_or(-1) >= 0 && (cell.size() == 1 || cell[0] != '0') ? value : std::nullopt;
}

// The cells of a row that are numbers, as counts; empty where one of them is no count.
std::vector<int64_t> counts_in(const Row& row) {
  std::vector<int64_t> counts;
  for (const std::string& cell : row) {
    if (!is_number_cell(cell)) continue;
    const std::optional<int64_t> count = count_in(cell);
    if (!count) return {};
    counts.push_back(*count);
  }
  return counts;
}

bool follow_each_other(const std::vector<int64_t>& counts) {
  return std::adjacent_find(counts.begin(), counts.end(), [](int64_t a, int64_t b) { return b != a + 1; }) ==
         counts.end();
}

bool rise_as_years(const std::vector<int64_t>& counts) {
  constexpr int64_t kFirst = 1700, kLast = 2200;
  return std::is_sorted(counts.begin(), counts.end()) &&
         std::adjacent_find(counts.begin(), counts.end()) == counts.end() &&
         std::all_of(counts.begin(), counts.end(), [](int64_t c) { return c >= kFirst && c <= kLast; });
}

bool all_different(const Row& row) {
  Row sorted = row;
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

// A word stands above a number: a cell of a column of numbers is none.
bool word_above_number(const Row& first, const Row& second) {
  for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    if (!is_number_cell(first[i]) && !is_missing_number(first[i]) && is_number_cell(second[i])) return true;
  }
  return false;
}

bool words_look_like_names(const Row& row) {
  Row words;
  for (const std::string& cell : row) {
    if (!is_number_cell(cell)) words.push_back(cell);
  }
  return TableHeader(words).plausible();
}

// True of a row some of whose cells are numbers that name columns: 0, 1, 2, ... or years, above cells that are not.
bool numbers_are_names(const Row& first, const Row& second) {
  constexpr size_t kLeastAlone = 5;  // of the places 0, 1, 2, ..., which may be a row of data where they are few
  const std::vector<int64_t> names = counts_in(first), below = counts_in(second);
  if (names.empty() || !all_different(first) || !words_look_like_names(first)) return false;
  const bool places = names[0] == 0 && follow_each_other(names), years = rise_as_years(names);
  if (places && below.size() == names.size() && follow_each_other(below)) return false;
  if (years && below.size() == names.size() && rise_as_years(below)) return false;
  if (!places && !years) return false;
  const bool index = trimmed(first[0]).empty();
  if (index || word_above_number(first, second)) return true;
  // Nothing but the numbers shows it: those of data are seldom whole in the first row and fractions in the second.
  const bool fractions = below.empty();
  return names.size() == first.size() ? places && (names.size() >= kLeastAlone || (names.size() > 1 && fractions))
                                      : names.size() > 1 && (places || years);
}

}  // namespace

bool is_header(const std::vector<std::string>& first, const std::vector<std::string>* second, const CellsAsked& asked) {
  if (asked.header) return *asked.header;
  const auto number = [](const Row& row) {
    return std::any_of(row.begin(), row.end(), [](const auto& cell) { return is_number_cell(cell); });
  };
  if (!asked.names.empty()) {
    return first.size() == asked.names.size() &&
           std::equal(first.begin(), first.end(), asked.names.begin(),
                      [](const auto& a, const auto& b) { return trimmed(a) == b; });
  }
  const auto holds = [&](const std::string& name) {
    return std::any_of(first.begin(), first.end(), [&](const auto& cell) { return trimmed(cell) == name; });
  };
  if (second && !asked.needed.empty() && std::all_of(asked.needed.begin(), asked.needed.end(), holds)) return true;
  if (!second) return false;
  if (number(first)) return numbers_are_names(first, *second);
  return TableHeader(first).plausible() || number(*second);
}

bool lacks_index_name(const std::vector<std::string>& first, const std::vector<std::string>& second) {
  return first.size() + 1 == second.size() && !trimmed(second.back()).empty() && TableHeader(first).plausible() &&
         !trimmed(first[0]).empty();
}

}  // namespace freight::data
