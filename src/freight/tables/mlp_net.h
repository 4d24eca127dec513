// The network of --model mlp: TabM (Gorishniy et al. 2024, arXiv:2410.24210) on embeddings of columns. Several
// multilayer perceptrons, its members, share all layers except an input scaling and the output layer; their predictions
// are averaged. N rows, F numeric columns with up to B bins each, C categorical columns, E embeddings of categories, D
// numbers per embedding, K members, H units per layer, O outputs.
#pragma once
#include <cstdint>
#include <vector>

#include "freight/nn/layers.h"
#include "freight/tables/mlp_columns.h"

namespace freight::tables {

class MlpNet : public nn::Module {
 public:
  static constexpr int64_t kMembers = 8, kWidth = 256, kLayers = 3, kEmbedding = 32;  // K, H, hidden layers, D

  // Two classes have one logit; 0 classes: regression.
  MlpNet(const MlpColumns& columns, int64_t bins, int64_t classes);
  // Sets what is not trained: the bins, and mean and standard deviation of the target.
  void set(const MlpBins& bins, double mean, double deviation) const;
  // Samples the initial scaling by which members differ; all numbers of an embedding get the same factor.
  void draw_scaling() const;

  // Takes f32 (N, 2 F + C) from MlpColumns::encode; returns the logits or scaled values of each member, (N, K, O).
  Tensor forward(const Tensor& x) override;
  // Averages outputs (N, K, O) over the members: probabilities (N, classes), or values (N, 1) in the units of the
  // target.
  Tensor predictions(const Tensor& outputs) const;
  // The mean of the members' losses, which training minimizes, and the loss of their mean, which selects the best
  // epoch: f32 (N) each. Targets f32 (N, 2): class or scaled value, and the weight of the row.
  Tensor loss_of_members(const Tensor& outputs, const Tensor& targets) const;
  Tensor loss_of_mean(const Tensor& outputs, const Tensor& targets) const;

  int64_t bins() const { return bins_; }

 private:
  Tensor embedded(const Tensor& x) const;  // (N, F D)
  int64_t numbers_, words_, bins_, classes_;
  Variable mean_, slope_, bin_start_, bin_slope_;  // (F, 1, 1) each, (F, 1, B) each; not trained
  Variable target_mean_, target_deviation_;        // (1) each; not trained
  Variable bin_weight_, linear_, bias_, missing_;  // (F, B, D), (F, 1, D) each
  Variable word_table_;                            // (E, D)
  Variable scaling_;                               // (1, K, (F + C) D)
  std::vector<nn::Linear*> layers_;
  Variable head_weight_, head_bias_;  // (K, H, O), (K, O)
};

}  // namespace freight::tables
