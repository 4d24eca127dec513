// See interval.h.
#include "freight/metrics/interval.h"

#include <algorithm>
#include <cmath>

namespace freight::metrics {

namespace {
constexpr double kNormal = 1.959963984540054;  // 2.5 % of a normal distribution lie beyond so many deviations
constexpr double kTail = 0.025;
}  // namespace

Bounds share_bounds(double share, double samples) {
  const double n = samples, z2 = kNormal * kNormal, scale = 1 + z2 / n;
  const double middle = (share + z2 / (2 * n)) / scale;
  const double half = kNormal * std::sqrt(std::max(share * (1 - share), 0.0) / n + z2 / (4 * n * n)) / scale;
  return {std::max(std::min(middle - half, share), 0.0), std::min(std::max(middle + half, share), 1.0)};
}

Bounds mean_bounds(const std::vector<Share>& shares) {
  double mean = 0, below = 0, above = 0;
  for (const Share& s : shares) {
    const Bounds b = share_bounds(s.share, s.samples);
    mean += s.share;
    below += (s.share - b.low) * (s.share - b.low);
    above += (b.high - s.share) * (b.high - s.share);
  }
  const auto k = static_cast<double>(shares.size());
  return {(mean - std::sqrt(below)) / k, (mean + std::sqrt(above)) / k};
}

Bounds spread_bounds(double value, const std::vector<double>& drawn, Scale scale, double samples) {
  const double edge = 1 / (2 * samples);  // figures of finite samples may lie on a bound, where the scale ends
  const auto into = [&](double v) {
    switch (scale) {
      case Scale::unit: v = std::clamp(v, edge, 1 - edge); return std::log(v / (1 - v));
      case Scale::signed_unit: return std::atanh(std::clamp(v, edge - 1, 1 - edge));
      case Scale::positive: return std::log(std::max(v, 1e-300));
      case Scale::below_one: return std::log(std::max(1 - v, 1e-300));
    }
    return v;
  };
  const auto back = [&](double t) {
    switch (scale) {
      case Scale::unit: return 1 / (1 + std::exp(-t));
      case Scale::signed_unit: return std::tanh(t);
      case Scale::positive: return std::exp(t);
      case Scale::below_one: return 1 - std::exp(t);
    }
    return t;
  };
  if (drawn.empty()) return {value, value};
  double sum = 0, square = 0;
  for (const double v : drawn) sum += into(v);
  const double mean = sum / static_cast<double>(drawn.size());
  for (const double v : drawn) square += (into(v) - mean) * (into(v) - mean);
  const double half = kNormal * std::sqrt(square / static_cast<double>(drawn.size()));
  const double one = back(into(value) - half), other = back(into(value) + half);
  return {std::min({one, other, value}), std::max({one, other, value})};
}

Bounds middle_bounds(double value, std::vector<double> drawn) {
  if (drawn.empty()) return {value, value};
  std::sort(drawn.begin(), drawn.end());
  const auto most = static_cast<double>(drawn.size() - 1);
  return {drawn[static_cast<size_t>(std::lround(most * kTail))],
          drawn[static_cast<size_t>(std::lround(most * (1 - kTail)))]};
}

}  // namespace freight::metrics
