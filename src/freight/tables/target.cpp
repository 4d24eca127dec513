// See target.h.
#include "freight/tables/target.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/data/columns.h"
#include "freight/data/number_style.h"

namespace freight::tables {

namespace {

constexpr size_t kMostNumberedClasses = 20, kLeastRowsPerNumber = 2;  // on average
constexpr double kEndOfWholeNumbers = 0x1p53;                         // below it doubles represent all whole numbers

// The name of the class of a number: "2" for 2.0.
std::string name_of_number(double v) {
  const bool whole = v == std::floor(v) && std::fabs(v) < kEndOfWholeNumbers;
  return whole ? cat(static_cast<int64_t>(v)) : cat(v);
}

bool whole_number(double v) { return v == std::floor(v) && std::fabs(v) < kEndOfWholeNumbers; }

// The index of a word or number among the classes; -1 if it is not one of them.
int64_t class_of(const std::vector<std::string>& classes, std::string_view word) {
  auto at = std::find(classes.begin(), classes.end(), word);
  if (at == classes.end()) at = std::find(classes.begin(), classes.end(), data::category_word(word));
  if (at == classes.end()) {
    if (const std::optional<double> number = data::number_in(word)) {
      at = std::find(classes.begin(), classes.end(), name_of_number(*number));
    }
  }
  return at == classes.end() ? -1 : at - classes.begin();
}

}  // namespace

size_t column_at(const std::vector<std::string>& names, const std::string& asked, const std::string& flag,
                 const std::string& table) {
  const auto at = std::find(names.begin(), names.end(), asked);
  if (at != names.end()) return static_cast<size_t>(at - names.begin());
  const uint64_t number = parse_number<uint64_t>(asked).value_or(0);
  if (number >= 1 && number <= names.size()) return number - 1;
  refuse_column(flag, asked, names, table);
}

size_t target_of(const data::TableHead& head, const std::string& asked, const std::string& table) {
  if (!asked.empty()) return column_at(head.names, asked, "--target", table);
  if (head.header) {
    if (const auto best = data::TableHeader(head.names).best(data::ColumnRole::label)) return *best;
  }
  return head.names.size() - 1;
}

std::vector<std::string> words_in(const data::CellColumn& column, const std::vector<bool>& rows) {
  std::vector<bool> used(column.words.size());
  for (size_t i = 0; i < column.codes.size(); ++i) {
    if (rows[i] && column.codes[i] != data::Words::kMissing) used[column.codes[i]] = true;
  }
  std::vector<std::string> words;
  for (uint32_t code = 0; code < used.size(); ++code) {
    if (used[code]) words.emplace_back(data::category_word(column.words[code]));
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

std::vector<std::string> classes_of(const data::CellColumn& column, Classes how) {
  if (column.is_words()) return words_in(column, std::vector<bool>(column.codes.size(), true));
  std::set<double> values;
  for (const double v : column.numbers) {
    if (how == Classes::by_cells && !whole_number(v)) return {};
    values.insert(v);
    if (how == Classes::by_cells && values.size() > kMostNumberedClasses) return {};
  }
  if (how == Classes::by_cells && column.numbers.size() < kLeastRowsPerNumber * values.size()) return {};
  std::vector<std::string> names;
  for (const double v : values) names.push_back(name_of_number(v));
  return names;
}

std::vector<int64_t> labels_of(const data::Cells& cells, size_t target, const std::vector<std::string>& classes) {
  const data::CellColumn& column = cells.columns[target];
  std::vector<int64_t> labels(static_cast<size_t>(cells.rows()));
  std::vector<int64_t> by_code;
  for (uint32_t code = 0; code < column.words.size(); ++code) by_code.push_back(class_of(classes, column.words[code]));
  std::map<double, int64_t> by_number;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    if (column.is_words()) {
      labels[i] = by_code[column.codes[i]];
    } else {
      const auto [at, fresh] = by_number.try_emplace(column.numbers[i], -1);
      if (fresh) at->second = class_of(classes, column.text(row));
      labels[i] = at->second;
    }
    if (labels[i] >= 0) continue;
    fail(ErrorKind::data, cells.place(row), "has class ", excerpt(column.text(row)), ", the model has ",
         excerpt(join(classes, ", ")));
  }
  return labels;
}

void need_told_apart(const data::Cells& cells, size_t target) {
  constexpr double kMostOfRange = 1e-3;
  const data::CellColumn& column = cells.columns[target];
  double least = 0, most = 0, moved = 0;
  for (size_t i = 0; i < column.numbers.size(); ++i) {
    const double v = column.numbers[i];
    if (!std::isfinite(static_cast<float>(v))) return;  // the reader refuses it with its line
    least = i == 0 ? v : std::min(least, v);
    most = i == 0 ? v : std::max(most, v);
    moved = std::max(moved, std::fabs(v - static_cast<double>(static_cast<float>(v))));
  }
  if (moved <= kMostOfRange * (most - least) || least == most) return;
  fail(ErrorKind::data, cells.files[0], "column ", column.name,
       ": its values are too close together for f32, in which ", "they are predicted: got ", cells.rows(),
       " in a range of ", most - least, ", which f32 moves by up to ", moved, "; subtract ",
       cat(static_cast<int64_t>(std::clamp(least, -kEndOfWholeNumbers, kEndOfWholeNumbers))), " from all of them");
}

void need_different(const data::Cells& cells, size_t target, const std::vector<std::string>& classes) {
  const data::CellColumn& column = cells.columns[target];
  const bool same = classes.empty() ? std::all_of(column.numbers.begin(), column.numbers.end(),
                                                  [&](double v) { return v == column.numbers[0]; })
                                    : classes.size() == 1;
  if (!same) return;
  fail(ErrorKind::data, cells.files[0], "column ", column.name, ", the target, contains ", excerpt(column.text(0)),
       " in all of ", cells.rows(), " rows: there is nothing to classify; --target names another column");
}

void need_relevances(const data::Cells& cells, size_t target) {
  constexpr double kMost = 31;
  const data::CellColumn& column = cells.columns[target];
  for (size_t i = 0; i < column.numbers.size(); ++i) {
    if (whole_number(column.numbers[i]) && column.numbers[i] >= 0 && column.numbers[i] <= kMost) continue;
    fail(ErrorKind::data, cells.place(static_cast<int64_t>(i)), "column ", column.name, ": got ", column.numbers[i],
         ", and a ranking needs relevance labels: whole numbers from 0, of what does not belong to the query, to ",
         kMost);
  }
}

void need_counts(const data::Cells& cells, size_t target) {
  const data::CellColumn& column = cells.columns[target];
  for (size_t i = 0; i < column.numbers.size(); ++i) {
    if (whole_number(column.numbers[i]) && column.numbers[i] >= 0) continue;
    fail(ErrorKind::data, cells.place(static_cast<int64_t>(i)), "column ", column.name, ": got ", column.numbers[i],
         ", and --task counts needs whole numbers of at least 0");
  }
}

}  // namespace freight::tables
