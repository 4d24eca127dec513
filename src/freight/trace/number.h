// What a number becomes beside a tensor: the promotion of the array API and PyTorch. A number never changes the width
// of floating elements; an integer takes the type of integer elements; a number with a decimal point makes f32 of them,
// also where it is whole (2.0). Internal to trace and ops.
#pragma once
#include "freight/trace/tensor.h"

namespace freight::trace {

// The element type of a result of elements of type `dtype` and the number.
DType beside(DType dtype, const In& number);
// Whether elements of `dtype` hold the number: whole and in range for integers, 0 or 1 for bool; finite numbers stay
// finite.
bool holds(DType dtype, const In& number);
// Throws Error(usage) that names the number, `what` refuses it ("into variable 'v' u8[3]") and what the type holds,
// unless it holds the number.
void need_held(const In& number, DType dtype, const std::string& what, const char* op);
// The number as it was given.
std::string number_text(const In& number);
// A constant whose elements are all the number. Throws Error(usage) that names number and type where they do not fit.
Tensor constant_of(const In& number, const Type& type, const char* op);
// The same number for an attribute of an op, which keeps it as a double. Throws Error(usage) where that would round the
// element of an integer type.
double attribute_of(const In& number, DType dtype, const char* op);

}  // namespace freight::trace
