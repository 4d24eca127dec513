// The 95 % intervals of figures that are computed from samples.
#pragma once
#include <vector>

namespace freight::metrics {

struct Bounds {
  double low = 0, high = 0;
};

// Wilson's interval of a share of so many samples (Probable inference, the law of succession, and statistical
// inference, JASA 1927); of weighted samples, of as many as have the same variance.
Bounds share_bounds(double share, double samples);

// A mean of shares of different samples: its distance from a bound is that of all shares from theirs, squared and added
// (Zou and Donner, Construction of confidence limits about effect measures, Statistics in Medicine 2008).
struct Share {
  double share = 0, samples = 0;
};
Bounds mean_bounds(const std::vector<Share>& shares);

// The scale in which a figure is nearly normal: without the bounds that it has.
enum class Scale {
  unit,         // 0 to 1: log(v / (1 - v))
  signed_unit,  // -1 to 1: atanh
  positive,     // log
  below_one     // log(1 - v)
};
// A figure of `samples`, by the spread of the same figure of samples that were drawn with replacement (bootstrap).
Bounds spread_bounds(double value, const std::vector<double>& drawn, Scale scale, double samples);
// The middle of what the drawn samples have (percentile bootstrap).
Bounds middle_bounds(double value, std::vector<double> drawn);

}  // namespace freight::metrics
