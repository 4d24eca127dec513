// x sigmoid(x) in place, for numbers that a convolution has just left in a cache.
#pragma once
#include <cstdint>

namespace freight::cpu {

// On the calling thread. As by its definition, the result for -infinity is NaN.
void silu_in_place(float* v, int64_t n);

}  // namespace freight::cpu
