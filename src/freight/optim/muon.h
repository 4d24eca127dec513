// Muon (Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks"): momentum whose matrix is
// replaced by the nearest orthogonal one, found by a Newton-Schulz iteration of matmuls. For the weight matrices of
// hidden layers; embeddings, output layers, biases and norms are left to AdamW.
#pragma once
#include <vector>

#include "freight/optim/optimizer.h"

namespace freight::optim {

// Settings of Muon.
struct MuonOptions {
  double lr = 0.02;             // learning rate of the matrices
  double momentum = 0.95;       // share of the old momentum
  bool nesterov = true;         // looks one step ahead
  int iterations = 5;           // of Newton-Schulz
  double weight_decay = 0;      // decoupled, as in AdamW
  double adam_lr_ratio = 0.15;  // AdamW's rate for the other parameters, as a share of lr
  double clip_grad_norm = 0;    // see CommonOptions
  bool decay_norm_bias = true;  // see CommonOptions
};

// `matrices` (rank 2 or more; axes from 1 on count as one) are stepped by Muon, scaled by sqrt(max(1, rows / columns)),
// `others` by AdamW with betas 0.9, 0.95. Throws Error(usage) for a matrix of rank below 2.
class Muon : public Optimizer {
 public:
  // Throws Error(usage) naming a matrix of rank below 2, and a setting that is out of range.
  Muon(const std::vector<Variable>& matrices, const std::vector<Variable>& others, const MuonOptions& options = {});

 private:
  void update(size_t index, const Variable& parameter, const Tensor& gradient, const Rule& rule) override;
  MuonOptions options_;
  size_t matrices_;
  std::vector<Variable> momentum_, m_, v_;  // m_ and v_ of the others
};

// The orthogonal factor of g (R, C), nearly: singular values between about 0.7 and 1.2.
Tensor orthogonalised(const Tensor& g, int iterations);

}  // namespace freight::optim
