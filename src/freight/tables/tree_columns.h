// Converts rows to the numbers that XGBoost and the network of --model mlp take: f32, NaN for missing values.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "freight/io/safetensors.h"
#include "freight/store/row_model.h"

namespace freight::tables {

// The prefix of the tensors that trees save: "categories", i32 (words of all columns), the category of each word; and
// "trees", XGBoost's UBJSON (xgboost_model.cpp), which needs a libxgboost not older than the one that fitted them.
inline constexpr const char* kTreePrefix = "xgboost.";
inline constexpr const char* kTreeCategories = "xgboost.categories";

// Words become numbers of categories. Words that training did not see, or saw only in a few rows, are missing: a name
// that occurs once predicts that row and nothing else. Numbers beyond f32 become its maximum, which is on the same side
// of every split. If f32 cannot distinguish the numbers of a column, such as times in seconds within a day, they are
// counted from the smallest one.
class TreeColumns {
 public:
  static constexpr int64_t kLeastRows = 5;  // the minimum number of training rows of a category

  // All words are categories, and numbers are unchanged.
  explicit TreeColumns(const std::vector<store::Column>& columns);
  // Determines categories and origins from the training rows.
  TreeColumns(const std::vector<store::Column>& columns, const store::Rows& rows);
  // Reads them from a saved model, from tensors whose names begin with `prefix`. Throws Error(checkpoint) that names
  // `path`.
  TreeColumns(const std::vector<store::Column>& columns, const io::SafeTensors& file, const std::string& path,
              const std::string& prefix = kTreePrefix);
  // Adds tensors for what differs from the default of the first constructor.
  void write(io::SafeTensors& file, const std::string& prefix = kTreePrefix) const;

  Array features(const store::RowValues& rows, int64_t begin, int64_t end) const;  // f32 (end - begin, columns)
  Array features(const store::RowValues& rows) const { return features(rows, 0, rows.count()); }
  int64_t count() const { return static_cast<int64_t>(columns_.size()); }
  // True for a column of words of which at least one is a category.
  bool words(int64_t column) const;
  // XGBoost's name for the type of each column: a category number, or a quantity.
  std::vector<const char*> kinds() const;
  double origin(int64_t column) const { return columns_[static_cast<size_t>(column)].origin; }
  // The category of each word, by the word's number; -1 if it counts as missing.
  const std::vector<int32_t>& categories(int64_t column) const {
    return columns_[static_cast<size_t>(column)].categories;
  }

 private:
  struct ColumnEncoding {
    bool words = false;
    double origin = 0;                     // subtracted from numbers
    std::vector<int32_t> categories = {};  // by the word's number; -1: missing
  };
  void count_words(int64_t column, const store::Rows& rows, const std::vector<double>& values);
  void find_origin(int64_t column, const std::vector<double>& values);

  std::vector<ColumnEncoding> columns_;
};

}  // namespace freight::tables
