// Reductions over all or some axes. Sums accumulate in f32 or better. Errors: Error(usage) naming axis and type.
#pragma once
#include "freight/ops/options.h"
#include "freight/trace/tensor.h"
#include "freight/trace/variable.h"

namespace freight {

// x reduced over `axes` (all by default); the axes disappear unless Keep::yes. Of integers and bool in i64 (of u64 in
// u64), as in NumPy and PyTorch.
Tensor sum(const In& x, const Axes& axes = {}, Keep keep = Keep::no);
// The means of the elements. Needs a floating type.
Tensor mean(const In& x, const Axes& axes = {}, Keep keep = Keep::no);
// The largest elements. Ties share the gradient.
Tensor max(const In& x, const Axes& axes = {}, Keep keep = Keep::no);
Tensor min(const In& x, const Axes& axes = {}, Keep keep = Keep::no);  // the smallest; as above

// The product; of integers as sum.
Tensor prod(const In& x, const Axes& axes = {}, Keep keep = Keep::no);
// bool: true where any element differs from 0. NaN does.
Tensor any(const In& x, const Axes& axes = {}, Keep keep = Keep::no);
Tensor all(const In& x, const Axes& axes = {}, Keep keep = Keep::no);  // the same of all elements
// ln(sum(exp(x))), with the maximum subtracted first.
Tensor logsumexp(const In& x, const Axes& axes = {}, Keep keep = Keep::no);

// Settings of norm.
struct NormOptions {
  double p = 2;          // 1: sum of |x|; infinity: the largest |x|; 0: how many differ from 0
  Keep keep = Keep::no;  // whether the axes stay
};
// sum(|x|^p)^(1/p) of the elements. The gradient at 0 is 0.
Tensor norm(const In& x, const Axes& axes = {}, const NormOptions& options = {});

// Settings of var and stddev.
struct VarOptions {
  double correction = 1;  // the divisor is n - correction: 1 unbiased (PyTorch's default), 0 biased
  Keep keep = Keep::no;   // whether the axes stay
};
// Sum of squared differences from the mean, divided by n - correction.
Tensor var(const In& x, const Axes& axes = {}, const VarOptions& options = {});
// Its root, the standard deviation (PyTorch's std). The gradient where all elements are equal is 0.
Tensor stddev(const In& x, const Axes& axes = {}, const VarOptions& options = {});

// Element i is the sum of elements 0 to i along the axis; of integers as sum.
Tensor cumsum(const In& x, Axis axis);
// The same of products.
Tensor cumprod(const In& x, Axis axis);

// i32 index of the first largest element along `axis`, which disappears unless Keep::yes.
Tensor argmax(const In& x, Axis axis = -1, Keep keep = Keep::no);
Tensor argmin(const In& x, Axis axis = -1, Keep keep = Keep::no);  // the same of the smallest

}  // namespace freight
