// See design.h.
#include "freight/tables/design.h"

#include <cmath>

#include "freight/base/error.h"
#include "freight/base/strings.h"

namespace freight::tables {

namespace {

// A term's number before it is centered; NaN if it counts as its mean.
double raw(const DesignTerm& term, double cell) {
  const bool missing = std::isnan(cell);
  if (term.level == DesignTerm::kMissing) return missing ? 1 : 0;
  if (term.level == DesignTerm::kValue || missing) return cell;
  return cell == static_cast<double>(term.level) ? 1 : 0;
}

}  // namespace

Design::Design(const store::RowShape& shape, const store::Rows& rows) {
  const int64_t n = rows.count(), width = rows.values.width();
  std::vector<double> cells;  // of the current column
  // Keeps a term that differs between rows. A term of a category stays 0 or 1, so that its coefficient is that of the
  // category.
  const auto add = [&](DesignTerm term, bool scaled) {
    double sum = 0, squares = 0, count = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double v = raw(term, cells[static_cast<size_t>(i)]);
      if (std::isnan(v)) continue;
      sum += rows.weight(i) * v;
      count += rows.weight(i);
    }
    if (count == 0) return;
    term.mean = sum / count;
    for (int64_t i = 0; i < n; ++i) {
      const double v = raw(term, cells[static_cast<size_t>(i)]);
      if (!std::isnan(v)) squares += rows.weight(i) * (v - term.mean) * (v - term.mean);
    }
    if (!std::isfinite(squares)) {
      fail(ErrorKind::data, shape.columns[static_cast<size_t>(term.column)].name,
           "values of this column, or their squares, overflow f64: linear models need finite values");
    }
    if (squares <= 0) return;
    if (scaled) term.scale = std::sqrt(squares / count);
    if (term.scale > 0) terms_.push_back(term);
  };
  for (int64_t c = 0; c < width; ++c) {
    const store::Column& column = shape.columns[static_cast<size_t>(c)];
    cells = rows.values.column(c);
    if (!column.words) add({.column = c}, true);
    for (int64_t level = 1; level < static_cast<int64_t>(column.levels.size()); ++level) {
      add({.column = c, .level = level, .words = true}, false);
    }
    add({.column = c, .level = DesignTerm::kMissing, .words = column.words}, false);
  }
}

void Design::encode(const double* cells, double* numbers) const {
  for (size_t i = 0; i < terms_.size(); ++i) {
    const DesignTerm& term = terms_[i];
    const double cell = cells[term.column];
    const bool unknown_word = term.words && cell == store::kUnknownWord;
    const double v = raw(term, cell);
    numbers[i] = std::isnan(v) || unknown_word ? 0 : (v - term.mean) / term.scale;
  }
}

std::string name_of(const DesignTerm& term, const std::vector<store::Column>& columns) {
  const store::Column& column = columns[static_cast<size_t>(term.column)];
  if (term.level == DesignTerm::kValue) return column.name;
  if (term.level == DesignTerm::kMissing) return cat(column.name, " is missing");
  return cat(column.name, "=", column.levels[static_cast<size_t>(term.level)]);
}

}  // namespace freight::tables
