// The figures of a finished run as `freight train` prints them.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "freight/train/observer.h"

namespace freight::app {

// Formats losses and metrics. Large values have six significant digits, small ones four decimals.
std::string figure(double v);
// "validation" for "val" (train::RunSummary::measured), else "test".
const char* name_of_set(const std::string& part);
// Adds "test_loss", "test_top1" and so on, or "val_loss" if fitting used these rows. `tokens`: a language model.
void add_figures(const train::Result& result, bool tokens, nlohmann::ordered_json& to);
// "test auc 0.98, accuracy 97.00 %  (loss 0.1, 12 rounds in 0.1 s)"; `effort` is its last part.
std::string result_line(const train::Result& result, bool tokens, const std::string& effort);

// "best    epoch 7 of 9, by validation auc": the epoch whose weights are stored.
std::string best_line(const train::Result& result);

}  // namespace freight::app
