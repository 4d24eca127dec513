// See warnings.h.
#include "freight/tables/warnings.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "freight/base/listing.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"

namespace freight::tables {

namespace {

constexpr size_t kMostNamed = 5;  // warnings of one kind; further ones are counted
// Memory bound of the values of a column that may determine the labels.
constexpr size_t kMostCells = size_t{1} << 20;

class PartView {
 public:
  PartView(const store::Rows& rows, size_t column)
      : rows_(rows), values_(rows.values.column(static_cast<int64_t>(column))) {}
  int64_t count() const { return rows_.count(); }
  double cell(int64_t row) const { return values_[static_cast<size_t>(row)]; }
  double label(int64_t row) const {
    return rows_.classification() ? static_cast<double>(rows_.labels.data<int64_t>()[row])
                                  : static_cast<double>(rows_.labels.data<float>()[row]);
  }
  bool all_missing() const {
    for (int64_t i = 0; i < count(); ++i) {
      if (!std::isnan(cell(i))) return false;
    }
    return true;
  }
  // True if no value is a category of training, and not all are missing.
  bool all_unknown() const {
    bool any = false;
    for (int64_t i = 0; i < count(); ++i) {
      const double v = cell(i);
      if (!std::isnan(v) && v != store::kUnknownWord) return false;
      any = any || v == store::kUnknownWord;
    }
    return any;
  }

 private:
  const store::Rows& rows_;
  std::vector<double> values_;  // of the column
};

// True if each value occurs with one label, each label with one value, and most values occur several times, which does
// not happen by chance.
bool one_to_one(const PartView& part) {
  std::unordered_map<double, double> label_of_cell;
  std::set<double> labels;
  for (int64_t i = 0; i < part.count(); ++i) {
    const double cell = part.cell(i);
    if (std::isnan(cell)) return false;
    const auto [at, fresh] = label_of_cell.try_emplace(cell, part.label(i));
    if (!fresh && at->second != part.label(i)) return false;
    if (fresh && !labels.insert(part.label(i)).second) return false;
    if (2 * label_of_cell.size() > static_cast<size_t>(part.count()) || label_of_cell.size() > kMostCells) return false;
  }
  return labels.size() > 1;
}

// True if the values are those of the column times a factor plus a constant.
bool same_but_for_scale(const PartView& part) {
  constexpr double kRounding = 1e-6;
  double least = INFINITY, most = -INFINITY, low = 0, high = 0;
  std::set<double> different;
  for (int64_t i = 0; i < part.count(); ++i) {
    const double cell = part.cell(i);
    if (std::isnan(cell)) return false;
    if (different.size() < 3) different.insert(cell);
    if (cell < least) low = part.label(i), least = cell;
    if (cell > most) high = part.label(i), most = cell;
  }
  if (different.size() < 3 || low == high) return false;
  const double slope = (high - low) / (most - least);
  for (int64_t i = 0; i < part.count(); ++i) {
    const double wanted = low + slope * (part.cell(i) - least);
    if (std::fabs(part.label(i) - wanted) > kRounding * std::fabs(high - low)) return false;
  }
  return true;
}

void warn_of_leaks(const RowData& data, std::vector<std::string>& warnings) {
  std::vector<std::string> names;
  for (size_t c = 0; c < data.shape.columns.size(); ++c) {
    const store::Column& column = data.shape.columns[c];
    const PartView part(data.train, c);
    const bool scaled = !column.words && !data.train.classification() && same_but_for_scale(part);
    if (scaled || one_to_one(part)) names.push_back(column.name);
  }
  if (names.empty()) return;
  warnings.push_back(cat(names.size() == 1 ? "column " : "columns ", join_first(names, kMostNamed),
                         names.size() == 1 ? " predicts " : " predict ", data.target,
                         " exactly (target leakage): remove it (--drop) unless it is known before ", data.target,
                         " is"));
}

void warn_of_rare_classes(const RowData& data, std::vector<std::string>& warnings) {
  std::vector<int64_t> train(data.shape.classes.size()), all(data.shape.classes.size());
  for (const store::Rows* part : {&data.train, &data.held_out}) {
    const auto* label = part->labels.data<int64_t>();
    for (int64_t i = 0; i < part->count(); ++i) {
      ++all[static_cast<size_t>(label[i])];
      if (part == &data.train) ++train[static_cast<size_t>(label[i])];
    }
  }
  std::vector<std::string> once, unlearnt;
  for (size_t k = 0; k < all.size(); ++k) {
    if (all[k] == 1) once.push_back(excerpt(data.shape.classes[k]));
    if (all[k] > 0 && train[k] == 0) unlearnt.push_back(excerpt(data.shape.classes[k]));
  }
  if (!once.empty()) {
    warnings.push_back(cat(once.size() == 1 ? "class " : "classes ", join_first(once, kMostNamed),
                           once.size() == 1 ? " has" : " have",
                           " one row: the model cannot generalize from it, and no metric covers it"));
  }
  if (!unlearnt.empty()) {
    warnings.push_back(cat(unlearnt.size() == 1 ? "class " : "classes ", join_first(unlearnt, kMostNamed),
                           unlearnt.size() == 1 ? " has" : " have", " no row in the training set"));
  }
}

void warn_of_missing(const RowData& data, const store::Rows& other, const std::string& part,
                     std::vector<std::string>& warnings) {
  if (other.count() == 0) return;
  std::vector<std::string> there, here, unknown;
  for (size_t c = 0; c < data.shape.columns.size(); ++c) {
    const PartView train(data.train, c), held(other, c);
    const bool in_train = !train.all_missing(), in_other = !held.all_missing();
    if (in_train && !in_other) there.push_back(data.shape.columns[c].name);
    if (!in_train && in_other) here.push_back(data.shape.columns[c].name);
    if (data.shape.columns[c].words && held.all_unknown()) unknown.push_back(data.shape.columns[c].name);
  }
  if (!there.empty()) {
    warnings.push_back(cat(join_first(there, kMostNamed), there.size() == 1 ? " is" : " are",
                           " missing in all rows of the ", part, ": its metrics do not measure what was learned from ",
                           there.size() == 1 ? "it" : "them"));
  }
  if (!unknown.empty()) {
    warnings.push_back(cat(join_first(unknown, kMostNamed), unknown.size() == 1 ? " has" : " have",
                           " no category of the training set in any row of the ", part,
                           ": its metrics do not measure what was learned from ", unknown.size() == 1 ? "it" : "them"));
  }
  if (!here.empty()) {
    warnings.push_back(cat(join_first(here, kMostNamed), here.size() == 1 ? " is" : " are",
                           " missing in all rows of the training set: nothing is learned from ",
                           here.size() == 1 ? "it" : "them"));
  }
}

}  // namespace

std::vector<std::string> warnings_of(const RowData& data) {
  std::vector<std::string> warnings;
  warn_of_leaks(data, warnings);
  if (data.train.classification()) warn_of_rare_classes(data, warnings);
  warn_of_missing(data, data.held_out, "validation set", warnings);
  warn_of_missing(data, data.own_test, "test set", warnings);
  return warnings;
}

}  // namespace freight::tables
