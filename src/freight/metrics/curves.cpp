// See curves.h.
#include "freight/metrics/curves.h"

#include <algorithm>
#include <cmath>

namespace freight::metrics {

ThresholdCurves threshold_curves(std::vector<Scored> samples) {
  ThresholdCurves out;
  for (const Scored& s : samples) ++(s.positive ? out.positives : out.negatives);
  if (out.positives == 0 || out.negatives == 0) return out;
  std::sort(samples.begin(), samples.end(), [](const Scored& a, const Scored& b) { return a.score > b.score; });
  const auto all = static_cast<double>(out.positives), others = static_cast<double>(out.negatives);
  int64_t right = 0, wrong = 0;
  out.roc.push_back({0, 0});
  for (size_t first = 0; first < samples.size();) {
    int64_t equal[2] = {};
    size_t last = first;
    for (; last < samples.size() && samples[last].score == samples[first].score; ++last)
      ++equal[samples[last].positive];
    const auto positives = static_cast<double>(equal[1]), negatives = static_cast<double>(equal[0]);
    out.area += negatives * (static_cast<double>(right) + positives / 2) / all / others;
    right += equal[1];
    wrong += equal[0];
    const double precision = static_cast<double>(right) / static_cast<double>(right + wrong);
    const double recall = static_cast<double>(right) / all;
    out.average_precision += precision * positives / all;
    out.roc.push_back({static_cast<double>(wrong) / others, recall});
    if (out.precision_recall.empty()) out.precision_recall.push_back({0, precision});
    out.precision_recall.push_back({recall, precision});
    first = last;
  }
  return out;
}

void Calibration::take(float probability, bool came_true) {
  const auto p = std::clamp(static_cast<double>(probability), 0.0, 1.0);
  Sums& bin = sums_[std::min(static_cast<size_t>(p * kBins), kBins - 1)];
  ++bin.samples;
  bin.true_ones += came_true ? 1 : 0;
  bin.said += p;
}

std::vector<CalibrationBin> Calibration::bins() const {
  std::vector<CalibrationBin> out;
  for (const Sums& s : sums_) {
    if (s.samples == 0) continue;
    const auto n = static_cast<double>(s.samples);
    out.push_back({s.samples, s.said / n, static_cast<double>(s.true_ones) / n});
  }
  return out;
}

double Calibration::error() const {
  double away = 0, all = 0;
  for (const CalibrationBin& b : bins()) {
    away += static_cast<double>(b.samples) * std::fabs(b.said - b.found);
    all += static_cast<double>(b.samples);
  }
  return all > 0 ? away / all : 0;
}

}  // namespace freight::metrics
