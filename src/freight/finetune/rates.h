// Fine-tuning by layers: frozen layers, and parameter groups whose learning rates differ by layer.
#pragma once
#include <string>
#include <vector>

#include "freight/finetune/layers.h"
#include "freight/optim/groups.h"

namespace freight::finetune {

struct RateSettings {
  double lr = 0;           // of the optimizer
  double head_lr = 0;      // of the head; 0: the optimizer's
  double decay = 1;        // factor from each block to the one before it
  std::string scale = {};  // PATTERN=X,...: further factors
};

// Freezes what the patterns PATTERN,... name (Variable::set_trainable); "backbone" is all layers but the head. Returns
// a line that says how much that is; "" for no pattern. Throws Error(usage) for a pattern that matches nothing, with
// the nearest names, and where nothing is left to train.
std::string freeze(const models::Model& model, const std::string& patterns);

// A line on the learning rates of the head and of the layers before it, where they differ; "" where they do not.
std::string rates_line(const models::Model& model, const RateSettings& settings);

// The trainable parameters in groups of one rate each; one group where all have the optimizer's. Throws Error(usage)
// for patterns as freeze does, and for factors that are no positive numbers.
std::vector<optim::ParameterGroup> groups_of(const models::Model& model, const RateSettings& settings);

}  // namespace freight::finetune
