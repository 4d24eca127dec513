// See row_form.h.
#include "freight/store/row_form.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace freight::store {

void apply_link(RowLink link, std::vector<double>& sums) {
  switch (link) {
    case RowLink::identity: return;
    case RowLink::exponential: sums[0] = std::exp(sums[0]); return;
    case RowLink::logistic: {
      // Computes the smaller probability first, so that it is not lost in a difference from 1.
      const double sum = sums[0], power = std::exp(-std::fabs(sum)), small = power / (1 + power);
      sums = {1 - small, small};
      if (sum > 0) std::swap(sums[0], sums[1]);
      return;
    }
    case RowLink::softmax: break;
  }
  const double most = *std::max_element(sums.begin(), sums.end());
  double all = 0;
  for (double& s : sums) all += s = std::exp(s - most);
  for (double& s : sums) s /= all;
}

}  // namespace freight::store
