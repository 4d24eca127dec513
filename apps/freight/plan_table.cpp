// See plan_table.h.
#include "plan_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "freight/data/dataset.h"
#include "freight/io/json_library.h"
#include "freight/plan/trees.h"
#include "freight/tables/table.h"
#include "freight/tables/xgboost_library.h"
#include "plan_text.h"

namespace freight::app {
namespace {

using Json = nlohmann::ordered_json;
using plan::Estimate;
using plan::GpuWorth;

constexpr uint64_t kReadBytes = uint64_t{16} << 20;  // of the files, for the columns and the measured rounds
constexpr double kUsualRate = 1.6e-9;                // seconds per value and level on one core, if nothing is measured
constexpr double kShortFit = 0.3, kLongFit = 1.3;    // in seconds, of the measured fits
constexpr int64_t kRoundsMeasured = 1000;            // at most

struct Sampled {
  tables::RowData data;
  double rows = 0;  // of all rows those that are fitted
};

// Reads as much of a large table as its columns and a few rounds need.
Sampled sample(train::Config& c, const PlanInput& in, int64_t rows_said) {
  Sampled s{.data = read_rows(c, in.source, *in.trees, kReadBytes)};
  const auto fitted = static_cast<double>(s.data.train.count()), held = static_cast<double>(s.data.held_out.count());
  s.rows = rows_said > 0 ? fitted / (fitted + held) * static_cast<double>(rows_said) : fitted / s.data.share;
  return s;
}

// The number of trees that a fit of some seconds makes, and its time.
struct Fitted {
  double trees = 0, seconds = 0;
};
Fitted fit_for(double seconds, const tables::RowLearner& learner, train::Config c, const tables::RowData& data,
               const tables::TreeFitWork& work) {
  c.early_stop = 0;
  c.fit_seconds = seconds;
  const auto start = std::chrono::steady_clock::now();
  double rounds = 0;
  learner.fit(c, data, [&](const tables::Round& round) {
    rounds = static_cast<double>(round.number);
    return true;
  });
  return {rounds * static_cast<double>(work.trees_of_round), seconds_since(start)};
}

// A forest is a single round, so it is measured by its number of trees.
plan::TreeRate measured_rate(const train::Config& config, const tables::RowLearner& learner,
                             const tables::RowData& data, const tables::TreeFitWork& work) {
  plan::TreeRate rate{.seconds_of_cell = kUsualRate / thread_count(), .spread = {0.5, 2}, .from = {}};
  const double cells = static_cast<double>(data.train.count()) * static_cast<double>(data.shape.columns.size());
  tables::need_named_xgboost(config.xgboost);
  Fitted small, large;
  try {
    train::Config c = config;
    if (work.rounds > 1 || work.trees_of_round == 1) {
      c.rounds = kRoundsMeasured;
      small = fit_for(kShortFit, learner, c, data, work);
      large = fit_for(kLongFit, learner, c, data, work);
    } else {
      tables::TreeFitWork some = work;
      some.trees_of_round = c.trees = 1;
      small = fit_for(0, learner, c, data, some);
      some.trees_of_round = c.trees = static_cast<int64_t>(std::clamp(kLongFit / small.seconds, 2.0, 100.0));
      large = fit_for(0, learner, c, data, some);
    }
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::device) throw;
    rate.from = "XGBoost is not available: times are those of another machine's cores (1.6 ns per value and level)";
    return rate;
  }
  const double trees = large.trees - small.trees, seconds = large.seconds - small.seconds;
  if (trees > 0 && seconds > 0 && cells > 0) {
    rate.seconds_of_cell = seconds / trees / cells / static_cast<double>(work.levels);
    rate.spread = {0.7, 1.4};
    rate.from =
        cat(fixed(large.trees, 0), " trees of ", with_commas(data.train.count()),
            " rows were fitted; other numbers of rows and the last rounds take 0.7 to 1.4 times as long per value");
  } else {
    rate.from = "too few rows to measure: times are those of another machine's cores";
  }
  return rate;
}

std::string seconds_text(double s) {
  return s < 100 ? cat(number(s), " s") : s < 6000 ? cat(number(s / 60), " min") : cat(number(s / 3600), " h");
}

const char* name_of(GpuWorth::Outcome v) {
  return v == GpuWorth::Outcome::pays ? "yes" : v == GpuWorth::Outcome::even ? "even" : "no";
}

Json json_of(const TablePlan& p, const plan::Catalog& catalog) {
  const GpuWorth& w = p.worth;
  Json j = json_of_run(p);
  j["gpu"] = {{"pays", name_of(w.outcome)},
              {"rows_from", w.rows_here > 0 ? Json(w.rows_here) : Json(nullptr)},
              {"seconds_here", w.seconds_here},
              {"seconds_on_gpu", w.gpu.empty() ? Json(nullptr) : Json(w.seconds_on_gpu)},
              {"device", w.gpu.empty() ? Json(nullptr) : Json(w.gpu)},
              {"published", plan::published_crossing()}};
  for (const Estimate& e : p.estimates) j["devices"].push_back(freight::app::json_of(e, catalog));
  return j;
}

void print_head(const TablePlan& p) {
  std::printf("model     %s: %s\n", p.model.c_str(), p.trees_text().c_str());
  std::printf("data      %s: %s\n", p.data.c_str(), p.rows_text().c_str());
  std::printf("memory    %s on this machine, the table included\n", human_bytes(p.bytes).c_str());
  std::printf("gpu       %s\n          %s\n\n", p.outcome().c_str(), plan::published_crossing());
}

void print(const TablePlan& p, int64_t top) {
  print_head(p);
  const std::vector<Estimate>& all = p.estimates;
  const std::vector<const Estimate*> shown = shown_of(all, top);
  std::fputs(estimate_table(shown, {{Figure::device},
                                    {Figure::fits},
                                    {Figure::step, p.forest() ? "ms/forest" : "ms/round"},
                                    {Figure::run_seconds},
                                    {Figure::dollars},
                                    {Figure::watt_hours}})
                 .c_str(),
             stdout);
  if (all.size() > shown.size()) std::printf("%zu more: --top 0\n", all.size() - shown.size());
  std::printf(
      "\nthis machine: %s\n"
      "devices: predicted from published runs of XGBoost by rows, columns, levels and trees; without reading the "
      "table\n",
      all[0].assumed.c_str());
  for (size_t i = 1; i < std::min<size_t>(shown.size(), 4); ++i) {
    std::printf("  %s: %s%s\n", all[i].device.c_str(), all[i].assumed.c_str(),
                all[i].offer ? cat("; ", text_of(*all[i].offer)).c_str() : "");
  }
}

}  // namespace

const tables::RowLearner* planned_trees(const train::Config& config, const data::Source& source) {
  const auto* const learner = dynamic_cast<const tables::RowLearner*>(train::named_learner(config, source));
  return learner && learner->tree_work(config, {}) ? learner : nullptr;
}

tables::RowData read_rows(train::Config& config, const data::Source& source, const tables::RowLearner& learner,
                          uint64_t most_bytes) {
  if (config.lr == train::kAutomaticRate) learner.choose(config);
  tables::settle_ranking(config, learner);
  source.need();
  tables::RowSource rows = tables::row_source(config, source);
  rows.bad = {.on_bad = data::OnBad::skip, .report = [](const data::BadSample&) {}};
  rows.most_bytes = most_bytes;
  return learner.read(rows);
}

std::string TablePlan::trees_text() const {
  std::string size = cat(with_commas(fit.trees_of_round), " trees");
  if (!forest()) {
    size = cat(with_commas(fit.rounds), fit.rounds == 1 ? " round" : " rounds", " at most",
               fit.trees_of_round > 1 ? cat(" of ", fit.trees_of_round, " trees") : std::string());
  }
  return cat(size, ", ", fit.levels, " levels");
}

std::string TablePlan::rows_text() const {
  return cat(rows_estimated ? "about " : "", with_commas(static_cast<int64_t>(std::round(rows))), " rows to fit, ",
             columns, " features, ", classes == 0 ? std::string("values") : cat(classes, " classes"));
}

std::string TablePlan::outcome() const {
  const auto rounded = [](double n) {
    const double unit = std::pow(10.0, std::max(0.0, std::floor(std::log10(n)) - 1));
    return with_commas(static_cast<int64_t>(std::round(n / unit) * unit));
  };
  const std::string from = worth.rows_here > 0
                               ? cat("; with these columns from about ", rounded(worth.rows_here), " rows on")
                               : std::string();
  if (worth.gpu.empty()) return "does not pay off: the table fits no GPU of the catalog";
  const std::string times = cat("about ", seconds_text(worth.seconds_on_gpu), " on ", worth.gpu, ", ",
                                seconds_text(worth.seconds_here), " here");
  switch (worth.outcome) {
    case GpuWorth::Outcome::pays: return cat("pays: ", times, from);
    case GpuWorth::Outcome::even: return cat("is about as fast: ", times, from);
    case GpuWorth::Outcome::loses: break;
  }
  return cat("does not pay: ", times, from);
}

TablePlan make_table_plan(const train::Config& config, const PlanInput& in, int64_t rows) {
  const tables::RowLearner& learner = *in.trees;
  const plan::Catalog& catalog = in.catalog;
  train::Config c = config;
  const Sampled s = sample(c, in, rows);
  TablePlan p{.model = learner.name(),
              .data = c.data,
              .rows = s.rows,
              .rows_estimated = s.data.share < 1,
              .columns = s.data.shape.columns.size(),
              .classes = s.data.shape.classes.size(),
              .fit = *learner.tree_work(c, s.data),
              .bytes = 0,
              .worth = {},
              .estimates = {}};
  const auto rounds = static_cast<double>(p.fit.rounds);
  const plan::TreeWork work{.rows = s.rows,
                            .columns = static_cast<double>(p.columns),
                            .trees = rounds * static_cast<double>(p.fit.trees_of_round),
                            .levels = static_cast<double>(p.fit.levels)};
  const double fitted = std::max(1.0, static_cast<double>(s.data.train.count()));
  // Reading is the peak: after it the file's columns are freed before the rows' bins are made.
  p.bytes = tables::bytes_of_reading(work.cells() * (1 + static_cast<double>(s.data.held_out.count()) / fitted));
  const plan::TreeRate rate = measured_rate(c, learner, s.data, p.fit);
  const Estimate here = plan::trees_here(work, rounds, p.bytes, rate);
  std::vector<Estimate> devices;
  for (const plan::Device& d : catalog.devices) {
    Estimate e = plan::trees_on(d, catalog, work, rounds);
    if (e.timed) devices.push_back(std::move(e));
  }
  p.worth = plan::worth_of_gpu(work, rate, here, devices);
  p.estimates = {here};
  p.estimates.insert(p.estimates.end(), devices.begin(), devices.end());
  return p;
}

Json json_of_run(const TablePlan& p) {
  return {{"model", p.model},           {"data", p.data},
          {"rows", std::round(p.rows)}, {"rows_estimated", p.rows_estimated},
          {"columns", p.columns},       {"classes", p.classes},
          {"rounds", p.fit.rounds},     {"trees_per_round", p.fit.trees_of_round},
          {"levels", p.fit.levels},     {"total_bytes", p.bytes}};
}

void plan_table(const train::Config& config, const PlanInput& in, int64_t rows, const TablePlanFlags& flags) {
  TablePlan p = make_table_plan(config, in, rows);
  std::vector<Estimate> devices(p.estimates.begin() + 1, p.estimates.end());
  sort_estimates(devices, flags.sort);
  std::copy(devices.begin(), devices.end(), p.estimates.begin() + 1);
  if (flags.csv) {
    print_csv(p.estimates);
  } else if (flags.json) {
    std::printf("%s\n", json_of(p, in.catalog).dump(2).c_str());
  } else {
    print(p, flags.top);
  }
}

}  // namespace freight::app
