// The learner mlp of tables: TabM (mlp_net.h), trained like every network (train/trainer.h) on the encoded training
// rows, with early stopping on rows that are held out of these.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "freight/tables/row_learner.h"

namespace freight::tables {

class MlpLearner : public RowLearner {
 public:
  std::string name() const override { return "mlp"; }
  std::string doc() const override { return "a neural network (TabM on tables), with feature embeddings"; }
  bool beside_net() const override { return true; }
  void choose(train::Config& config) const override;
  std::vector<std::string> flags() const override {
    return {"--lr",         "--epochs",       "--batch-size", "--weight-decay", "--clip-grad-norm",
            "--early-stop", "--weight-column"};
  }
  const char* pass() const override { return "epoch"; }
  const char* compute() const override { return "f32"; }
  bool reads_held_out(const train::Config&) const override {
    return false;
  }  // it holds out some of the training rows itself
  RowData read(const RowSource& source) const override;
  train::Cost cost(const train::Config& config, const RowData& data) const override;
  std::shared_ptr<const store::RowModel> fit(const train::Config& config, const RowData& data,
                                             const std::function<bool(const Round&)>& on_round) const override;
};

}  // namespace freight::tables
