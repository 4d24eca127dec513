// See memory_table_internal.h.
#include "freight/data/memory_table_internal.h"

#include <cmath>
#include <limits>
#include <set>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/data/cell_filler_internal.h"

namespace freight::data {

namespace {

void add_numbers(CellColumn& column, const std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    if (std::isinf(values[i])) column.odd.push_back({row, row + 1, cat(values[i])});
    column.numbers.push_back(std::isfinite(values[i]) ? values[i] : std::numeric_limits<double>::quiet_NaN());
  }
}

void add_texts(CellColumn& column, const std::vector<std::string>& texts) {
  column.kind = CellKind::words;
  for (const std::string& text : texts) column.codes.push_back(text.empty() ? Words::kMissing : column.words.add(text));
  for (size_t i = 0; i < texts.size() && !column.first_word; ++i) {
    const auto row = static_cast<int64_t>(i);
    if (!texts[i].empty()) column.first_word = OddCell{row, row + 1, texts[i]};
  }
}

CellColumn in_kind(const CellColumn& column, CellKind kind, int64_t rows) {
  CellColumn out;
  out.name = column.name;
  ColumnFiller filler(out, kind);
  std::string text;
  for (int64_t row = 0; row < rows; ++row) {
    text = column.text(row);
    const size_t size = text.size();
    text.append(kReadableBehind, '\0');
    filler.add(std::string_view(text).substr(0, size), row + 1);
  }
  return out;
}

}  // namespace

Cells cells_in_memory(const std::vector<MemoryColumn>& columns, const std::string& name) {
  Cells cells;
  cells.files = {name};
  cells.head.header = cells.head.typed = true;
  if (columns.empty()) fail(ErrorKind::data, name, "has no columns");
  const auto length = [](const MemoryColumn& c) {
    return std::visit([](const auto& all) { return all.size(); }, c.cells);
  };
  std::set<std::string> names;
  for (const MemoryColumn& c : columns) {
    if (length(c) != length(columns[0])) {
      fail(ErrorKind::data, name, "column ", c.name, " has ", length(c), " rows, column ", columns[0].name, " has ",
           length(columns[0]));
    }
    if (!names.insert(c.name).second) fail(ErrorKind::data, name, "two columns are named ", c.name);
    CellColumn& column = cells.columns.emplace_back();
    column.name = c.name;
    cells.head.names.push_back(c.name);
    if (const auto* const numbers = std::get_if<std::vector<double>>(&c.cells)) add_numbers(column, *numbers);
    if (const auto* const texts = std::get_if<std::vector<std::string>>(&c.cells)) add_texts(column, *texts);
  }
  for (size_t i = 0; i < length(columns[0]); ++i) cells.places.add(0, static_cast<int64_t>(i) + 1);
  return cells;
}

Cells in_asked_kinds(Cells cells, const CellsAsked& asked) {
  const std::vector<CellKind> kinds = asked_kinds(asked, cells.head);
  for (size_t i = 0; i < kinds.size(); ++i) {
    CellColumn& column = cells.columns[i];
    if (kinds[i] != CellKind::by_cells && kinds[i] != column.kind) column = in_kind(column, kinds[i], cells.rows());
  }
  return cells;
}

}  // namespace freight::data
