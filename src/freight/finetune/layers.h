// The layers of a network in the order in which it computes them. From that order follow its head, the layer that makes
// its outputs, and the depth of the others, for learning rates that decay with it. It knows no configuration.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "freight/models/models.h"
#include "freight/nn/state.h"

namespace freight::finetune {

// Variables with one module path.
struct Layer {
  std::string path;                               // "layer1.0.conv1"; "" for those of the network itself
  std::vector<nn::NamedVariable> variables = {};  // by their whole names, in the order of state_dict
  bool head = false;                              // makes the outputs of the network
  bool auxiliary = false;                         // belongs to a head that only training computes (nn::Auxiliary)
  int64_t depth = 0;                              // blocks between it and the head, which has depth 0
};

// All layers that have variables, by the first use of one of these. Variables that are not used come first. A block is
// a layer, or several in a module that is no list of layers, such as a residual block; norms belong to the block
// before.
std::vector<Layer> layers_of(const models::Model& model);

// True if a name matches a shell-style pattern with *, ? and [1-3]. A pattern that matches the path of a module matches
// all below it.
bool matches(const std::string& pattern, const std::string& name);

// Numbers in parameters, trained or not.
int64_t count_parameters(const nn::Module& net);

}  // namespace freight::finetune
