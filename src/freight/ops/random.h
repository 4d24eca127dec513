// Random tensors: Philox keyed by (seed, step, number of the draw in the trace). Each run of a step draws anew; the
// same seed gives the same numbers on every backend. The state is rng_state() of trace/variable.h.
#pragma once
#include "freight/trace/tensor.h"
#include "freight/trace/variable.h"

namespace freight {

// f32 in [lo, hi).
Tensor random_uniform(const Shape& shape, double lo = 0, double hi = 1, SourceLine at = SourceLine::current());
// f32 normal.
Tensor random_normal(const Shape& shape, double mean = 0, double deviation = 1, SourceLine at = SourceLine::current());
// f32 normal with mean 0 and deviation 1.
Tensor randn(const Shape& shape, SourceLine at = SourceLine::current());
// i64 in [low, high), at most 2^24 different ones: the draws behind them have 24 bits.
Tensor randint(WholeNumber low, WholeNumber high, const Shape& shape, SourceLine at = SourceLine::current());
// Zeroes elements with probability p and scales the rest by 1 / (1 - p). Srivastava et al., JMLR 2014.
// Throws Error(usage) unless 0 <= p < 1.
Tensor dropout(const In& x, double p);

}  // namespace freight
