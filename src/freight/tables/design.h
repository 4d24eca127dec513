// The design matrix of linear models: how each column of a table becomes numbers. A column of numbers is centered and
// scaled; a column of categories has a number for each category but the first, the reference; a column with missing
// values has a number that marks them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "freight/store/row_model.h"

namespace freight::tables {

// A number of the design: (raw - mean) / scale.
struct DesignTerm {
  static constexpr int64_t kValue = -1;    // raw is the value itself
  static constexpr int64_t kMissing = -2;  // raw is 1 if the value is missing, else 0
  int64_t column = 0;
  int64_t level = kValue;  // or the number of a category, for which raw is 1
  bool words = false;      // the column has categories
  double mean = 0, scale = 1;
};

class Design {
 public:
  // Computed from the training rows with their weights. Constant columns have no term. Throws Error(data) that begins
  // with the column's name for an infinite number.
  Design(const store::RowShape& shape, const store::Rows& rows);
  explicit Design(std::vector<DesignTerm> terms) : terms_(std::move(terms)) {}

  int64_t width() const { return static_cast<int64_t>(terms_.size()); }
  const std::vector<DesignTerm>& terms() const { return terms_; }
  // The numbers of one row. A missing value in a column without missing values in training, and a category that
  // training did not see, count as the column's mean: 0.
  void encode(const double* cells, double* numbers) const;

 private:
  std::vector<DesignTerm> terms_;
};

// The name of a term: "rooms", "rooms is missing", "region=north".
std::string name_of(const DesignTerm& term, const std::vector<store::Column>& columns);

}  // namespace freight::tables
