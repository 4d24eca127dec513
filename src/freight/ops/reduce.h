// Reductions over all or some axes. Sums accumulate in f32 or better. Errors: Error(usage) naming axis and type.
#pragma once
#include "freight/ops/options.h"
#include "freight/trace/tensor.h"
#include "freight/trace/variable.h"

namespace freight {

// x reduced over `axes` (all by default); the axes disappear unless Keep::yes. Of integers and bool in i64, as in NumPy
// and PyTorch.
Tensor sum(const In& x, const Axes& axes = {}, Keep keep = Keep::no);
// Needs a floating type.
Tensor mean(const In& x, const Axes& axes = {}, Keep keep = Keep::no);
// Ties share the gradient.
Tensor max(const In& x, const Axes& axes = {}, Keep keep = Keep::no);
Tensor min(const In& x, const Axes& axes = {}, Keep keep = Keep::no);

struct VarOptions {
  int64_t correction = 1;  // the divisor is n - correction: 1 unbiased (PyTorch's default), 0 biased
  Keep keep = Keep::no;
};
// Sum of squared differences from the mean, divided by n - correction.
Tensor var(const In& x, const Axes& axes = {}, const VarOptions& options = {});

// i32 index of the first largest / smallest element along `axis`, which disappears unless Keep::yes.
Tensor argmax(const In& x, Axis axis = -1, Keep keep = Keep::no);
Tensor argmin(const In& x, Axis axis = -1, Keep keep = Keep::no);

}  // namespace freight
