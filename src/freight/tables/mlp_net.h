// The net of --model mlp: TabM (Gorishniy et al. 2024, arXiv:2410.24210) on embeddings of columns. Many multilayer
// perceptrons, its members, share all layers but the first scaling and the last layer, and answer together. N rows, F
// columns of numbers with up to B bins each, C columns of words, E embeddings of words, D numbers per column, K
// members, H units of a layer, O outputs of the net.
#pragma once
#include <cstdint>
#include <vector>

#include "freight/nn/layers.h"
#include "freight/nn/module_of.h"
#include "freight/tables/mlp_columns.h"

namespace freight::tables {

struct MlpSizes {
  int64_t members = 8, width = 256, layers = 3, embedding = 32;  // K, H, hidden layers, D

  friend bool operator==(const MlpSizes&, const MlpSizes&) = default;
};

class MlpNet : public nn::ModuleOf<Tensor(const Tensor& numbers, const Tensor& words)> {
 public:
  MlpNet(const MlpColumns& columns, const MlpSizes& sizes, int64_t outputs);
  // f32 (N, F), i32 (N, C), as MlpColumns::encode makes them -> logits or values of each member, (N, K, O).
  Tensor forward(const Tensor& numbers, const Tensor& words) override;
  // The first weights, by a seed. Nothing of the process's generator is drawn.
  void start(uint64_t seed);
  // Outputs of the net that tell so many classes: two are one logit; 0 are values.
  static int64_t outputs_for(int64_t classes) { return classes > 2 ? classes : 1; }

 private:
  Tensor embedded(const Tensor& numbers) const;  // (N, F * D)
  MlpSizes sizes_;
  int64_t numbers_, words_, outputs_;
  Variable starts_, slopes_;                    // (F, 1, B); no parameters
  Variable bin_weight_, linear_, bias_, gone_;  // (F, B, D), (F, 1, D) each; gone_: in place of a missing cell
  Variable word_table_;                         // (E, D)
  Variable scaling_;                            // (1, K, (F + C) D)
  std::vector<nn::Linear*> layers_;
  Variable head_weight_, head_bias_;  // (K, H, O), (K, O)
};

// The members' mean: probabilities of each class, or values, (N, outputs), of (N, K, O).
Tensor mlp_answers(const Tensor& outputs, int64_t classes);
// Mean over rows and members of weights (N) times the loss of (N, K, O): cross-entropy of classes i32 (N), squared
// error of f32 (N).
Tensor mlp_loss(const Tensor& outputs, const Tensor& targets, const Tensor& weights, int64_t classes);

}  // namespace freight::tables
