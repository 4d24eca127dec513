// The weights that a run of a network starts from (net_weights.cpp).
#pragma once
#include <optional>
#include <string>

#include "freight/train/prepared_internal.h"

namespace freight::train {

// The local file of --weights, which may name a source of published weights; "" where this process needs none.
std::string weights_file(const NetRun& run);
// The preprocessing of the network whose weights the run starts from. A run that resumes has it in its checkpoint; the
// first rank, which alone needs the file, gives it to the others.
std::optional<store::Preprocessing> pretrained_preprocessing(const NetRun& run, const std::string& path);
// Sets the weights that a new run starts from: those of a file, or drawn ones, of which a layer may come from the data.
void set_weights(NetRun& run, const Own& own, const std::string& file);
// Notes where pretrained weights are trained at the rate of a default recipe: these train from scratch, at rates that
// undo what such weights have learned.
void recommend_recipe(NetRun& run, const data::Source& source);

}  // namespace freight::train
