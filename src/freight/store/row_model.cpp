// See row_model.h.
#include "freight/store/row_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/data/columns.h"
#include "freight/store/table_rows.h"

namespace freight::store {

namespace {

struct RowReaders {
  std::mutex guard;
  std::map<std::string, RowReader> all;
};
RowReaders& readers() {
  static RowReaders all;
  return all;
}

double number_of(const Column& column, const std::string& cell, const std::string& name) {
  if (const auto v = data::number_in(cell); v && std::isfinite(*v)) return *v;
  fail(ErrorKind::data, name, need_number(column, cell));
}

}  // namespace

Array RowModel::contributions(const Array&) const {
  fail(ErrorKind::usage, "contributions", "this model does not say what each column adds to its answers");
}
std::string RowModel::library_file(const std::string& format) const {
  fail(ErrorKind::usage, "library_file", "no library has a file format for this model: got ", format);
}

void register_row_model(const std::string& learner, RowReader reader) {
  RowReaders& r = readers();
  const std::lock_guard lock(r.guard);
  if (learner.empty() || learner == kNet || !r.all.emplace(learner, std::move(reader)).second) {
    fail(ErrorKind::usage, "register_row_model", "the name '", learner, "' is taken, or is none");
  }
}

RowReader row_reader(const std::string& learner) {
  RowReaders& r = readers();
  const std::lock_guard lock(r.guard);
  const auto it = r.all.find(learner);
  return it == r.all.end() ? nullptr : it->second;
}

std::vector<std::string> row_learners() {
  RowReaders& r = readers();
  const std::lock_guard lock(r.guard);
  std::vector<std::string> names;
  for (const auto& [name, reader] : r.all) names.push_back(name);
  return names;
}

Array row_of(const std::vector<Column>& columns, const std::vector<std::string>& cells, const std::string& name) {
  if (cells.size() != columns.size()) {
    fail(ErrorKind::data, name, "got ", cells.size(), " cells, the model takes ", columns.size(), " columns");
  }
  Array row(DType::f64, {static_cast<int64_t>(columns.size())});
  for (size_t i = 0; i < columns.size(); ++i) {
    const Column& column = columns[i];
    const std::string cell(data::trimmed(cells[i]));
    double& value = row.data<double>()[i];
    if (data::is_missing_cell(cell)) {
      value = std::numeric_limits<double>::quiet_NaN();
    } else if (column.words) {
      value = word_of(column, cell);
    } else {
      value = number_of(column, cell, name);
    }
  }
  return row;
}

std::vector<size_t> places_of(const std::vector<Column>& columns, const std::vector<std::string>& names,
                              const std::string& name) {
  std::vector<size_t> places;
  for (const Column& column : columns) {
    const auto at = std::find(names.begin(), names.end(), column.name);
    if (at == names.end()) {
      const std::string near = nearest(column.name, names);
      fail(ErrorKind::data, name, "there is no column ", column.name, ", which the model takes: got ",
           excerpt(join(names, ", ")), near.empty() ? "" : cat("; is it ", near, "?"));
    }
    if (std::find(at + 1, names.end(), column.name) != names.end()) {
      fail(ErrorKind::data, name, "column ", column.name, " is there twice: need each once");
    }
    places.push_back(static_cast<size_t>(at - names.begin()));
  }
  return places;
}

std::vector<std::string> cells_at(const std::vector<std::string>& row, const std::vector<size_t>& places) {
  std::vector<std::string> cells;
  for (const size_t place : places) cells.push_back(row[place]);
  return cells;
}

}  // namespace freight::store
