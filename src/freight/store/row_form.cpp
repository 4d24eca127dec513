// See row_form.h.
#include "freight/store/row_form.h"

#include <algorithm>
#include <cmath>

namespace freight::store {

std::vector<double> answer_of(RowLink link, std::vector<double> sums) {
  switch (link) {
    case RowLink::identity: return sums;
    case RowLink::exponential: return {std::exp(sums[0])};
    case RowLink::logistic: return {1 / (1 + std::exp(sums[0])), 1 / (1 + std::exp(-sums[0]))};
    case RowLink::softmax: break;
  }
  const double most = *std::max_element(sums.begin(), sums.end());
  double all = 0;
  for (double& s : sums) all += s = std::exp(s - most);
  for (double& s : sums) s /= all;
  return sums;
}

}  // namespace freight::store
