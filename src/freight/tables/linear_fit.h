// Fits linear models: least squares by an exact solution, logistic and Poisson regression by Newton's method. The rows
// pass in blocks, so that memory depends on the columns alone.
#pragma once
#include <functional>

#include "freight/base/array.h"
#include "freight/store/row_model.h"
#include "freight/tables/design.h"

namespace freight::tables {

// An answer follows from sums of products: as they are, their exponential (counts), the logistic function (two
// classes, of which they tell the second), softmax (more classes).
enum class Link { identity, log, logit, softmax };

// The sums of one output are intercept + weights x the numbers of the design.
struct LinearFit {
  Array weights;     // f64 (outputs, width)
  Array intercepts;  // f64 (outputs)
  // f64 (outputs, 1 + width), the intercept's first: standard errors by the curvature at the solution, with the
  // penalty. 0 throughout where columns depend on each other, so that single coefficients mean nothing.
  Array errors;
  int64_t rank = 0;  // independent columns of the design with the intercept's, per output
};

// Rows that are in memory as numbers of the design at once.
inline constexpr int64_t kFitBlockRows = 2048;

// Hears of the fit after each round of Newton's method; false ends it there.
using Fitted = std::function<bool(const LinearFit& so_far, bool last)>;

// The minimum of the sum over all rows of half the squared error, or of the negative log-likelihood, plus lambda / 2
// times the sum of the squared weights, without the intercepts. Where columns depend on each other and lambda is 0 it
// is the one of least norm. Throws Error(usage) for an output count times width that is too large to be solved so, and
// Error(data) for negative counts.
LinearFit fit_linear(Link link, const Design& design, const store::Rows& rows, int64_t classes, double lambda,
                     const Fitted& on_fit);

}  // namespace freight::tables
