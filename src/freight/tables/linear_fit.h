// Fits linear models: least squares by an exact solution, logistic and Poisson regression by Newton's method. Rows are
// processed in blocks, so that memory depends only on the columns.
#pragma once
#include <functional>

#include "freight/base/array.h"
#include "freight/store/row_model.h"
#include "freight/tables/design.h"

namespace freight::tables {

// The function from sums of products to predictions: identity, exponential (counts), logistic (two classes: the
// probability of the second), softmax (more classes).

// The sums of an output are intercept + weights x the numbers of the design.
struct LinearFit {
  Array weights;     // f64 (outputs, width)
  Array intercepts;  // f64 (outputs)
  // Standard errors, f64 (outputs, 1 + width) with the intercept's first, from the curvature at the solution including
  // the penalty. All 0 if columns depend on each other, so that single coefficients mean nothing.
  Array errors;
  int64_t rank = 0;  // number of independent columns of the design, with the intercept, per output
};

// The number of rows that are in memory as numbers of the design at once.
inline constexpr int64_t kFitBlockRows = 2048;

// Called after each round of Newton's method; false ends the fit there.
using Fitted = std::function<bool(const LinearFit& so_far, bool last)>;

// Minimizes the sum over all rows of half the squared error, or of the negative log-likelihood, plus lambda / 2 times
// the squared weights without the intercepts. If columns depend on each other and lambda is 0, the solution has minimum
// norm. Throws Error(usage) if outputs times width is too large to be solved this way, and Error(data) for negative
// counts.
LinearFit fit_linear(store::RowLink link, const Design& design, const store::Rows& rows, int64_t classes, double lambda,
                     const Fitted& on_fit);

}  // namespace freight::tables
