// See table_rows.h.
#include "freight/store/table_rows.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/data/columns.h"

namespace freight::store {

namespace {
data::CellKind kind_of(const Column& column) {
  return column.takes_texts() || !column.style.plain() ? data::CellKind::words : data::CellKind::numbers;
}
}  // namespace

std::vector<data::CellKind> kinds_of(const std::vector<Column>& columns, const std::vector<size_t>& places,
                                     size_t width) {
  std::vector<data::CellKind> kinds(width, data::CellKind::skipped);
  for (size_t k = 0; k < columns.size(); ++k) {
    kinds[places[k]] = kind_of(columns[k]);
  }
  return kinds;
}

TableRows::TableRows(const std::vector<Column>& columns, std::shared_ptr<const data::Cells> cells,
                     std::vector<size_t> places)
    : columns_(columns), cells_(std::move(cells)), places_(std::move(places)) {
  FREIGHT_CHECK(places_.size() == columns.size(), "TableRows got ", places_.size(), " places of columns");
  for (size_t k = 0; k < columns.size(); ++k) {
    const data::CellColumn& cell = cells_->columns[places_[k]];
    FREIGHT_CHECK(cell.is_words() || (cell.times && columns[k].date()) || !columns[k].takes_texts(), "column ",
                  cell.name, " was read as numbers, and the model expects categories");
    std::vector<double>& numbers = word_numbers_.emplace_back();
    std::vector<bool> wrong(cell.words.size());
    bool any_wrong = false;
    for (uint32_t code = 0; code < cell.words.size(); ++code) {
      const std::string_view word = cell.words[code];
      // A form that tells numbers from texts writes plain numbers, whatever the column's style.
      const std::optional<double> number =
          cells_->head.typed && !columns[k].takes_texts() ? data::number_in(word) : std::nullopt;
      const std::optional<double> value = number ? value_in(columns[k], *number) : value_in(columns[k], word);
      numbers.push_back(value.value_or(std::numeric_limits<double>::quiet_NaN()));
      wrong[code] = !value;
      any_wrong = any_wrong || !value;
    }
    for (size_t i = 0; any_wrong && i < cell.codes.size(); ++i) {
      if (cell.codes[i] == data::Words::kMissing || !wrong[cell.codes[i]]) continue;
      faults_.push_back({static_cast<int64_t>(i), unfit(columns[k], cell.words[cell.codes[i]])});
    }
    for (const data::OddCell& odd : cell.odd) faults_.push_back({odd.row, unfit(columns[k], odd.text)});
  }
  const auto earlier = [](const RowFault& a, const RowFault& b) { return a.row < b.row; };
  const auto same = [](const RowFault& a, const RowFault& b) { return a.row == b.row; };
  std::stable_sort(faults_.begin(), faults_.end(), earlier);
  faults_.erase(std::unique(faults_.begin(), faults_.end(), same), faults_.end());
}

void TableRows::fill(size_t column, std::span<const uint32_t> rows, double* to, size_t stride) const {
  constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
  const data::CellColumn& cell = cells_->columns[places_[column]];
  if (cell.times) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::optional<data::DateTime> time = cell.times->at(rows[i]);
      to[i * stride] = time ? value_in(columns_[column], *time) : kMissing;
    }
  } else if (cell.is_words()) {
    const std::vector<double>& numbers = word_numbers_[column];
    for (size_t i = 0; i < rows.size(); ++i) {
      const uint32_t code = cell.codes[rows[i]];
      to[i * stride] = code == data::Words::kMissing ? kMissing : numbers[code];
    }
  } else {
    cell.numbers.gather(rows, to, stride);
  }
}

void TableRows::values(std::span<const uint32_t> rows, double* to) const {
  // The rows of a block stay in the cache while each column writes its own values.
  constexpr size_t kBlock = 256;
  for (size_t begin = 0; begin < rows.size(); begin += kBlock) {
    const auto block = rows.subspan(begin, std::min(kBlock, rows.size() - begin));
    for (size_t k = 0; k < places_.size(); ++k) fill(k, block, to + begin * places_.size() + k, places_.size());
  }
}

Array TableRows::values(std::span<const uint32_t> rows) const {
  Array out(DType::f64, {static_cast<int64_t>(rows.size()), width()});
  values(rows, out.data<double>());
  return out;
}

Array TableRows::row(int64_t row) const {
  const auto number = static_cast<uint32_t>(row);
  return values({&number, 1}).reshaped({width()});
}

}  // namespace freight::store
