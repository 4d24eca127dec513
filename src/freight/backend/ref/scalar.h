// The scalar functions of the pointwise ops, one element at a time: what the reference backend's loops call, and what
// other backends fall back to for ops and types they have no fast loop for.
#pragma once
#include <cstdint>

#include "freight/ir/op.h"

namespace freight::ref {

// a op b, or op a (b is then ignored). nullptr where the op has no meaning for the kind of number.
struct ScalarFunctions {
  Op op;
  double (*real)(double, double);
  int64_t (*integer)(int64_t, int64_t);
  double (*typed)(double, double, DType) = nullptr;  // in place of `real` where results depend on the element type
};
// Throws Error(device) for an op that is not a unary or binary pointwise op (where and cast are not).
const ScalarFunctions& scalar_functions(Op op);
// Toward zero; NaN gives 0 and what lies outside of the integer type its nearest end (u64 as its bits).
int64_t truncate(double a, DType to);

}  // namespace freight::ref
