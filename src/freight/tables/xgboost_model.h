// Saved models of boosted trees and forests that XGBoost fitted. Predictions are sums of leaves (tree_sums.h) with
// XGBoost's links. XGBoost itself, which also reads the trees, computes contributions and writes its own files.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "freight/store/row_model.h"
#include "freight/tables/tree_columns.h"
#include "freight/tables/tree_sums.h"
#include "freight/tables/xgboost_library.h"
#include "freight/tables/xgboost_trees.h"

namespace freight::tables {

// The contents of the file in addition to the trees.
struct TreeFitRecord {
  std::string learner;  // "gbdt", "forest"
  std::string version;  // of the library that fitted them
  int64_t rounds = 0;   // rounds that were kept
  int64_t fitted = 0;   // rounds that were fitted, of which the best were kept
};

// `{"data": [address, true], ...}`, the form in which XGBoost takes f32 (N, columns).
std::string array_interface(const Array& features);

// An XGBoost matrix of the rows' features with the columns' kinds. It copies them.
XgboostHandle matrix_of_features(const Xgboost& library, const TreeColumns& columns, const Array& features,
                                 const std::string& threads);

class XgboostModel : public store::RowModel {
 public:
  // `bytes`: the model as UBJSON (XGBoosterSaveModelToBuffer), u8. Throws Error(checkpoint) that names `path`.
  XgboostModel(const Xgboost& library, Array bytes, TreeColumns columns, int64_t classes, TreeFitRecord record,
               const std::string& path);

  int64_t outputs() const override { return std::max<int64_t>(classes_, 1); }
  bool predicts_classes() const override { return classes_ > 0; }
  bool is_ranking() const override { return facts_.objective.starts_with("rank:"); }
  Array run(const Array& rows) const override;
  int64_t parameters() const override { return facts_.nodes; }
  int64_t rounds() const { return fit_record_.rounds; }  // that were kept
  std::vector<std::string> lines() const override;
  void write(io::SafeTensors& file) const override;
  bool explains() const override { return true; }
  Array contributions(const Array& rows) const override;
  Array margins(const Array& rows) const override;
  std::vector<store::Importance> importance() const override;
  store::RowForm form() const override;
  std::string library() const override { return "xgboost"; }
  std::string library_file(const std::string& format, const std::vector<std::string>& names) const override;

 private:
  int64_t groups() const { return classes_ > 2 ? classes_ : 1; }
  store::RowLink link() const;
  // The values that sums of leaves begin with, f32 (groups).
  std::vector<float> bases(const std::vector<store::Tree>& trees) const;
  // The sums of a row whose values are all missing, computed by XGBoost.
  std::vector<float> margins_of_no_values() const;

  const Xgboost& library_;
  Array bytes_;
  TreeColumns columns_;
  int64_t classes_;  // 0: a regression
  TreeFitRecord fit_record_;
  TreeFacts facts_;
  XgboostHandle booster_;
  TreeSums sums_;
  mutable std::mutex explaining_;  // XGBoost stores in the booster what belongs to a matrix
};

// XGBoost's names of the objectives of models with so many classes; 0: of regressions.
std::vector<std::string> objectives_of_trees(int64_t classes);

// Converts XGBoost's predictions, (N) or (N, groups), to probabilities of each class, or values: f32 (N, outputs).
void expand_predictions(const float* predictions, int64_t rows, int64_t classes, float* out);

std::shared_ptr<const store::RowModel> read_stored_trees(const std::string& learner, const io::SafeTensors& file,
                                                         const std::string& path, const store::RowShape& shape);

}  // namespace freight::tables
