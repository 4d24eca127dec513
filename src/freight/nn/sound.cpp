// See sound.h.
#include "freight/nn/sound.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "freight/base/finite.h"

namespace freight::nn {

int64_t count_invalid(const Array& values, Variable::Role role) {
  const int64_t odd = count_nonfinite(values);
  if (odd == 0 || role == Variable::Role::parameter || is_complex(values.dtype())) return odd;
  const std::vector<double> all = values.cast(DType::f64).to_vector<double>();
  return odd - std::count(all.begin(), all.end(), -std::numeric_limits<double>::infinity());
}

}  // namespace freight::nn
