// See table.h.
#include "freight/tables/table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/data/cells.h"
#include "freight/data/columns.h"
#include "freight/data/dataset.h"
#include "freight/io/digest.h"
#include "freight/store/table_rows.h"

namespace freight::tables {

namespace {

constexpr size_t kMostNumberedClasses = 20, kLeastRowsPerNumber = 2;  // in the mean
constexpr double kEndOfWholeNumbers = 0x1p53;                         // below it doubles tell whole numbers apart

size_t target_of(const data::TableHead& head, const std::string& asked, const std::string& name) {
  if (asked.empty()) {
    if (head.header) {
      if (const auto best = data::TableHeader(head.names).best(data::ColumnRole::label)) return *best;
    }
    return head.names.size() - 1;
  }
  const auto at = std::find(head.names.begin(), head.names.end(), asked);
  if (at != head.names.end()) return static_cast<size_t>(at - head.names.begin());
  size_t number = 0;
  const auto [end, error] = std::from_chars(asked.data(), asked.data() + asked.size(), number);
  const bool whole = error == std::errc() && end == asked.data() + asked.size();
  if (whole && number >= 1 && number <= head.names.size()) return number - 1;
  const std::string near = nearest(asked, head.names);
  fail(ErrorKind::usage, "--target", "there is no column ", asked, " in ", name, ": got ",
       excerpt(join(head.names, ", ")), near.empty() ? "" : cat("; did you mean ", near, "?"));
}

// Takes away the rows of which something is said, in their order.
void leave_out(data::Cells& cells, const train::RowSource& source, const std::vector<store::RowFault>& faults) {
  std::vector<bool> kept(static_cast<size_t>(cells.rows()), true);
  for (const store::RowFault& fault : faults) {
    const std::string place = cells.place(fault.row);
    if (source.bad.on_bad == data::OnBad::error) {
      fail(ErrorKind::data, place, fault.reason, "; --on-bad-sample skip leaves such rows out");
    }
    if (source.bad.report) source.bad.report({.path = place, .reason = fault.reason});
    kept[static_cast<size_t>(fault.row)] = false;
  }
  cells.keep(kept);
  if (cells.rows() == 0) fail(ErrorKind::data, source.data, "holds no rows");
  if (cells.rows() < 2 && !source.known) {
    fail(ErrorKind::data, source.data, "holds ", cells.rows(), " rows, need two at least, for training and test");
  }
}

// The name of the class that a whole number stands for, "2" for "+2.0"; "" for other cells.
std::string name_of_number(double v) {
  return v == std::floor(v) && std::fabs(v) < kEndOfWholeNumbers ? cat(static_cast<int64_t>(v)) : std::string();
}

// Numbers that f32, in which models answer, would move by so much of their range that no loss could be believed.
void need_told_apart(const data::Cells& cells, size_t target, const std::string& name) {
  constexpr double kMostOfRange = 1e-3;
  const data::CellColumn& told = cells.columns[target];
  double least = 0, most = 0, moved = 0;
  for (size_t i = 0; i < told.numbers.size(); ++i) {
    const double v = told.numbers[i];
    if (!std::isfinite(static_cast<float>(v))) return;  // refused by its line where it is read
    least = i == 0 ? v : std::min(least, v);
    most = i == 0 ? v : std::max(most, v);
    moved = std::max(moved, std::fabs(v - static_cast<double>(static_cast<float>(v))));
  }
  if (moved <= kMostOfRange * (most - least) || least == most) return;
  fail(ErrorKind::data, name, "column ", told.name, ": its values lie too close together for f32, in which ",
       "they are told: got ", cells.rows(), " in a range of ", most - least, ", which f32 moves by up to ", moved,
       "; subtract ", cat(static_cast<int64_t>(std::clamp(least, -kEndOfWholeNumbers, kEndOfWholeNumbers))),
       " from all of them");
}

// The words that stand in these rows, sorted.
std::vector<std::string> words_in(const data::CellColumn& column, const std::vector<bool>& rows) {
  std::vector<bool> used(column.words.size());
  for (size_t i = 0; i < column.codes.size(); ++i) {
    if (rows[i] && column.codes[i] != data::Words::kMissing) used[column.codes[i]] = true;
  }
  std::vector<std::string> words;
  for (uint32_t code = 0; code < used.size(); ++code) {
    if (used[code]) words.emplace_back(column.words[code]);
  }
  std::sort(words.begin(), words.end());
  return words;
}

// The classes that the column tells, by words or whole numbers; empty where it holds values. Whole numbers of which
// most stand in one row, such as prices, are values: their classes would have nothing to be learned from and told by.
std::vector<std::string> classes_of(const data::CellColumn& told) {
  if (told.is_words()) return words_in(told, std::vector<bool>(told.codes.size(), true));
  std::set<double> values;
  for (const double v : told.numbers) {
    if (name_of_number(v).empty()) return {};
    values.insert(v);
    if (values.size() > kMostNumberedClasses) return {};
  }
  if (told.numbers.size() < kLeastRowsPerNumber * values.size()) return {};
  std::vector<std::string> names;
  for (const double v : values) names.push_back(cat(static_cast<int64_t>(v)));
  return names;
}

// The place of a word or number among the classes; -1 where it is none.
int64_t class_of(const std::vector<std::string>& classes, std::string_view word) {
  auto at = std::find(classes.begin(), classes.end(), word);
  if (at == classes.end()) {
    const std::optional<double> number = data::number_in(word);
    if (number) at = std::find(classes.begin(), classes.end(), name_of_number(*number));
  }
  return at == classes.end() ? -1 : at - classes.begin();
}

// Which rows are held out, and which columns are read.
class Reading {
 public:
  explicit Reading(const train::RowSource& source) : source_(source) {
    data::CellsAsked asked;
    asked.kinds = [this](const data::TableHead& head) { return kinds(head); };
    cells_ = data::read_cells(source.data, asked);
    out_.target = told().name;
    leave_out(cells_, source_, without_target());
    choose_columns();
    tell();
    leave_out(cells_, source_, store::TableRows(out_.shape.columns, cells_, places_).faults());
    divide();
    choose_levels();
    const store::TableRows rows(out_.shape.columns, cells_, places_);
    out_.train = rows_of(rows, false);
    out_.test = rows_of(rows, true);
    out_.fingerprint = fingerprint();
  }
  train::RowData take() { return std::move(out_); }

 private:
  const data::CellColumn& told() const { return cells_.columns[target_]; }

  std::vector<data::CellKind> kinds(const data::TableHead& head) {
    if (data::only_names(head)) fail(ErrorKind::data, source_.data, "holds a header and no rows");
    target_ = target_of(head, source_.target, source_.data);
    if (!source_.known) return std::vector<data::CellKind>(head.names.size(), data::CellKind::by_cells);
    places_ = store::places_of(source_.known->columns, head.names, source_.data);
    std::vector<data::CellKind> kinds = store::kinds_of(source_.known->columns, places_, head.names.size());
    // Classes may be called by words or by numbers; their spelling decides.
    if (kinds[target_] == data::CellKind::skipped) {
      kinds[target_] = source_.known->classes.empty() ? data::CellKind::by_cells : data::CellKind::words;
    }
    return kinds;
  }

  std::vector<store::RowFault> without_target() const {
    std::vector<store::RowFault> faults;
    for (int64_t i = 0; i < cells_.rows(); ++i) {
      if (told().missing(i)) faults.push_back({i, cat("column ", out_.target, ", which is told, is empty")});
    }
    return faults;
  }

  void choose_columns() {
    if (source_.known) {
      out_.shape.columns = source_.known->columns;
      return;
    }
    for (size_t i = 0; i < cells_.columns.size(); ++i) {
      if (i == target_) continue;
      places_.push_back(i);
      out_.shape.columns.push_back({.name = cells_.columns[i].name, .words = cells_.columns[i].is_words()});
    }
    if (places_.empty()) {
      fail(ErrorKind::data, source_.data, "has the column ", out_.target, " alone: there is nothing to tell it from");
    }
  }

  void tell() {
    const std::vector<std::string>* const known = source_.known ? &source_.known->classes : nullptr;
    if (known) out_.shape.classes = *known;
    if (!known && !source_.values) out_.shape.classes = classes_of(told());
    const size_t classes = out_.shape.classes.size();
    if (classes == 0 && told().is_words()) {
      fail(ErrorKind::data, source_.data, "column ", out_.target,
           " holds words, the model tells values: need numbers, or a model that ", "tells classes");
    }
    if (classes == 0 && !known) need_told_apart(cells_, target_, source_.data);
    if (!cells_.head.header)
      out_.notes.push_back("the first row is data, no header: it holds a number, or its cells do not look like names");
    out_.notes.push_back(cat("column ", out_.target, " is told from the ", cells_.columns.size() - 1, " others, as ",
                             classes > 0 ? cat(classes, " classes") : std::string("values"),
                             source_.target.empty() ? " (--target names another)" : ""));
  }

  // The class of each row; 0 of values.
  std::vector<int64_t> labels() const {
    const std::vector<std::string>& classes = out_.shape.classes;
    std::vector<int64_t> labels(static_cast<size_t>(cells_.rows()));
    if (classes.empty()) return labels;
    std::vector<int64_t> by_code;
    for (uint32_t code = 0; code < told().words.size(); ++code) {
      by_code.push_back(class_of(classes, told().words[code]));
    }
    std::map<double, int64_t> by_number;
    for (size_t i = 0; i < labels.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      if (told().is_words()) {
        labels[i] = by_code[told().codes[i]];
      } else {
        const auto [at, fresh] = by_number.try_emplace(told().numbers[i], -1);
        if (fresh) at->second = class_of(classes, told().text(row));
        labels[i] = at->second;
      }
      if (labels[i] >= 0) continue;
      fail(ErrorKind::data, cells_.place(row), "has class ", excerpt(told().text(row)), ", the model has ",
           excerpt(join(classes, ", ")));
    }
    return labels;
  }

  void divide() {
    labels_ = labels();
    const double share = source_.val_split < 0 ? data::kDefaultSplit : source_.val_split;
    held_out_ = data::hold_out(labels_, std::max<size_t>(out_.shape.classes.size(), 1), share, source_.seed);
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

  // Those of the training part: the test part is as unknown as later rows.
  void choose_levels() {
    if (source_.known) return;
    std::vector<bool> training = held_out_;
    training.flip();
    for (size_t k = 0; k < places_.size(); ++k) {
      if (out_.shape.columns[k].words) out_.shape.columns[k].levels = words_in(cells_.columns[places_[k]], training);
    }
  }

  store::Rows rows_of(const store::TableRows& all, bool test) const {
    std::vector<int64_t> chosen;
    for (size_t i = 0; i < held_out_.size(); ++i) {
      if (held_out_[i] == test) chosen.push_back(static_cast<int64_t>(i));
    }
    const bool classes = !out_.shape.classes.empty();
    store::Rows rows{all.values(chosen),
                     Array(classes ? DType::i64 : DType::f32, {static_cast<int64_t>(chosen.size())})};
    for (size_t i = 0; i < chosen.size(); ++i) {
      const auto row = static_cast<size_t>(chosen[i]);
      if (classes) {
        rows.labels.data<int64_t>()[i] = labels_[row];
        continue;
      }
      const auto value = static_cast<float>(told().numbers[row]);
      if (!std::isfinite(value)) {
        fail(ErrorKind::data, cells_.place(chosen[i]), "column ", out_.target, ": got ",
             excerpt(told().text(chosen[i])), ", need a number that f32 holds");
      }
      rows.labels.data<float>()[i] = value;
    }
    return rows;
  }

  // Made of what a model is fitted to: a copy of the file gives the same, in whatever order its columns stand.
  uint64_t fingerprint() const {
    std::string text = cat(out_.target, "\n", join(out_.shape.classes, "\t"));
    for (const store::Column& c : out_.shape.columns) text += cat("\n", c.name, "\t", join(c.levels, "\t"));
    const auto bytes = [](const Array& a) {
      return io::ByteView(static_cast<const uint8_t*>(a.raw()), static_cast<size_t>(a.bytes()));
    };
    text += cat("\n", io::xxh3_128(bytes(out_.train.values)), io::xxh3_128(bytes(out_.train.labels)));
    const std::string hash = io::xxh3_128({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
    return std::stoull(hash.substr(0, 16), nullptr, 16);
  }

  const train::RowSource& source_;
  data::Cells cells_;
  size_t target_ = 0;
  std::vector<int64_t> labels_;
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
  return Reading(source).take();
}

}  // namespace freight::tables
