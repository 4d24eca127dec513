// Optimizers by name, for the command line and recipes.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "freight/optim/optimizer.h"

namespace freight::optim {

// Settings of an optimizer, whichever it is.
struct Settings {
  double lr = 0.01;             // learning rate
  double momentum = 0.9;        // of sgd and muon
  bool nesterov = false;        // of sgd; muon always
  double weight_decay = 0;      // 0: off
  double clip_grad_norm = 0;    // 0: off
  bool decay_norm_bias = true;  // see CommonOptions
};

// All of them, in the order of their table in create.cpp.
const std::vector<std::string>& names();

// The optimizer of all parameters of `net`. muon steps the matrices that hidden_matrices gives, AdamW the rest.
// Throws Error(usage) naming the nearest name.
std::unique_ptr<Optimizer> create(const std::string& name, const nn::Module& net, const Settings& settings);
// The same for parameters of `net` in groups. muon divides each into its matrices and the rest.
std::unique_ptr<Optimizer> create(const std::string& name, const nn::Module& net, const Settings& settings,
                                  const std::vector<ParameterGroup>& groups);

// The parameters called "...weight..." of rank 2 or more, without those of Embedding layers and without the last, which
// belongs to the output layer.
std::vector<Variable> hidden_matrices(const nn::Module& net);

}  // namespace freight::optim
