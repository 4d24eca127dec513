// The stored model of trees that another program than XGBoost fitted: LightGBM, and scikit-learn by way of Treelite.
// Its answers are the sums of leaves (tree_sums.h) in f64, and its SHAP values tree_shap.h's: no library is needed.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "freight/store/row_model.h"
#include "freight/tables/other_forest.h"
#include "freight/tables/tree_shap.h"
#include "freight/tables/tree_sums.h"

namespace freight::tables {

class ImportedTrees : public store::RowModel {
 public:
  // The forest is sound (check_forest).
  explicit ImportedTrees(OtherForest forest);

  int64_t outputs() const override { return std::max<int64_t>(forest_.classes, 1); }
  bool tells_classes() const override { return forest_.classes > 0; }
  bool ranks() const override { return forest_.ranks; }
  Array run(const Array& rows) const override;
  int64_t parameters() const override;
  std::vector<std::string> lines() const override;
  void write(io::SafeTensors& file) const override;
  // False where the file tells no rows of training at some node.
  bool explains() const override { return covered_; }
  Array contributions(const Array& rows) const override;
  std::vector<store::Importance> importance() const override;
  store::RowForm form() const override;

 private:
  // f32 (count, columns): how many of the column's splits lie at or below a number, which decides as the f64 does; the
  // category of a word; NaN where a cell is missing.
  std::vector<float> ranks_of(const Array& rows, int64_t begin, int64_t count) const;
  std::vector<store::Tree> ranked_trees() const;

  OtherForest forest_;
  std::vector<std::vector<double>> splits_;  // rising, by column of numbers
  LeafSums<double> sums_;
  bool covered_ = false;
  TreeShap shap_;
};

// True of a file that write() wrote.
bool holds_imported_trees(const io::SafeTensors& file);
// Throws Error(checkpoint) that names `path` where what write() wrote is damaged.
std::shared_ptr<const store::RowModel> read_imported_trees(const io::SafeTensors& file, const std::string& path,
                                                           const store::RowShape& shape);

}  // namespace freight::tables
