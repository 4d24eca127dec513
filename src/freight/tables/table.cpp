// See table.h.
#include "freight/tables/table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/data/cells.h"
#include "freight/data/columns.h"
#include "freight/data/dataset.h"
#include "freight/io/digest.h"

namespace freight::tables {

namespace {

constexpr size_t kMostNumberedClasses = 20, kLeastRowsPerNumber = 2;  // in the mean
constexpr double kEndOfWholeNumbers = 0x1p53;                         // below it doubles tell whole numbers apart

size_t target_of(const data::Cells& cells, const std::string& asked, const std::string& name) {
  if (asked.empty()) {
    if (cells.header) {
      if (const auto best = data::TableHeader(cells.names).best(data::ColumnRole::label)) return *best;
    }
    return cells.names.size() - 1;
  }
  const auto at = std::find(cells.names.begin(), cells.names.end(), asked);
  if (at != cells.names.end()) return static_cast<size_t>(at - cells.names.begin());
  size_t number = 0;
  const auto [end, error] = std::from_chars(asked.data(), asked.data() + asked.size(), number);
  const bool whole = error == std::errc() && end == asked.data() + asked.size();
  if (whole && number >= 1 && number <= cells.names.size()) return number - 1;
  const std::string near = nearest(asked, cells.names);
  fail(ErrorKind::usage, "--target", "there is no column ", asked, " in ", name, ": got ",
       excerpt(join(cells.names, ", ")), near.empty() ? "" : cat("; did you mean ", near, "?"));
}

// Takes away the rows of which `fault` says something.
template <class Fault>
void leave_out(data::Cells& cells, const train::RowSource& source, const Fault& fault) {
  size_t kept = 0;
  for (size_t i = 0; i < cells.rows.size(); ++i) {
    const std::string place = cat(source.data, ":", cells.lines[i]);
    const std::string reason = fault(cells.rows[i], place);
    if (reason.empty()) {
      if (kept != i) cells.rows[kept] = std::move(cells.rows[i]);
      cells.lines[kept++] = cells.lines[i];
      continue;
    }
    if (source.bad.on_bad == data::OnBad::error) {
      fail(ErrorKind::data, place, reason, "; --on-bad-sample skip leaves such rows out");
    }
    if (source.bad.report) source.bad.report({.path = place, .reason = reason});
  }
  cells.rows.resize(kept);
  cells.lines.resize(kept);
  if (kept == 0) fail(ErrorKind::data, source.data, "holds no rows");
  if (kept < 2 && !source.known) {
    fail(ErrorKind::data, source.data, "holds ", kept, " rows, need two at least, for training and test");
  }
}

bool all_numbers(const data::Cells& cells, size_t column) {
  return std::all_of(cells.rows.begin(), cells.rows.end(), [&](const auto& row) {
    return store::is_missing(row[column]) || data::is_number_cell(row[column]);
  });
}

// The name of the class that a whole number stands for, "2" for "+2.0"; "" for other cells.
std::string name_of_number(std::string_view cell) {
  const std::optional<double> v = data::number_in(cell);
  return v && *v == std::floor(*v) && std::fabs(*v) < kEndOfWholeNumbers ? cat(static_cast<int64_t>(*v))
                                                                         : std::string();
}

// Numbers that f32, in which models answer, would move by so much of their range that no loss could be believed.
void need_told_apart(const data::Cells& cells, size_t target, const std::string& name) {
  constexpr double kMostOfRange = 1e-3;
  double least = 0, most = 0, moved = 0;
  for (size_t i = 0; i < cells.rows.size(); ++i) {
    const double v = *data::number_in(cells.rows[i][target]);
    if (!std::isfinite(static_cast<float>(v))) return;  // refused by its line where it is read
    least = i == 0 ? v : std::min(least, v);
    most = i == 0 ? v : std::max(most, v);
    moved = std::max(moved, std::fabs(v - static_cast<double>(static_cast<float>(v))));
  }
  if (moved <= kMostOfRange * (most - least) || least == most) return;
  fail(ErrorKind::data, name, "column ", cells.names[target], ": its values lie too close together for f32, in which ",
       "they are told: got ", cells.rows.size(), " in a range of ", most - least, ", which f32 moves by up to ", moved,
       "; subtract ", cat(static_cast<int64_t>(std::clamp(least, -kEndOfWholeNumbers, kEndOfWholeNumbers))),
       " from all of them");
}

// The classes that the column tells, by words or whole numbers; empty where it holds values. Whole numbers of which
// most stand in one row, such as prices, are values: their classes would have nothing to be learned from and told by.
std::vector<std::string> classes_of(const data::Cells& cells, size_t target) {
  const bool numbers = all_numbers(cells, target);
  std::set<std::string> words;
  std::set<double> values;
  for (const auto& row : cells.rows) {
    words.insert(std::string(data::trimmed(row[target])));
    if (!numbers) continue;
    if (name_of_number(row[target]).empty()) return {};
    values.insert(*data::number_in(row[target]));
    if (values.size() > kMostNumberedClasses) return {};
  }
  if (!numbers) return {words.begin(), words.end()};
  if (cells.rows.size() < kLeastRowsPerNumber * values.size()) return {};
  std::vector<std::string> names;
  for (const double v : values) names.push_back(cat(static_cast<int64_t>(v)));
  return names;
}

// The place of a cell's class.
int64_t class_of(const std::vector<std::string>& classes, const std::string& cell, const std::string& place) {
  auto at = std::find(classes.begin(), classes.end(), data::trimmed(cell));
  if (at == classes.end()) at = std::find(classes.begin(), classes.end(), name_of_number(cell));
  if (at == classes.end()) {
    fail(ErrorKind::data, place, "has class ", excerpt(cell), ", the model has ", excerpt(join(classes, ", ")));
  }
  return at - classes.begin();
}

// Which rows are held out, and which columns are read.
class Reading {
 public:
  Reading(const train::RowSource& source, data::Cells cells)
      : source_(source), cells_(std::move(cells)), target_(target_of(cells_, source.target, source.data)) {
    leave_out(cells_, source_, [&](const auto& row, const std::string&) {
      return store::is_missing(row[target_]) ? cat("column ", cells_.names[target_], ", which is told, is empty")
                                             : std::string();
    });
    if (source_.bad.on_bad == data::OnBad::skip) leave_out_unreadable();
    out_.target = cells_.names[target_];
    tell();
    divide();
    choose_columns();
    out_.train = rows_of(false);
    out_.test = rows_of(true);
    out_.fingerprint = fingerprint();
  }
  train::RowData take() { return std::move(out_); }

 private:
  // Before the table is divided, so that the parts are of rows that are read.
  void leave_out_unreadable() {
    std::vector<store::Column> columns;
    std::vector<size_t> places;
    if (source_.known) {
      columns = source_.known->columns;
      places = store::places_of(columns, cells_.names, source_.data);
    } else {
      for (size_t i = 0; i < cells_.names.size(); ++i) {
        if (i == target_) continue;
        places.push_back(i);
        columns.push_back({.name = cells_.names[i], .words = !all_numbers(cells_, i)});
      }
    }
    leave_out(cells_, source_, [&](const auto& row, const std::string& place) {
      try {
        store::row_of(columns, store::cells_at(row, places), place);
        return std::string();
      } catch (const Error& e) {
        return e.message();
      }
    });
  }

  void tell() {
    const std::vector<std::string>* const known = source_.known ? &source_.known->classes : nullptr;
    if (known) out_.shape.classes = *known;
    if (!known && !source_.values) out_.shape.classes = classes_of(cells_, target_);
    const size_t classes = out_.shape.classes.size();
    if (classes == 0 && !all_numbers(cells_, target_)) {
      fail(ErrorKind::data, source_.data, "column ", out_.target,
           " holds words, the model tells values: need numbers, or a model that ", "tells classes");
    }
    if (classes == 0 && !known) need_told_apart(cells_, target_, source_.data);
    if (!cells_.header)
      out_.notes.push_back("the first row is data, no header: it holds a number, or its cells do not look like names");
    out_.notes.push_back(cat("column ", out_.target, " is told from the ", cells_.names.size() - 1, " others, as ",
                             classes > 0 ? cat(classes, " classes") : std::string("values"),
                             source_.target.empty() ? " (--target names another)" : ""));
  }

  void divide() {
    std::vector<int64_t> labels;
    for (size_t i = 0; i < cells_.rows.size(); ++i) {
      const std::string place = cat(source_.data, ":", cells_.lines[i]);
      labels.push_back(out_.shape.classes.empty() ? 0 : class_of(out_.shape.classes, cells_.rows[i][target_], place));
    }
    const double share = source_.val_split < 0 ? data::kDefaultSplit : source_.val_split;
    held_out_ = data::hold_out(labels, std::max<size_t>(out_.shape.classes.size(), 1), share, source_.seed);
    const auto count = std::count(held_out_.begin(), held_out_.end(), true);
    if (!source_.known && (count == 0 || count == static_cast<int64_t>(held_out_.size()))) {
      fail(ErrorKind::usage, "--val-split", "of ", held_out_.size(), " rows ", count, " are held out: need some in ",
           "either part",
           count == 0 && !out_.shape.classes.empty()
               ? cat("; column ", out_.target, " has ", out_.shape.classes.size(), " classes, of too few rows each")
               : std::string());
    }
    out_.notes.push_back(cat(count, " of ", held_out_.size(), " rows are held out as the test part (--val-split)"));
  }

  void choose_columns() {
    if (source_.known) {
      out_.shape.columns = source_.known->columns;
      places_ = store::places_of(out_.shape.columns, cells_.names, source_.data);
      return;
    }
    for (size_t i = 0; i < cells_.names.size(); ++i) {
      if (i == target_) continue;
      places_.push_back(i);
      store::Column column{.name = cells_.names[i], .words = !all_numbers(cells_, i)};
      std::set<std::string> levels;  // of the training part: the test part is as unknown as later rows
      for (size_t row = 0; column.words && row < cells_.rows.size(); ++row) {
        std::string cell(data::trimmed(cells_.rows[row][i]));
        if (!held_out_[row] && !store::is_missing(cell)) levels.insert(std::move(cell));
      }
      column.levels.assign(levels.begin(), levels.end());
      out_.shape.columns.push_back(std::move(column));
    }
    if (places_.empty()) {
      fail(ErrorKind::data, source_.data, "has the column ", out_.target, " alone: there is nothing to tell it from");
    }
  }

  store::Rows rows_of(bool test) const {
    const auto n = std::count(held_out_.begin(), held_out_.end(), test);
    const auto width = static_cast<int64_t>(places_.size());
    const bool classes = !out_.shape.classes.empty();
    store::Rows rows{Array(DType::f64, {n, width}), Array(classes ? DType::i64 : DType::f32, {n})};
    int64_t at = 0;
    for (size_t i = 0; i < cells_.rows.size(); ++i) {
      if (held_out_[i] != test) continue;
      const std::string place = cat(source_.data, ":", cells_.lines[i]);
      const Array row = store::row_of(out_.shape.columns, store::cells_at(cells_.rows[i], places_), place);
      std::copy_n(row.data<double>(), width, rows.values.data<double>() + at * width);
      const std::string& told = cells_.rows[i][target_];
      if (classes) {
        rows.labels.data<int64_t>()[at] = class_of(out_.shape.classes, told, place);
      } else {
        const auto value = static_cast<float>(*data::number_in(told));
        if (!std::isfinite(value)) {
          fail(ErrorKind::data, place, "column ", out_.target, ": got ", excerpt(told),
               ", need a number that f32 holds");
        }
        rows.labels.data<float>()[at] = value;
      }
      ++at;
    }
    return rows;
  }

  uint64_t fingerprint() const {
    std::string text = join(cells_.names, "\n");
    for (size_t i = 0; i < cells_.rows.size(); ++i) {
      if (!held_out_[i]) text += cat("\n", join(cells_.rows[i], "\t"));
    }
    const std::string hash = io::xxh3_128({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
    return std::stoull(hash.substr(0, 16), nullptr, 16);
  }

  const train::RowSource& source_;
  data::Cells cells_;
  size_t target_;
  std::vector<bool> held_out_;  // by row
  std::vector<size_t> places_;  // of the columns that are read
  train::RowData out_;
};

}  // namespace

train::RowData read_table(const train::RowSource& source) {
  std::error_code ignored;
  if (source.data.empty() || std::filesystem::is_directory(source.data, ignored)) {
    fail(ErrorKind::data, source.data.empty() ? std::string("data") : source.data,
         "is no table: need a .csv or .tsv file (.gz too) with a row per sample");
  }
  data::Cells cells = data::read_cells(source.data);
  if (data::only_names(cells)) fail(ErrorKind::data, source.data, "holds a header and no rows");
  return Reading(source, std::move(cells)).take();
}

}  // namespace freight::tables
