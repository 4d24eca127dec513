// Estimates of devices as `freight plan` prints them: their ranges, the order of the table, JSON and CSV.
#pragma once
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "freight/plan/catalog.h"
#include "freight/plan/estimate.h"

namespace freight::app {

std::string number(double v);             // three digits, as ranges deserve
std::string range(const plan::Range& r);  // "0.21 - 0.43", "-" where it is not known
std::string fits_text(const plan::Estimate& e);
// Bytes of a plan by kind with their total, and below the largest tensors at the peak.
std::string memory_table(const plan::Draft& draft);
// A line on how long texts are taken to be, with its end; "" where samples are none, or all have one length.
std::string texts_line(const plan::Subject& subject);
// The same: {"lengths": [{"tokens": 32, "share_of_steps": 0.9}, ...], "assumed": false}, or null.
nlohmann::ordered_json json_of_texts(const plan::Subject& subject);
std::string text_of(const plan::Offer& o);
// Sorts by speed, dollars, energy, batch, memory or name; what is not known comes last.
void sort_estimates(std::vector<plan::Estimate>& all, const std::string& by);
nlohmann::ordered_json json_of(const plan::Estimate& e, const plan::Catalog& catalog);
void print_csv(const std::vector<plan::Estimate>& all);

}  // namespace freight::app
