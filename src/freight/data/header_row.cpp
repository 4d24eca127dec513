// Decides whether the first row of a table is its header. Words above numbers, dates or the values of a category are
// one, and so are numbers that are names: years (region,2019,2020) and the places that pandas gives to columns without
// names (0,1,2,3).
#include <algorithm>

#include "freight/base/parse_number.h"
#include "freight/base/strings.h"
#include "freight/data/cell_filler_internal.h"
#include "freight/data/columns.h"
#include "freight/data/date_time.h"
#include "freight/data/number_style.h"

namespace freight::data {

namespace {

using Row = std::vector<std::string>;

constexpr DateOrder kDateOrders[] = {DateOrder::ymd, DateOrder::dmy, DateOrder::mdy};

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

// The kind of the cells of a column below the first row, where all have one.
enum class Below { nothing, numbers, dates, yesno, words };

bool is_date_cell(std::string_view cell) {
  return std::any_of(std::begin(kDateOrders), std::end(kDateOrders),
                     [&](DateOrder order) { return date_time_in(cell, order).has_value(); });
}
bool is_yes_or_no(std::string_view cell) {
  const std::string word = lower(cell);
  return std::any_of(std::begin(kYesNo), std::end(kYesNo),
                     [&](const auto& pair) { return word == pair[0] || word == pair[1]; });
}
bool are_numbers(const std::vector<std::string_view>& cells, char separator) {
  const NumberStyle style = style_of(cells, separator);
  return std::all_of(cells.begin(), cells.end(),
                     [&](std::string_view cell) { return is_number_cell(cell) || number_as(cell, style); });
}

Below kind_of(const std::vector<std::string_view>& cells, char separator) {
  if (cells.empty()) return Below::nothing;
  if (are_numbers(cells, separator)) return Below::numbers;
  if (std::all_of(cells.begin(), cells.end(), is_date_cell)) return Below::dates;
  const bool yesno = std::all_of(cells.begin(), cells.end(), is_yes_or_no);
  const bool both = std::any_of(cells.begin(), cells.end(), [&](std::string_view cell) { return cell != cells[0]; });
  return yesno && both ? Below::yesno : Below::words;
}

// Few different cells, each of which occurs again: the values of a category.
bool all_occur_again(std::vector<std::string_view> cells) {
  constexpr size_t kLeastCells = 20;  // fewer may leave out a value by chance
  std::sort(cells.begin(), cells.end());
  for (auto at = cells.begin(); at != cells.end();) {
    const auto end = std::upper_bound(at, cells.end(), *at);
    if (end - at < 2) return false;
    at = end;
  }
  return cells.size() >= kLeastCells;
}

// A column shows that its first cell is data, by its own form or because it occurs again, or that it is a name.
struct Evidence {
  bool data = false, again = false, name = false;
};
Evidence evidence_of(std::string_view first, const std::vector<std::string_view>& below, char separator) {
  first = trimmed(first);
  if (first.empty()) return {};
  if (is_missing_cell(first)) return {.data = true};
  const Below kind = kind_of(below, separator);
  const bool number = are_numbers({first}, separator), date = is_date_cell(first);
  if (number || date) {
    return {.data = (number && kind == Below::numbers) || (date && kind == Below::dates),
            .name = date && !number && kind == Below::numbers};
  }
  if (std::find(below.begin(), below.end(), first) != below.end()) return {.again = true};
  const bool values = kind == Below::numbers || kind == Below::dates;
  const bool other = kind == Below::yesno ? !is_yes_or_no(first) : all_occur_again(below);
  return {.name = !is_missing_number(first) && (values || other)};
}

// A row that is the first one again is a header between tables that were put together.
Evidence evidence_of(const Row& first, const std::vector<Row>& below, char separator) {
  Evidence all;
  for (size_t i = 0; i < first.size(); ++i) {
    std::vector<std::string_view> cells;
    for (const Row& row : below) {
      if (i >= row.size() || is_missing_number(row[i]) || (first.size() > 1 && row == first)) continue;
      cells.push_back(trimmed(row[i]));
    }
    const Evidence one = evidence_of(first[i], cells, separator);
    all.data = all.data || one.data;
    all.again = all.again || one.again;
    all.name = all.name || one.name;
  }
  return all;
}

}  // namespace

HeaderReading read_header(const std::vector<std::string>& first, const std::vector<std::vector<std::string>>& below,
                          char separator, const CellsAsked& asked) {
  if (asked.header) return {.header = *asked.header};
  const auto number = [](const Row& row) {
    return std::any_of(row.begin(), row.end(), [](const auto& cell) { return is_number_cell(cell); });
  };
  if (!asked.names.empty()) {
    return {.header = first.size() == asked.names.size() &&
                      std::equal(first.begin(), first.end(), asked.names.begin(),
                                 [](const auto& a, const auto& b) { return trimmed(a) == b; })};
  }
  if (below.empty()) return {};
  const auto holds = [&](const std::string& name) {
    return std::any_of(first.begin(), first.end(), [&](const auto& cell) { return trimmed(cell) == name; });
  };
  if (!asked.needed.empty() && std::all_of(asked.needed.begin(), asked.needed.end(), holds)) return {.header = true};
  if (number(first)) return {.header = numbers_are_names(first, below[0])};
  const Evidence evidence = evidence_of(first, below, separator);
  if (evidence.data || (evidence.again && !evidence.name)) return {};
  return {.header = TableHeader(first).plausible() || number(below[0]), .sure = evidence.name && !evidence.again};
}

bool lacks_index_name(const std::vector<std::string>& first, const std::vector<std::string>& second) {
  return first.size() + 1 == second.size() && !trimmed(second.back()).empty() && TableHeader(first).plausible() &&
         !trimmed(first[0]).empty();
}

}  // namespace freight::data
