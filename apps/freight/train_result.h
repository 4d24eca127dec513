// The figures of a finished run as `freight train` prints them.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "freight/train/observer.h"

namespace freight::app {

// Losses and metrics: those of large values keep six digits, which four behind the point would hide.
std::string figure(double v);
// "validation" for "val" (train::RunSummary::measured).
const char* name_of_set(const std::string& part);
// Joins "test_loss", "test_top1" and so on, "val_loss" where fitting used these rows. `tokens`: of a language model.
void add_figures(const train::Result& result, bool tokens, nlohmann::ordered_json& to);
// "test auc 0.98, accuracy 97.00 %  (loss 0.1, 12 rounds in 0.1 s)"; `effort` is the end of it.
std::string result_line(const train::Result& result, bool tokens, const std::string& effort);

}  // namespace freight::app
