// Indices out of range and matrices without a factorization that kernels meet. A kernel cannot throw: it reads 0 or
// writes nothing, and leaves two numbers in the device's fault words, (which check, the index). A driver gives every
// kernel that asks for them (operand kFaults) the same two words of 64 bits, at first 0, and looks at them whenever it
// waits for results anyway.
#pragma once
#include <cstdint>
#include <string>

#include "freight/base/device_memory.h"
#include "freight/ir/graph.h"

namespace freight::gpu {

// The operand number of the fault words in Argument.
constexpr int kFaults = -1;
// The words hold these where nothing was met.
inline constexpr int64_t kNoFault[2] = {0, 0};

// The number, from 1 on, of the check that an index of this node lies in [0, rows). Equal checks have equal numbers.
int64_t index_check(const Node& node, int64_t rows);
// The same of matrices (..., M, N) of a node: the number of what is wrong in one is (matrix K + place), K = min(M, N)
// (backend/matrix_faults.h).
enum class MatrixFault { zero_pivot, zero_diagonal, not_positive, not_converged };
int64_t matrix_check(const Node& node, const Type& matrices, MatrixFault fault);
// Throws Error(data) as the CPU backend does, for the words that a device left, after those there are 0 again; nothing
// where they are 0.
void throw_fault(const int64_t words[2], DeviceMemory& memory, void* words_there);

}  // namespace freight::gpu
