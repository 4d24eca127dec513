// See cell_filler_internal.h.
#include "freight/data/cell_filler_internal.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/data/columns.h"
#include "freight/data/number_style.h"

namespace freight::data {

ColumnFiller::ColumnFiller(CellColumn& column, CellKind asked) : column_(&column), asked_(asked) {
  column.kind = asked_ == CellKind::by_cells ? CellKind::numbers : asked_;
}

void ColumnFiller::add_other(std::string_view cell, int64_t line) {
  if (column_->kind == CellKind::numbers) {
    add_number(cell, line);
  } else if (column_->kind == CellKind::words) {
    add_word(cell);
  }
  ++rows_;
}

void ColumnFiller::add_word(std::string_view cell) {
  cell = trimmed(cell);
  if (is_missing_cell(cell)) {
    note_missing(cell);
    column_->codes.push_back(Words::kMissing);
    return;
  }
  if (column_->first_word && is_big_integer(cell)) ++column_->big_integers;
  column_->codes.push_back(column_->words.add(cell));
}

void ColumnFiller::note_missing(std::string_view cell) {
  if (!is_usual_missing(cell)) ++column_->missing_as[std::string(trimmed(cell))];
}

void ColumnFiller::add_number(std::string_view cell, int64_t line) {
  constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
  const std::optional<double> value = number_in(cell);
  if (value && std::isfinite(*value)) {
    if (asked_ == CellKind::by_cells && is_big_integer(cell)) return turn_to_words(cell, line);
    numbers_seen_ = true;
    column_->numbers.push_back(*value);
  } else if (is_missing_number(cell)) {
    numbers_seen_ = numbers_seen_ || !is_missing_cell(cell);
    note_missing(cell);
    column_->numbers.push_back(kMissing);
  } else if (value || asked_ == CellKind::numbers) {
    numbers_seen_ = true;
    column_->numbers.push_back(kMissing);
    column_->odd.push_back({rows_, line, std::string(trimmed(cell))});
  } else {
    turn_to_words(cell, line);
  }
}

void ColumnFiller::turn_to_words(std::string_view cell, int64_t line) {
  cell = trimmed(cell);
  column_->kind = CellKind::words;
  column_->first_word = OddCell{rows_, line, std::string(cell)};
  column_->numbers = {};
  column_->odd.clear();
  std::erase_if(column_->missing_as, [](const auto& seen) { return !is_missing_cell(seen.first); });
  column_->codes.resize_with_missing(static_cast<size_t>(rows_));
  if (numbers_seen_) to_correct_ = rows_;
  add_word(cell);
}

void ColumnFiller::correct(int64_t row, std::string_view cell) {
  cell = trimmed(cell);
  if (!is_missing_cell(cell)) column_->codes.set(static_cast<size_t>(row), column_->words.add(cell));
}

std::vector<std::string> column_names(const std::vector<std::string>& first, bool header, const CellsAsked& asked,
                                      const std::string& place) {
  const size_t width = first.size();
  if (!asked.names.empty() && asked.names.size() != width) {
    fail(ErrorKind::data, place, "expected a name for each of ", width, " columns, got ", asked.names.size(), " (",
         excerpt(join(asked.names, ", ")), ")");
  }
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (size_t i = 0; i < width; ++i) {
    std::string_view word = !asked.names.empty() ? asked.names[i] : header ? trimmed(first[i]) : std::string_view();
    if (i == 0 && word.starts_with('#')) {
      word = trimmed(word.substr(1));
      // A '#' in front of the first name makes its quotes ordinary characters.
      if (word.size() > 1 && word.starts_with('"') && word.ends_with('"')) word = word.substr(1, word.size() - 2);
    }
    names.push_back(word.empty() ? cat("column_", i + 1) : std::string(word));
    if (!seen.insert(names.back()).second) {
      fail(ErrorKind::data, place, "two columns are named ", excerpt(names.back()), ": expected different names");
    }
  }
  return names;
}

std::vector<CellKind> asked_kinds(const CellsAsked& asked, const TableHead& head) {
  if (!asked.kinds) return std::vector<CellKind>(head.names.size(), CellKind::by_cells);
  std::vector<CellKind> kinds = asked.kinds(head);
  FREIGHT_CHECK(kinds.size() == head.names.size(), "CellsAsked::kinds gives ", kinds.size(), " kinds for ",
                head.names.size(), " columns");
  return kinds;
}

}  // namespace freight::data
