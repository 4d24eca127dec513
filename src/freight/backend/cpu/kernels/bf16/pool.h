// Maxima of windows and their gradients on channels-last bf16, 32 channels at a time.
#pragma once
#include "freight/backend/cpu/kernels/pool.h"

namespace freight::cpu {

// For a processor whose bf16_table() is not null. Windows are of 256 pixels at most, and a maximum is told by its
// place in the window, a byte, where the plain table has its index in the plane: the bytes lie side by side.
const PoolTable& bf16_pool_table();

}  // namespace freight::cpu
