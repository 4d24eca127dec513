// A fitted model of rows as plain numbers, for those who write it in the format of another program: trees, or sums of
// products. Which column means what is store/row_model.h's.
#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "freight/base/array.h"

namespace freight::store {

// The function that turns sums into predictions: the sums themselves, their exponential, the logistic function (of two
// classes, the probability of the second), softmax.
enum class RowLink : uint8_t { identity, exponential, logistic, softmax };

// The answer that a row's sums make: values, or the probabilities of classes.
std::vector<double> answer_of(RowLink link, std::vector<double> sums);

// One node of a tree. A leaf has no children and adds `value`.
struct TreeNode {
  int64_t left = -1, right = -1;
  int64_t column = 0;
  double value = 0;             // of a leaf; else numbers below it go left
  bool missing_left = false;    // where a cell without a value, or of a word that the trees do not know, goes
  bool words = false;           // the column's kind
  std::vector<int64_t> levels;  // of words: these, by their numbers among the column's levels, go right
};
struct Tree {
  int64_t group = 0;            // the sum that it adds to
  std::vector<TreeNode> nodes;  // the root is the first
};
// Sums of leaves and of a base, as f32. A number is read as f32 of what it is above the column's origin.
struct ForestForm {
  RowLink link = RowLink::identity;
  std::vector<float> bases;  // by group
  std::vector<Tree> trees;
  std::vector<double> origins;                // by column
  std::vector<std::vector<int64_t>> unknown;  // by column: levels that count as missing
};

// Sums of products: (raw - mean) / scale of each term, times its weight.
struct LinearForm {
  struct Term {
    static constexpr int64_t kValue = -1;    // raw is the cell; missing, it counts as the mean
    static constexpr int64_t kMissing = -2;  // 1 where the cell is missing
    int64_t column = 0;
    int64_t level = kValue;  // or 1 where the cell is this word; missing, it counts as the mean
    bool words = false;      // the column's kind; a word that training did not see counts as the mean
    double mean = 0, scale = 1;
  };
  RowLink link = RowLink::identity;
  std::vector<Term> terms;
  Array weights, intercepts;  // f64 (groups, terms), f64 (groups)
};

using RowForm = std::variant<std::monostate, ForestForm, LinearForm>;

// The importance of each column by one measure of the fitting.
struct Importance {
  std::string measure;          // "gain", "cover", "splits"
  std::vector<double> columns;  // by column
};

}  // namespace freight::store
