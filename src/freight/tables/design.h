// The design of linear models: what each column of a table becomes as numbers to be multiplied. A column of numbers is
// centred and scaled; one of words has a number for each word but the first, which is the reference of the others; one
// with missing cells has a number that tells them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "freight/store/row_model.h"

namespace freight::tables {

// One number of the design: (raw - mean) / scale.
struct DesignTerm {
  static constexpr int64_t kValue = -1;    // the cell itself
  static constexpr int64_t kMissing = -2;  // 1 where the cell is missing
  int64_t column = 0;
  int64_t level = kValue;  // or the number of a word: 1 where the cell is that word
  bool words = false;      // the column's kind
  double mean = 0, scale = 1;
};

class Design {
 public:
  // By the rows of the training part, each as often as its weight says. Columns that never change say nothing and get
  // no term. Throws Error(data) that begins with the column's name for an infinite number.
  Design(const store::RowShape& shape, const store::Rows& rows);
  explicit Design(std::vector<DesignTerm> terms) : terms_(std::move(terms)) {}

  int64_t width() const { return static_cast<int64_t>(terms_.size()); }
  const std::vector<DesignTerm>& terms() const { return terms_; }
  // The numbers of one row of cells. A missing cell of a column that never lacked one, and a word that training did not
  // see, count as the column's mean: 0.
  void encode(const double* cells, double* numbers) const;

 private:
  std::vector<DesignTerm> terms_;
};

// "rooms", "rooms is missing", "region=north".
std::string name_of(const DesignTerm& term, const std::vector<store::Column>& columns);

}  // namespace freight::tables
