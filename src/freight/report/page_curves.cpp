// Curves of classes and residuals of values. See page_internal.h.
#include <algorithm>
#include <cmath>

#include "freight/base/strings.h"
#include "freight/report/document.h"
#include "freight/report/markup.h"
#include "freight/report/page_internal.h"

namespace freight::report {

namespace {

constexpr size_t kCurvePoints = 200, kScatterPoints = 800, kResidualBins = 30;

// A selection of many points, including the first and the last.
template <class P>
std::vector<Point> some_of(const std::vector<P>& points, size_t most) {
  const size_t count = std::min(points.size(), most);
  std::vector<Point> out;
  for (size_t i = 0; i < count; ++i) {
    const P& point = points[points.size() <= most ? i : i * (points.size() - 1) / (most - 1)];
    out.push_back({point.x, point.y});
  }
  return out;
}

Series diagonal() { return {.points = {{0, 0}, {1, 1}}, .color = 4, .stroke = Stroke::dashed, .value_at_end = false}; }

// A plot of fractions against fractions: both axes go from 0 to 1.
Plot plot_of_shares(const char* title, const char* x, const char* y) {
  return {.title = title,
          .x_label = x,
          .y_label = y,
          .scale = Plot::Scale::linear,
          .from_zero = true,
          .reach = 1,
          .limit = 1};
}

std::string class_curves(const Examination& e) {
  Plot roc = plot_of_shares("ROC", "false positive rate", "true positive rate");
  roc.series.push_back(diagonal());
  Plot precision = plot_of_shares("Precision and recall", "recall", "precision");
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < e.curves.size(); ++i) {
    const metrics::ThresholdCurves& c = e.curves[i].curves;
    if (c.roc.empty()) continue;
    const std::string name = shortened(e.classes[static_cast<size_t>(e.curves[i].number)], 16);
    const auto color = static_cast<int>(i);
    roc.series.push_back(
        {.label = name, .points = some_of(c.roc, kCurvePoints), .color = color, .value_at_end = false});
    precision.series.push_back(
        {.label = name, .points = some_of(c.precision_recall, kCurvePoints), .color = color, .value_at_end = false});
    rows.push_back({e.classes[static_cast<size_t>(e.curves[i].number)], with_commas(c.positives), figure(c.area),
                    figure(c.average_precision),
                    percent(static_cast<double>(c.positives) / static_cast<double>(c.positives + c.negatives))});
  }
  std::string out;
  const bool two = e.classes.size() == 2 && !e.multilabel;
  if (!rows.empty()) {
    out +=
        cat("<h3>Over all thresholds</h3><p>",
            two            ? "The second class"
            : e.multilabel ? "Each label"
                           : "Each class",
            " against ",
            two            ? "the first"
            : e.multilabel ? "samples without it"
                           : "all others",
            e.classes.size() > rows.size() && !two ? ", of the most frequent ones" : "",
            ". A random classifier is on the diagonal of the ROC curve, and at the class's fraction of the "
            "samples in precision.</p>",
            data_table({{"class", false}, {"samples"}, {"area under the ROC curve"}, {"average precision"}, {"share"}},
                       rows));
  }
  Plot kept = plot_of_shares("Calibration", "predicted probability", "observed frequency");
  kept.series.push_back(diagonal());
  std::vector<Point> points;
  for (const metrics::CalibrationBin& b : e.calibration) points.push_back({b.said, b.found});
  kept.series.push_back({.points = points, .color = 0, .value_at_end = false});
  std::string charts = rows.empty() ? std::string() : chart(roc) + chart(precision);
  if (!e.calibration.empty()) {
    charts += chart(kept);
    out += cat("<p>Calibration is of ",
               two            ? "the second class"
               : e.multilabel ? "all labels"
                              : "the predicted class",
               ", in tenths of its probability: it is off by ", percent(e.calibration_error),
               " on average (expected calibration error).</p>");
  }
  return out + (charts.empty() ? charts : cat("<div class=\"charts\">", charts, "</div>"));
}

std::string residual_charts(const Examination& e) {
  if (e.residuals.empty()) return {};
  std::vector<Point> scatter;
  std::vector<double> errors;
  for (const Residual& r : e.residuals) {
    const double error = static_cast<double>(r.target) - static_cast<double>(r.prediction);
    scatter.push_back({static_cast<double>(r.prediction), error});
    errors.push_back(error);
  }
  scatter = some_of(scatter, kScatterPoints);
  std::sort(scatter.begin(), scatter.end(), [](const Point& a, const Point& b) { return a.x < b.x; });
  std::sort(errors.begin(), errors.end());
  // Shows the middle 98 %: otherwise a single outlier would put all other errors into one bar.
  const double low = errors[errors.size() / 100], high = errors[errors.size() - 1 - errors.size() / 100];
  std::vector<Point> counts;
  for (size_t i = 0; i < kResidualBins && high > low; ++i) {
    const double width = (high - low) / static_cast<double>(kResidualBins);
    counts.push_back({low + (static_cast<double>(i) + 0.5) * width, 0});
  }
  for (const double error : errors) {
    if (counts.empty() || error < low || error > high) continue;
    const auto bin = static_cast<size_t>((error - low) / (high - low) * static_cast<double>(kResidualBins));
    counts[std::min(bin, kResidualBins - 1)].y += 1;
  }
  const Plot errors_over{.title = "Residuals",
                         .x_label = "prediction",
                         .y_label = "true value - prediction",
                         .series = {{.points = scatter, .color = 0, .stroke = Stroke::none, .value_at_end = false}},
                         .scale = Plot::Scale::linear,
                         .x_from_zero = false};
  const Plot spread{.title = "How often",
                    .x_label = "true value - prediction, the middle 98 %",
                    .y_label = "samples",
                    .series = {{.points = counts, .color = 0, .value_at_end = false}},
                    .scale = Plot::Scale::linear,
                    .x_from_zero = false,
                    .from_zero = true};
  return cat("<h3>Residuals", e.outputs.size() > 1 ? " of the first output" : "", "</h3><div class=\"charts\">",
             chart(errors_over), chart(spread), "</div>");
}

}  // namespace

std::string curve_section(const Examination& e) { return e.classification() ? class_curves(e) : residual_charts(e); }

}  // namespace freight::report
