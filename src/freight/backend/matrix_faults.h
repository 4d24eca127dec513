// The texts of errors about a matrix that cannot be factorized or solved by, one for all backends. They name it as
// "the matrix f32[4,4]", or of a batch "matrix (1, 0) of f32[2,3,4,4]". Matrices are counted in row-major order.
#pragma once
#include <cstdint>
#include <string>

#include "freight/ir/type.h"

namespace freight {

// The pivot, from 0, is 0 or counts as 0.
std::string zero_pivot_text(const Type& type, int64_t matrix, int64_t pivot);
// The number of the diagonal, from 0, is 0.
std::string zero_diagonal_text(const Type& type, int64_t matrix, int64_t number);
// The leading minor of this order, from 1, is not positive.
std::string not_positive_text(const Type& type, int64_t matrix, int64_t order);
// The iteration of a library's routine for eigenvalues or singular values ended without them.
std::string not_converged_text(const Type& type, int64_t matrix, const std::string& routine);

}  // namespace freight
