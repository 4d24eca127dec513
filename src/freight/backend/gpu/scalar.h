// Scalar C expressions of the pointwise ops, from the op table, and of what reductions do with two numbers.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "freight/ir/op.h"

namespace freight::gpu {

// The op's result from operands of value type `in`, given as names.
std::string scalar_expression(Op op, DType in, const std::vector<std::string>& operands);
// A scalar expression with the names in place of a and b, and its fractions as numbers of the type it is computed in.
std::string filled(std::string_view pattern, DType in, const std::vector<std::string>& operands);
// `value` as a number of type `dtype`.
std::string literal(double value, DType dtype);
// A name of type `from` converted to `to`, rounded as storing and loading would.
std::string converted(const std::string& name, DType from, DType to);

// The type a reduction of `dtype` is accumulated in, its first value, and the dialect's word for what it makes of two
// numbers.
DType accumulator(DType dtype);
std::string reduction_start(Op op, DType dtype);
const char* reducer(Op op);

}  // namespace freight::gpu
