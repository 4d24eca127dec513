// The curves of a report: from rows of metrics to plots. See page_internal.h.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "freight/base/strings.h"
#include "freight/report/document.h"
#include "freight/report/page_internal.h"

namespace freight::report {

namespace {

using Value = std::function<std::optional<double>(const io::Metrics&)>;

std::vector<Point> points(const RunRecord& run, const std::string& split, const Value& value) {
  std::vector<Point> all;
  for (const io::Metrics* row : run.rows_of(split)) {
    if (const auto v = value(*row)) all.push_back({static_cast<double>(row->step), *v});
  }
  return all;
}

// The time spent waiting for data between two rows, in percent. A run that resumed another has no value for its first
// row, since the number of its steps is not known.
std::vector<Point> data_wait(const RunRecord& run) {
  std::vector<Point> all;
  int64_t before = 0;
  for (const io::Metrics* row : run.rows_of("train")) {
    const int64_t steps = row->step - before;
    const bool known = before > 0 || row->epoch <= 1;
    before = row->step;
    if (!row->data_s || !row->step_s || steps < 1 || !known) continue;
    const double seconds = *row->step_s * static_cast<double>(steps);
    if (seconds > 0) {
      all.push_back({static_cast<double>(row->step), std::clamp(100 * *row->data_s / seconds, 0.0, 100.0)});
    }
  }
  return all;
}

// A chart if it has a line: tables that are fitted in one step have one point, and neither a learning rate nor waits
// for batches.
std::string chart_of_lines(const Plot& plot) {
  const bool any = std::any_of(plot.series.begin(), plot.series.end(), [](const Series& s) {
    return s.points.size() > 1 &&
           std::any_of(s.points.begin(), s.points.end(), [](const Point& p) { return p.y != 0; });
  });
  return any ? chart(plot) : std::string();
}

}  // namespace

std::string charts(const std::vector<ReportedRun>& runs) {
  const auto label = [&](size_t i, const std::string& split) {
    return runs.size() == 1 ? split : cat(run_letter(i), " ", split);
  };
  const auto over_splits = [&](Plot plot, const Value& value) {
    for (size_t i = 0; i < runs.size(); ++i) {
      for (const std::string& split : runs[i].run.splits()) {
        plot.series.push_back({.label = label(i, split),
                               .points = points(runs[i].run, split, value),
                               .color = static_cast<int>(i),
                               .stroke = split == "train" ? Stroke::dashed : Stroke::solid});
      }
    }
    return chart_of_lines(plot);
  };
  const auto of_training = [&](Plot plot, const std::function<std::vector<Point>(const RunRecord&)>& make) {
    for (size_t i = 0; i < runs.size(); ++i) {
      plot.series.push_back({.label = runs.size() == 1 ? std::string() : run_letter(i),
                             .points = make(runs[i].run),
                             .color = static_cast<int>(i)});
    }
    return chart_of_lines(plot);
  };
  const auto train = [](const Value& value) {
    return [value](const RunRecord& run) { return points(run, "train", value); };
  };
  std::string out;
  out += over_splits({.title = "Loss", .x_label = "step", .y_label = "mean loss"},
                     [](const io::Metrics& m) { return m.loss; });
  out += over_splits(
      {.title = "Accuracy", .x_label = "step", .y_label = "top-1, %", .scale = Plot::Scale::linear, .limit = 100},
      [](const io::Metrics& m) { return m.top1; });
  out += of_training({.title = "Learning rate",
                      .x_label = "step",
                      .y_label = "learning rate",
                      .scale = Plot::Scale::linear,
                      .from_zero = true},
                     train([](const io::Metrics& m) { return m.lr; }));
  out += of_training({.title = "Throughput",
                      .x_label = "step",
                      .y_label = "samples per second",
                      .scale = Plot::Scale::linear,
                      .from_zero = true},
                     train([](const io::Metrics& m) { return m.samples_per_s; }));
  out += of_training({.title = "Waiting for data",
                      .x_label = "step",
                      .y_label = "% of the training time",
                      .scale = Plot::Scale::linear,
                      .from_zero = true,
                      .reach = 1,
                      .limit = 100},
                     data_wait);
  return out.empty() ? out : cat("<div class=\"charts\">", out, "</div>");
}

}  // namespace freight::report
