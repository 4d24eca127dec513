// The order in which the values of several ranks, or shards, are added: a binary tree over their numbers. The sum thus
// depends only on how many there are, not on which comes first, how arrays are cut, or which rank adds.
#pragma once
#include <bit>
#include <cstdint>

#include "freight/base/dtype.h"

namespace freight::comm {

// to (count) = the sum of from[0], ..., from[parts - 1], (count) each. The first 2^k of them, the largest power of two
// below `parts`, are one half, the rest is the other: ((0 + 1) + (2 + 3)) + 4. `to` may be one of `from`, but must not
// overlap one otherwise. f32, f64 or i64, which wraps around; parts >= 1. Throws Error(usage) for another type.
void tree_sum(const void* const* from, int parts, void* to, int64_t count, DType dtype);
// The number of leaves in the left half of a tree over `parts` >= 2 leaves: the largest power of two below it.
inline int left_half(int parts) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(parts - 1))); }

// Throws Error(usage) that names `op` where tree_sum does not add this type.
void check_summable(const char* op, DType dtype);

}  // namespace freight::comm
