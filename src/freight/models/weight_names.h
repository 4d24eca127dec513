// The names that others give the weights of networks: timm, Hugging Face, and older files of torchvision, and prefixes
// of wrappers.
#pragma once
#include <vector>

#include "freight/nn/module.h"

namespace freight::models {

// The entries under the names of the net, where a known convention gives them other names: renamed, and where it
// stores a weight in another shape, or queries, keys and values apart, reshaped and joined. Entries that no convention
// fits better than their own names are returned as they are.
std::vector<nn::NamedArray> with_own_names(const nn::Module& net, std::vector<nn::NamedArray> entries);

}  // namespace freight::models
