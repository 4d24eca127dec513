// Sums in f64 with more digits than one number has, and of squared differences. For arrays that belong to no program.
#pragma once
#include <cstdint>

#include "freight/base/dtype.h"

namespace freight::cpu {

// acc[i] + low[i] += x[i], where low is what acc rounds away.
void add_exactly(double* acc, double* low, const double* x, int64_t n);

// Adds (x - mean)^2 to sums: at[0] has the sums (f64), at[1] the means (f64), at[2] the numbers of a real floating
// type; steps in bytes, 0 for one sum of all, whose terms are added in pairs.
void add_squares(DType dtype, int64_t n, char* const* at, const int64_t* steps);

}  // namespace freight::cpu
