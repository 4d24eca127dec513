// See row_model.h.
#include "freight/store/row_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/data/columns.h"

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

constexpr const char* kFormNames[] = {"number", "yesno", "year", "month", "weekday", "hour", "seconds"};

double part_of(const data::DateTime& time, CellForm form) {
  switch (form) {
    case CellForm::year: return time.year;
    case CellForm::month: return time.month;
    case CellForm::weekday: return time.weekday;
    case CellForm::hour: return time.hour;
    case CellForm::number:
    case CellForm::yesno:
    case CellForm::seconds: break;
  }
  return time.seconds;
}

}  // namespace

std::vector<int64_t> Rows::group_begins() const {
  std::vector<int64_t> begins;
  const auto* group = groups->data<int64_t>();
  for (int64_t i = 0; i < count(); ++i) {
    if (i == 0 || group[i] != group[i - 1]) begins.push_back(i);
  }
  return begins;
}

metrics::Truth Rows::truth() const {
  metrics::Truth truth(labels);
  truth.weights = weights;
  if (ranked) truth.queries = groups;
  return truth;
}

Array run(const RowModel& model, const RowValues& rows) {
  constexpr int64_t kBlock = 1 << 16;  // rows
  if (!rows.of_table()) return model.run(rows.array());
  const int64_t n = rows.count(), width = rows.width();
  Array out(DType::f32, {n, model.outputs()});
  std::vector<double> room;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(n, begin + kBlock);
    Array block(DType::f64, {end - begin, width});
    std::copy_n(rows.read(begin, end, room), block.numel(), block.data<double>());
    const Array y = model.run(block);
    std::copy_n(y.data<float>(), y.numel(), out.data<float>() + begin * model.outputs());
  }
  return out;
}

Array RowModel::contributions(const Array&) const {
  fail(ErrorKind::usage, "contributions", "this model does not attribute its predictions to columns");
}
std::string RowModel::library_file(const std::string& format, const std::vector<std::string>&) const {
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

std::string to_string(CellForm form) { return kFormNames[static_cast<size_t>(form)]; }

std::optional<double> yes_or_no(std::string_view cell) {
  const std::string word = lower(data::trimmed(cell));
  if (word == "1" || word == "0") return word == "1" ? 1 : 0;
  for (const auto& [yes, no] : data::kYesNo) {
    if (word == yes || word == no) return word == yes ? 1 : 0;
  }
  return std::nullopt;
}

namespace {
// The number of the level that a value is, kUnknownWord if it is none. A number is also the level with the same value,
// if no level is written like it and exactly one has its value.
int64_t level_of(const std::vector<std::string>& levels, std::string_view cell) {
  constexpr auto kNone = static_cast<int64_t>(kUnknownWord);
  for (const std::string_view word : {cell, data::category_word(cell)}) {
    const auto at = std::lower_bound(levels.begin(), levels.end(), word);
    if (at != levels.end() && *at == word) return at - levels.begin();
  }
  const std::optional<double> number = data::is_big_integer(cell) ? std::nullopt : data::number_in(cell);
  int64_t found = kNone;
  for (size_t i = 0; number && i < levels.size(); ++i) {
    if (data::number_in(levels[i]) != number) continue;
    if (found != kNone) return kNone;
    found = static_cast<int64_t>(i);
  }
  return found;
}
}  // namespace

std::optional<double> value_in(const Column& column, std::string_view cell) {
  constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
  cell = data::trimmed(cell);
  if (column.words ? data::is_missing_cell(cell) : data::is_missing_number(cell)) return kMissing;
  if (column.words) return static_cast<double>(level_of(column.levels, cell));
  if (column.form == CellForm::yesno) return yes_or_no(cell).value_or(kMissing);
  if (column.date()) {
    const std::optional<data::DateTime> time = data::date_time_in(cell, column.order);
    return time ? std::optional(part_of(*time, column.form)) : std::nullopt;
  }
  return data::number_as(cell, column.style);
}

double value_in(const Column& column, const data::DateTime& time) { return part_of(time, column.form); }

// Categories and dates are texts, of numbers as they print.
std::optional<double> value_in(const Column& column, double number) {
  if (std::isnan(number)) return number;
  if (column.words || column.date()) return value_in(column, cat(number));
  if (column.form == CellForm::yesno) {
    return number == 0 || number == 1 ? number : std::numeric_limits<double>::quiet_NaN();
  }
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

Cell cell_of(int64_t integer) {
  const auto number = static_cast<double>(integer);
  // 2^63 itself is no int64.
  if (number < 0x1p63 && static_cast<int64_t>(number) == integer) return number;
  return cat(integer);
}

std::string unfit(const Column& column, std::string_view cell) {
  constexpr const char* kDates[] = {"2026-11-26", "26.11.2026", "11/26/2026"};
  return cat("column ", excerpt(column.source_name()), ": expected ",
             column.date()          ? cat("a date as ", kDates[static_cast<size_t>(column.order)])
             : column.style.plain() ? std::string("a finite number")
                                    : cat("a finite number as ", data::example_of(column.style)),
             ", or an empty field where it is missing, got '", excerpt(cell), "'");
}

Array row_of(const std::vector<Column>& columns, const std::vector<Cell>& cells, const std::string& name) {
  if (cells.size() != columns.size()) {
    fail(ErrorKind::data, name, "got ", cells.size(), " values, the model expects ", columns.size(), " columns");
  }
  Array row(DType::f64, {static_cast<int64_t>(columns.size())});
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto* const text = std::get_if<std::string>(&cells[i]);
    const std::optional<double> value =
        text ? value_in(columns[i], *text) : value_in(columns[i], std::get<double>(cells[i]));
    if (!value) {
      fail(ErrorKind::data, name,
           unfit(columns[i], text ? data::trimmed(*text) : std::string_view(cat(std::get<double>(cells[i])))));
    }
    row.data<double>()[i] = *value;
  }
  return row;
}

bool beyond_range(const Column& column, double value) {
  const bool cyclic = column.date() && column.form != CellForm::seconds;
  if (!column.range || cyclic) return false;
  return value < column.range->least || value > column.range->most;  // a missing value is within any range
}

std::vector<Beyond> beyond_training(const std::vector<Column>& columns, const double* row) {
  std::vector<Beyond> outside;
  for (size_t i = 0; i < columns.size(); ++i) {
    const Column& c = columns[i];
    if (!beyond_range(c, row[i])) continue;
    outside.push_back({i, cat(c.name, " is ", row[i], ", in training ", c.range->least, " to ", c.range->most)});
  }
  return outside;
}

std::vector<std::string> sources_of(const std::vector<Column>& columns) {
  std::vector<std::string> names;
  std::unordered_set<std::string> seen;
  for (const Column& c : columns) {
    if (seen.insert(c.source_name()).second) names.push_back(c.source_name());
  }
  return names;
}

std::vector<size_t> places_of(const std::vector<Column>& columns, const std::vector<std::string>& names,
                              const std::string& name) {
  std::unordered_map<std::string_view, size_t> place_of;
  std::unordered_set<std::string_view> twice;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!place_of.emplace(names[i], i).second) twice.insert(names[i]);
  }
  std::vector<size_t> places;
  for (const Column& column : columns) {
    const std::string& source = column.source_name();
    const auto at = place_of.find(source);
    if (at == place_of.end()) {
      fail(ErrorKind::data, name, "there is no column ", excerpt(source), ", which the model expects: got ",
           excerpt(join(names, ", ")), did_you_mean(source, names));
    }
    if (twice.contains(source)) {
      fail(ErrorKind::data, name, "column ", excerpt(source), " appears twice: expected each once");
    }
    places.push_back(at->second);
  }
  return places;
}

}  // namespace freight::store
