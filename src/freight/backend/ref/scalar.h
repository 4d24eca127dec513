// The scalar functions of the pointwise ops, one element at a time: what the reference backend's loops call, and what
// other backends fall back to for ops and types they have no fast loop for.
#pragma once
#include <cstddef>
#include <cstdint>

#include "freight/ir/op.h"

namespace freight::ref {

// A function of integers: those of narrower types are computed in 64 bits and cut, as wrapping arithmetic allows. u64
// has its own, since its upper half is negative in i64.
struct IntegerFunctions {
  constexpr IntegerFunctions(std::nullptr_t) {}
  template <class F>
  constexpr IntegerFunctions(F)  // a function of two integers of one type, without state
      : of_i64([](int64_t a, int64_t b) { return static_cast<int64_t>(F{}(a, b)); }),
        of_u64([](uint64_t a, uint64_t b) { return static_cast<uint64_t>(F{}(a, b)); }) {}
  explicit operator bool() const { return of_i64 != nullptr; }
  int64_t operator()(int64_t a, int64_t b) const { return of_i64(a, b); }
  uint64_t operator()(uint64_t a, uint64_t b) const { return of_u64(a, b); }

  int64_t (*of_i64)(int64_t, int64_t) = nullptr;
  uint64_t (*of_u64)(uint64_t, uint64_t) = nullptr;
};

// a op b, or op a (b is then ignored). nullptr where the op has no meaning for the kind of number.
struct ScalarFunctions {
  Op op;
  double (*real)(double, double);
  IntegerFunctions integer;
  double (*typed)(double, double, DType) = nullptr;  // in place of `real` where results depend on the element type
};
// Throws Error(device) for an op that is not a unary or binary pointwise op (where and cast are not).
const ScalarFunctions& scalar_functions(Op op);
// Toward zero; NaN gives 0 and what lies outside of the integer type, which is not u64, its nearest end.
int64_t truncate(double a, DType to);

}  // namespace freight::ref
