// Prints estimates of devices for `freight plan`, `explain` and `advise`: their ranges, the table, the JSON and the
// CSV.
#pragma once
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "freight/plan/catalog.h"
#include "freight/plan/estimate.h"

namespace freight::app {

std::string number(double v);             // three significant digits, which is enough for ranges
std::string range(const plan::Range& r);  // "0.21 - 0.43"; "-" if it is not known
std::string fits_text(const plan::Estimate& e);
// The bytes of a plan by kind with their total, and below them the largest tensors at the peak.
std::string memory_table(const plan::StepPlan& step_plan);
// A line, with its newline, on the assumed lengths of texts; "" if samples are not texts, or all have one length.
std::string texts_line(const plan::TrainingSetup& setup);
// The lengths as JSON: {"lengths": [{"tokens": 32, "share_of_steps": 0.9}, ...], "assumed": false}, or null.
nlohmann::ordered_json json_of_texts(const plan::TrainingSetup& setup);
std::string text_of(const plan::Offer& o);
// Sorts by speed, dollars, energy, batch, memory or name; unknown figures come last.
void sort_estimates(std::vector<plan::Estimate>& all, const std::string& by);
// A column of a table of estimates: a figure under its usual heading, or texts that the caller provides.
enum class Figure : uint8_t {
  device,
  devices,
  total,  // at the peak
  fits,
  largest_batch,
  rate,
  step,         // in ms
  all_summing,  // in ms
  summing,      // in ms, the part that the computation does not hide
  limit,
  epoch_hours,
  run_hours,
  run_seconds,
  dollars,
  watt_hours,
  given,
};
struct EstimateColumn {
  Figure figure = Figure::given;
  std::string heading = {};             // "": the figure's own heading
  std::vector<std::string> cells = {};  // for Figure::given, one for each estimate
};
std::string estimate_table(const std::vector<const plan::Estimate*>& rows, const std::vector<EstimateColumn>& columns);
// This machine, which comes first, and the first `top` devices; 0: all.
std::vector<const plan::Estimate*> shown_of(const std::vector<plan::Estimate>& all, int64_t top);
nlohmann::ordered_json json_of(const plan::Estimate& e, const plan::Catalog& catalog);
// The planned run, and its step from `step_plan`, with which each command begins its JSON.
nlohmann::ordered_json json_of_run(const plan::TrainingSetup& setup, const plan::StepPlan& step_plan);
void print_csv(const std::vector<plan::Estimate>& all);

}  // namespace freight::app
