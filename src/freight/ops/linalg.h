// Contractions. Errors name both operands, the axis and the extents that differ.
#pragma once
#include <string>
#include <vector>

#include "freight/trace/tensor.h"
#include "freight/trace/variable.h"

namespace freight {

// NumPy's matmul: (..., M, K) x (..., K, N) -> (..., M, N), batch axes broadcast; a one-dimensional operand is a row
// (lhs) or a column (rhs). (B, T, K) x (K, N) is done as one (B*T, K) x (K, N). Floating types.
Tensor matmul(const In& a, const In& b);
// x (..., in) times w (out, in) transposed, plus b (out): -> (..., out). PyTorch's linear.
Tensor linear(const In& x, const In& w);
Tensor linear(const In& x, const In& w, const In& b);

// Einstein's summation, einsum("bik,bkj->bij", {a, b}): axes with letters, products summed over the letters that the
// result lacks. Without -> the result has the letters that stand once, by the alphabet. Element types must be equal.
Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands, SourceLine at = SourceLine::current());

}  // namespace freight
