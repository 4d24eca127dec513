// Estimates of devices as `freight plan`, `explain` and `advise` print them: their ranges, the one table, the one JSON
// and CSV.
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
std::string memory_table(const plan::StepPlan& step_plan);
// A line on how long texts are taken to be, with its end; "" where samples are none, or all have one length.
std::string texts_line(const plan::TrainingSetup& setup);
// The same: {"lengths": [{"tokens": 32, "share_of_steps": 0.9}, ...], "assumed": false}, or null.
nlohmann::ordered_json json_of_texts(const plan::TrainingSetup& setup);
std::string text_of(const plan::Offer& o);
// Sorts by speed, dollars, energy, batch, memory or name; what is not known comes last.
void sort_estimates(std::vector<plan::Estimate>& all, const std::string& by);
// A column of a table of estimates: a figure of each under its usual heading, or texts that the caller has for each.
enum class Figure : uint8_t {
  device,
  devices,
  total,  // memory at the peak
  fits,
  largest_batch,
  rate,
  step,         // ms
  all_summing,  // ms
  summing,      // ms that the computation does not hide
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
  std::string heading = {};             // "": the figure's own
  std::vector<std::string> cells = {};  // of Figure::given, one for each estimate
};
std::string estimate_table(const std::vector<const plan::Estimate*>& rows, const std::vector<EstimateColumn>& columns);
// The first `top` of them behind this machine, the first of all; 0: all.
std::vector<const plan::Estimate*> shown_of(const std::vector<plan::Estimate>& all, int64_t top);
nlohmann::ordered_json json_of(const plan::Estimate& e, const plan::Catalog& catalog);
// The planned run, and its step by `step_plan`: each command begins its JSON with it.
nlohmann::ordered_json json_of_run(const plan::TrainingSetup& setup, const plan::StepPlan& step_plan);
void print_csv(const std::vector<plan::Estimate>& all);

}  // namespace freight::app
