// SHAP values of trees, by the algorithm for paths of Lundberg et al. 2018 (arXiv:1802.03888, algorithm 2), which
// XGBoost, LightGBM and shap use too: what a tree answers without a column is the mean over its branches, weighted by
// the rows of training that went there.
#pragma once
#include <cstdint>
#include <vector>

#include "freight/store/row_form.h"

namespace freight::tables {

class TreeShap {
 public:
  TreeShap() = default;
  // Trees as LeafSums takes them; `covers` by tree and node, above 0.
  TreeShap(std::vector<store::Tree> trees, std::vector<std::vector<double>> covers);

  // Adds what each column of one row, f32 (columns), adds to `to`, f64 (groups, columns + 1), the mean answers last.
  void add(const float* features, int64_t columns, double* to) const;

 private:
  std::vector<store::Tree> trees_;
  std::vector<std::vector<double>> covers_;
  std::vector<double> means_;    // of the leaves, by tree
  std::vector<int64_t> levels_;  // below the root, by tree
};

}  // namespace freight::tables
