// See bench_trees.h.
#include "bench_trees.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "bench_output.h"
#include "device_list.h"
#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/io/json_library.h"
#include "freight/tables/row_parts.h"
#include "plan_table.h"
#include "plan_text.h"

namespace freight::app {
namespace {

using TimedFit = TreeComparison::TimedFit;

constexpr int64_t kFewestRows = 100;  // that are fitted by default
constexpr int kMostFits = 20;         // of each kind
constexpr double kSecondsOfHour = 3600;
constexpr double kFitsPriced = 1000;  // in the output: the price of a single one is too small to read

// A sixteenth, a quarter and all rows.
std::vector<int64_t> usual_rows(int64_t all) {
  std::vector<int64_t> rows;
  for (const int64_t part : {16, 4, 1}) {
    if (part == 1 || all / part >= kFewestRows) rows.push_back(all / part);
  }
  return rows;
}

// The training part with fewer rows, spread over all of it.
tables::RowData with_rows(const tables::RowData& data, int64_t rows) {
  const int64_t all = data.train.count();
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < rows; ++i) numbers.push_back(i * all / rows);
  tables::RowData fewer = data;
  if (rows < all) fewer.train = tables::rows_at(data.train, numbers);
  return fewer;
}

double seconds_of_fit(const tables::RowLearner& learner, const train::Config& c, const tables::RowData& data,
                      double seconds) {
  double best = std::numeric_limits<double>::infinity(), spent = 0;
  for (int i = 0; i < kMostFits && (i == 0 || spent < seconds); ++i) {
    const auto start = std::chrono::steady_clock::now();
    learner.fit(c, data, [](const tables::Round&) { return true; });
    const double s = seconds_since(start);
    best = std::min(best, s);
    spent += s;
  }
  return best;
}

}  // namespace

std::string to_json(const TreeComparison& c) {
  nlohmann::ordered_json j = {{"model", c.model},
                              {"data", c.data},
                              {"columns", c.columns},
                              {"rounds", c.work.rounds},
                              {"trees_per_round", c.work.trees_of_round},
                              {"levels", c.work.levels}};
  for (const TimedFit& f : c.fits) {
    j["fits"].push_back({{"device", f.device}, {"rows", f.rows}, {"seconds", f.seconds}, {"times", f.times}});
    if (f.dollars) j["fits"].back()["dollars"] = *f.dollars;
  }
  j["left_out"] = c.left_out;
  j["findings"] = c.findings();
  return j.dump(2);
}

void TreeComparison::add(const std::string& device, int64_t rows, double seconds) {
  double first = seconds;
  for (const TimedFit& f : fits) {
    if (f.device == fits[0].device && f.rows == rows) first = f.seconds;
  }
  fits.push_back({.device = device, .rows = rows, .seconds = seconds, .times = first / seconds});
}

std::vector<std::string> TreeComparison::findings() const {
  std::vector<std::string> said, named;
  for (const TimedFit& f : fits) {
    if (f.device == fits[0].device || std::find(named.begin(), named.end(), f.device) != named.end()) continue;
    named.push_back(f.device);
    std::vector<const TimedFit*> own;
    for (const TimedFit& g : fits) {
      if (g.device == f.device) own.push_back(&g);
    }
    // Finds the fewest rows from which on all measurements are faster.
    const TimedFit* from = nullptr;
    for (auto it = own.rbegin(); it != own.rend() && (*it)->times > 1; ++it) from = *it;
    const TimedFit& most = *own.back();
    const std::string speed =
        cat(fixed(most.times, 2), " times as fast as ", fits[0].device, " with ", with_commas(most.rows), " rows");
    said.push_back(from ? cat(f.device, " pays from ", with_commas(from->rows), " rows on: ", speed)
                        : cat(f.device, " does not pay: ", speed));
  }
  if (named.empty()) {
    said.push_back(cat("one device: freight plan ", data, " --model ", model,
                       " estimates from published runs whether a GPU would pay"));
  }
  return said;
}

TreeComparison compare_trees(train::Config config, const data::Source& source, const tables::RowLearner& learner,
                             const TreeComparisonOptions& options,
                             const std::function<void(const std::string&)>& progress) {
  train::Config& c = config;
  const tables::RowData data = read_rows(c, source, learner);
  c.early_stop = 0;
  const int64_t all = data.train.count();
  const std::vector<int64_t> rows = options.rows.empty() ? usual_rows(all) : options.rows;
  if (rows.back() > all) {
    refuse_value("--rows", cat(rows.back()), cat(c.data, " has ", all, " rows to fit"));
  }
  TreeComparison comparison{.model = learner.name(),
                            .data = c.data,
                            .work = *learner.tree_work(c, data),
                            .columns = data.shape.columns.size(),
                            .fits = {}};
  const bool named = !options.devices.empty();
  for (const std::string& device : named ? options.devices : devices_here()) {
    if (device != "cpu" && !learner.runs_on(device)) {
      if (!named) continue;
      refuse_value("--devices", device, "trees are fitted on cpu, or by CUDA (cuda:0)");
    }
    c.backend = device;
    try {
      for (const int64_t count : rows) {
        progress(cat(device, ", ", with_commas(count), " rows"));
        comparison.add(device, count, seconds_of_fit(learner, c, with_rows(data, count), options.seconds));
      }
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::device || named || comparison.fits.empty()) throw;
      comparison.left_out.push_back(cat(device, ": ", e.what()));
    }
  }
  for (TimedFit& fit : comparison.fits) {
    const auto price = options.hourly.find(fit.device);
    if (price != options.hourly.end()) fit.dollars = price->second * fit.seconds / kSecondsOfHour;
  }
  return comparison;
}

void print(const TreeComparison& c) {
  std::printf("%s on %s: %s rounds of %s, %s levels, %zu features\n\n", c.model.c_str(), c.data.c_str(),
              with_commas(c.work.rounds).c_str(),
              c.work.trees_of_round == 1 ? "a tree" : cat(with_commas(c.work.trees_of_round), " trees").c_str(),
              with_commas(c.work.levels).c_str(), c.columns);
  bench::Listing fits{
      .header = {"device", "rows", "s/fit", "rows x rounds/s", "times", "$/1,000 fits"}, .words = {0}, .rows = {}};
  for (const TimedFit& f : c.fits) {
    fits.rows.push_back({f.device, with_commas(f.rows), number(f.seconds),
                         with_commas(static_cast<int64_t>(static_cast<double>(f.rows * c.work.rounds) / f.seconds)),
                         fixed(f.times, 2), f.dollars ? number(kFitsPriced * *f.dollars) : "-"});
  }
  print(fits);
  std::printf("\n");
  for (const std::string& what : c.left_out) std::printf("skipped: %s\n", what.c_str());
  for (const std::string& what : c.findings()) std::printf("%s\n", what.c_str());
}

}  // namespace freight::app
