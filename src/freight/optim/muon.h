// Muon (Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks"): momentum whose matrix is
// replaced by the nearest orthogonal one, found by a Newton-Schulz iteration of matmuls. For the weight matrices of
// hidden layers; embeddings, output layers, biases and norms are left to AdamW.
#pragma once
#include <string>
#include <vector>

#include "freight/optim/optimizer.h"

namespace freight::optim {

// Settings of Muon.
struct MuonOptions {
  double lr = 0.02;                           // learning rate of the matrices
  double momentum = 0.95;                     // share of the old momentum
  bool nesterov = true;                       // looks one step ahead
  int iterations = 5;                         // of Newton-Schulz
  double weight_decay = 0;                    // decoupled, as in AdamW
  double adam_lr_ratio = 0.15;                // AdamW's rate for the other parameters, as a share of lr
  double clip_grad_norm = 0;                  // see CommonOptions
  bool decay_norm_bias = true;                // see CommonOptions
  std::vector<std::string> adam_groups = {};  // names of groups that AdamW steps: embeddings, output layers
  bool maximize = false;                      // see CommonOptions
};

// Matrices (rank 2 or more; axes from 1 on count as one) are stepped by Muon, scaled by sqrt(max(1, rows / columns)),
// the other parameters by AdamW with betas 0.9, 0.95. Which those are say two lists, or groups.
class Muon : public Optimizer {
 public:
  // `matrices`, and `others`, which AdamW steps. A list is a group of that name ("matrices", "others"), unless it says
  // groups itself, and a variable of both is a matrix. Throws Error(usage) naming a matrix of rank below 2, and a
  // setting that is out of range.
  Muon(const ParameterGroups& matrices, const ParameterGroups& others, const MuonOptions& options = {});
  // Groups, of which AdamW steps those that options.adam_groups names, and of the others what has a rank below 2. The
  // rate of its own that a group of adam_groups has is AdamW's as it stands; all others are Muon's, of which AdamW
  // takes adam_lr_ratio. Throws Error(usage) for a name in adam_groups that no group has.
  explicit Muon(const ParameterGroups& groups, const MuonOptions& options = {});
  // Groups in braces.
  explicit Muon(std::initializer_list<ParameterGroup> groups, const MuonOptions& options = {})
      : Muon(ParameterGroups(groups), options) {}

 private:
  void update(size_t index, const Variable& parameter, const Tensor& gradient, const Rule& rule) override;
  bool left_to_adam(size_t index) const;  // with all of its group
  MuonOptions options_;
  std::vector<Variable> momentum_;  // by parameter; undefined where AdamW steps it
  std::vector<Variable> m_, v_;     // by parameter; undefined where Muon steps it
};

// The orthogonal factor of g (R, C), nearly: singular values between about 0.7 and 1.2.
Tensor orthogonalised(const Tensor& g, int iterations);

}  // namespace freight::optim
