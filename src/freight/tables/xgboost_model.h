// Boosted trees and forests that XGBoost fitted: the stored model, which it answers from.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "freight/store/row_model.h"
#include "freight/tables/tree_columns.h"
#include "freight/tables/xgboost_library.h"
#include "freight/tables/xgboost_trees.h"

namespace freight::tables {

// The file says this besides the trees.
struct TreesMade {
  std::string learner;  // "gbdt", "forest"
  std::string version;  // of the library that fitted it
  int64_t rounds = 0;   // kept
  int64_t fitted = 0;   // rounds, of which the best were kept
};

// `{"data": [address, true], ...}`, by which XGBoost takes f32 (N, columns).
std::string array_interface(const Array& features);

class Trees : public store::RowModel {
 public:
  // `bytes` are the model as UBJSON (XGBoosterSaveModelToBuffer), u8. Throws Error(checkpoint) that names `path`.
  Trees(const Xgboost& library, Array bytes, TreeColumns columns, int64_t classes, TreesMade made,
        const std::string& path);

  int64_t outputs() const override { return std::max<int64_t>(classes_, 1); }
  bool tells_classes() const override { return classes_ > 0; }
  Array run(const Array& rows) const override;
  int64_t parameters() const override { return facts_.nodes; }
  int64_t rounds() const { return made_.rounds; }  // that are kept
  std::vector<std::string> lines() const override;
  void write(io::SafeTensors& file) const override;

 private:
  const Xgboost& library_;
  Array bytes_;
  TreeColumns columns_;
  int64_t classes_;  // 0: values
  TreesMade made_;
  TreeFacts facts_;
  XgboostHandle booster_;
};

// XGBoost's answers, (N) or (N, groups), as probabilities of each class or values: f32 (N, outputs).
void spread_answers(const float* answers, int64_t rows, int64_t classes, float* out);

std::shared_ptr<const store::RowModel> read_stored_trees(const std::string& learner, const io::SafeTensors& file,
                                                         const std::string& path, const store::RowShape& shape);

}  // namespace freight::tables
