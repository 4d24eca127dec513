// See table_rows.h.
#include "freight/store/table_rows.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/data/columns.h"
#include "freight/io/file_memory.h"

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

TableRows::TableRows(const std::vector<Column>& columns, const data::Cells& cells, const std::vector<size_t>& places)
    : cells_(cells), places_(places) {
  FREIGHT_CHECK(places.size() == columns.size(), "TableRows got ", places.size(), " places of columns");
  for (size_t k = 0; k < columns.size(); ++k) {
    const data::CellColumn& cell = cells.columns[places[k]];
    FREIGHT_CHECK(cell.is_words() || !columns[k].takes_texts(), "column ", cell.name,
                  " was read as numbers, and the model expects categories");
    std::vector<double>& numbers = word_numbers_.emplace_back();
    std::vector<bool> wrong(cell.words.size());
    bool any_wrong = false;
    for (uint32_t code = 0; code < cell.words.size(); ++code) {
      const std::string_view word = cell.words[code];
      // A form that tells numbers from texts writes plain numbers, whatever the column's style.
      const std::optional<double> number =
          cells.head.typed && !columns[k].takes_texts() ? data::number_in(word) : std::nullopt;
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

void TableRows::fill(size_t column, std::span<const int64_t> rows, double* out) const {
  const data::CellColumn& cell = cells_.columns[places_[column]];
  const std::vector<double>& numbers = word_numbers_[column];
  const size_t width = places_.size();
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto row = static_cast<size_t>(rows[i]);
    double& value = out[i * width + column];
    if (!cell.is_words()) {
      value = cell.numbers[row];
    } else {
      const uint32_t code = cell.codes[row];
      value = code == data::Words::kMissing ? std::numeric_limits<double>::quiet_NaN() : numbers[code];
    }
  }
}

Array TableRows::values(std::span<const int64_t> rows, const std::string& folder) const {
  // The rows of a block stay in the cache while each column writes its own values.
  constexpr size_t kBlock = 256;
  const Array out =
      io::zeros_in(folder, DType::f64, {static_cast<int64_t>(rows.size()), static_cast<int64_t>(places_.size())});
  for (size_t begin = 0; begin < rows.size(); begin += kBlock) {
    const auto block = rows.subspan(begin, std::min(kBlock, rows.size() - begin));
    for (size_t k = 0; k < places_.size(); ++k) fill(k, block, out.data<double>() + begin * places_.size());
  }
  return out;
}

Array TableRows::row(int64_t row) const {
  Array out(DType::f64, {static_cast<int64_t>(places_.size())});
  for (size_t k = 0; k < places_.size(); ++k) fill(k, {&row, 1}, out.data<double>());
  return out;
}

}  // namespace freight::store
