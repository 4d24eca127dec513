// Normal draws in large numbers: the initial values of weights.
#pragma once
#include <cstdint>

namespace freight {

// `count` draws of mean 0 and deviation 1: four from each Philox block of `key` and `counter_hi`, from block `first`
// on, by Box-Muller in f32 on both pairs of its words.
void normal_draws(float* to, int64_t count, uint64_t key, uint64_t counter_hi, int64_t first);

}  // namespace freight
