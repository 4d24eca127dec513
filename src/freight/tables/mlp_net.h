// The network of --model mlp: TabM (Gorishniy et al. 2024, arXiv:2410.24210) on embeddings of columns. Many multilayer
// perceptrons, its members, share all layers but the first scaling and the last layer, and predict together. N rows, F
// columns of numbers with up to B bins each, C columns of words, E embeddings of words, D numbers per column, K
// members, H units of a layer, O outputs of the network.
#pragma once
#include <cstdint>
#include <vector>

#include "freight/nn/layers.h"
#include "freight/tables/mlp_columns.h"

namespace freight::tables {

class MlpNet : public nn::Module {
 public:
  static constexpr int64_t kMembers = 8, kWidth = 256, kLayers = 3, kEmbedding = 32;  // K, H, hidden layers, D

  // Two classes are one logit; 0 classes are values.
  MlpNet(const MlpColumns& columns, int64_t bins, int64_t classes);
  // Sets the parts that are not trained: the bins, and mean and deviation of the values to predict.
  void set(const MlpBins& bins, double mean, double deviation) const;
  // Draws the scaling by which members differ at first: all numbers of an embedding are scaled alike.
  void draw_scaling() const;

  // f32 (N, 2 F + C), as MlpColumns::encode makes it -> logits or scaled values of each member, (N, K, O).
  Tensor forward(const Tensor& x) override;
  // Of the outputs (N, K, O) the members' mean: probabilities (N, classes), or values (N, 1) in the units of the
  // column.
  Tensor predictions(const Tensor& outputs) const;
  // Training minimizes the first, and the second decides which epoch is the best: the mean of the members' losses,
  // and the loss of their mean. Targets f32 (N, 2): class or scaled value, and how often the row counts. f32 (N) each.
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
