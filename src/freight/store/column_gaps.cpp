// See column_gaps.h.
#include "freight/store/column_gaps.h"

#include <cmath>
#include <set>

#include "freight/base/printable.h"
#include "freight/base/strings.h"

namespace freight::store {

void ColumnGaps::add(const std::vector<Column>& columns, const Array& values) {
  const size_t width = columns.size();
  unknown_.resize(width);
  missing_.resize(width);
  const auto n = static_cast<size_t>(values.shape()[0]);
  const auto* const cells = values.data<double>();
  for (size_t c = 0; c < width; ++c) {
    int64_t unknown = 0, missing = 0;
    for (size_t i = 0; i < n; ++i) {
      const double v = cells[i * width + c];
      missing += std::isnan(v) ? 1 : 0;
      unknown += v == kUnknownWord ? 1 : 0;
    }
    missing_[c] += missing;
    if (columns[c].words) unknown_[c] += unknown;
  }
  rows_ += static_cast<int64_t>(n);
}

void ColumnGaps::add(const ColumnGaps& others) {
  rows_ += others.rows_;
  unknown_.resize(others.unknown_.size());
  missing_.resize(others.missing_.size());
  for (size_t c = 0; c < unknown_.size(); ++c) {
    unknown_[c] += others.unknown_[c];
    missing_[c] += others.missing_[c];
  }
}

std::vector<std::string> ColumnGaps::warnings(const std::vector<Column>& columns) const {
  constexpr int64_t kFewRows = 10;
  std::vector<std::string> found;
  std::set<std::string> sources;  // the parts of a date are missing together
  const std::string rows = rows_ == 1 ? "the row" : cat("all ", with_commas(rows_), " rows");
  for (size_t c = 0; c < unknown_.size() && rows_ > 0; ++c) {
    const std::string& name = columns[c].source_name();
    if (missing_[c] == rows_) {
      if (!columns[c].complete && rows_ < kFewRows) continue;
      if (!sources.insert(name).second) continue;
      found.push_back(cat("column ", excerpt(name), " is missing in ", rows,
                          columns[c].complete ? ", and in no row of the training set" : ""));
    } else if (unknown_[c] > 0 && unknown_[c] + missing_[c] == rows_) {
      found.push_back(cat("column ", excerpt(name), ": the category is unknown in ", rows, ": training had ",
                          excerpt(join(columns[c].levels, ", "))));
    }
  }
  return found;
}

}  // namespace freight::store
