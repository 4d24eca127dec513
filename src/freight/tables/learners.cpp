// See learners.h.
#include "freight/tables/learners.h"

#include <mutex>

#include "freight/tables/auto_learner.h"
#include "freight/tables/baseline.h"
#include "freight/tables/linear.h"
#include "freight/tables/mlp_learner.h"
#include "freight/tables/mlp_model.h"
#include "freight/tables/xgboost_learner.h"

namespace freight::tables {

void register_learners() {
  static std::once_flag once;
  std::call_once(once, [] {
    store::register_row_model("baseline", read_baseline);
    train::register_learner(std::make_shared<BaselineLearner>());
    for (const LinearKind kind : {LinearKind::linear, LinearKind::ridge, LinearKind::logistic, LinearKind::poisson}) {
      auto learner = std::make_shared<LinearLearner>(kind);
      store::register_row_model(learner->name(), read_linear);
      train::register_learner(std::move(learner));
    }
    for (const auto kind : {TreeLearner::Kind::gbdt, TreeLearner::Kind::forest}) {
      const auto learner = std::make_shared<TreeLearner>(kind);
      const std::string name = learner->name();
      store::register_row_model(
          name, [name](const io::SafeTensors& file, const std::string& path, const store::RowShape& shape) {
            return read_stored_trees(name, file, path, shape);
          });
      train::register_learner(learner);
    }
    store::register_row_model("mlp", read_mlp);
    train::register_learner(std::make_shared<MlpLearner>());
    train::register_learner(std::make_shared<AutoLearner>());
  });
}

}  // namespace freight::tables
