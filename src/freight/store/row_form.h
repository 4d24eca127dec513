// A fitted model of tables as plain numbers (trees, or sums of products), for code that writes it in the format of
// another program. store/row_model.h says what the columns mean.
#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "freight/base/array.h"

namespace freight::store {

// The function from sums to predictions: identity, exponential, logistic (for two classes, the probability of the
// second) or softmax.
enum class RowLink : uint8_t { identity, exponential, logistic, softmax };

// Replaces a row's sums with its predictions: values, or the probabilities of classes.
void apply_link(RowLink link, std::vector<double>& sums);

// A node of a tree. A leaf has no children and adds `value`.
struct TreeNode {
  int64_t left = -1, right = -1;
  int64_t column = 0;
  double value = 0;             // of a leaf; otherwise numbers below it go left
  bool missing_left = false;    // where a missing value goes, or a category that the trees do not know
  bool words = false;           // the column has categories
  std::vector<int64_t> levels;  // categories, by their numbers among the column's levels, that go right
};
struct Tree {
  int64_t group = 0;            // the sum to which it adds
  std::vector<TreeNode> nodes;  // the root comes first
};
// Sums of leaves and a base, in f32. A number is compared as its f32 difference from the column's origin.
struct ForestForm {
  RowLink link = RowLink::identity;
  std::vector<float> bases;  // by group
  std::vector<Tree> trees;
  std::vector<double> origins;                // by column
  std::vector<std::vector<int64_t>> unknown;  // by column: levels that are treated as missing
};

// Sums of products: (raw - mean) / scale of each term, times its weight.
struct LinearForm {
  struct Term {
    static constexpr int64_t kValue = -1;    // raw is the value; if missing, the mean
    static constexpr int64_t kMissing = -2;  // raw is 1 if the value is missing, else 0
    int64_t column = 0;
    int64_t level = kValue;  // or raw is 1 for this category; a missing value counts as the mean
    bool words = false;      // the column has categories; one that training did not see counts as the mean
    double mean = 0, scale = 1;
  };
  RowLink link = RowLink::identity;
  std::vector<Term> terms;
  Array weights, intercepts;  // f64 (groups, terms), f64 (groups)
};

using RowForm = std::variant<std::monostate, ForestForm, LinearForm>;

// The importance of each column by one measure.
struct Importance {
  std::string measure;          // "gain", "cover", "splits"
  std::vector<double> columns;  // by column
};

}  // namespace freight::store
