// Trees that another program fitted, as plain numbers: what the readers of its files give (lightgbm_text.h,
// treelite_json.h), and what a stored model of them holds (imported_trees.h). Trees of XGBoost's are xgboost_model.h's.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "freight/base/array.h"
#include "freight/base/error.h"
#include "freight/store/row_model.h"

namespace freight::tables {

struct GrownTree {
  // Splits are f64: numbers below `value` go left. Words are numbered by the categories of the other program.
  store::Tree tree;
  // By node: the rows that came there in training, or their weights, and what a split took off the loss; 0 where it is
  // not told.
  std::vector<double> cover, gain;
};

struct OtherForest {
  std::string maker;          // "LightGBM"
  std::string objective;      // in its words
  bool averaged = false;      // answers are means of trees, whose leaves are divided already
  bool ranks = false;         // answers say only which rows of a query come before which
  int64_t classes = 0;        // 0: values
  std::vector<double> bases;  // that sums begin with, by group
  store::RowLink link = store::RowLink::identity;
  std::vector<GrownTree> trees;
  std::vector<store::Column> columns;
  std::vector<std::vector<int32_t>> categories;  // by column, by level of words
  std::vector<uint8_t> zero_missing;             // by column: 1 where 0 counts as missing, as a missing cell does

  int64_t width() const { return static_cast<int64_t>(columns.size()); }
  int64_t groups() const { return static_cast<int64_t>(bases.size()); }
};

// Limits of files of other programs' trees. No table has more columns, and no stored model names more words.
inline constexpr int64_t kMostImportedColumns = 100'000, kMostImportedWords = 4'000'000;
// Throw Error(data) that begins with `path` for more, or for no columns.
void check_imported_columns(int64_t columns, const std::string& path);
void check_imported_words(int64_t words, const std::string& path);

// Makes the column one of words: the names of categories by their numbers.
void set_words(OtherForest& forest, int64_t column, const std::map<int32_t, std::string>& names);

// Throws Error(kind) that begins with `path` where a tree cannot be walked: a child that is none or has two parents, an
// unknown column or group, a column of words that is split by numbers or the other way round, a number that is not
// finite, more than 512 levels; or where the rest does not fit the trees.
void check_forest(const OtherForest& forest, const std::string& path, ErrorKind kind);

// Two rows between which the numbers of each column lie by which the trees split it: samples of them meet all branches.
Array split_range(const std::vector<const store::Tree*>& trees, int64_t columns);

// "0", "1", ..., or the names that `--class-names` gave. Throws Error(usage) for another number of names.
std::vector<std::string> names_of_classes(int64_t classes, const std::vector<std::string>& names);

}  // namespace freight::tables
