// The elementwise functions of the array API standard on views: one row per function with a loop for each element type
// that it is defined for. Values are those of the library's SIMD loops (within 4.1 ulp; jit has the same ones but for
// log2) or of the C library (within 1 ulp), special values those of the standard.
#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "view.h"

namespace freight::python {

// n elements: at[0] and steps[0] are the result's, then those of the operands; steps in bytes.
using ElementLoop = void (*)(int64_t n, char** at, const int64_t* steps);

// A function and its loops by element type of the operands; null where it is not defined.
struct Elementwise {
  const char* name;     // in the standard
  const char* library;  // in freight::public_functions(), "" where it has none
  int operands = 1;
  std::array<ElementLoop, kDTypeCount> loops = {};
  std::array<DType, kDTypeCount> results = {};
  bool floating = false;  // integers are converted to the default floating type first
};

const std::vector<Elementwise>& elementwise_functions();
const Elementwise& elementwise_function(std::string_view name);  // throws where there is none

// The element type that an operation on operands of type `dtype` runs in; TypeError where there is none.
DType computed_in(const Elementwise& f, DType dtype);
// Operands of one element type, broadcast.
View apply(const Elementwise& f, const View& x);
View apply(const Elementwise& f, const View& a, const View& b);
// The same into `out`, which has the result's type and shape.
void apply_into(const Elementwise& f, const View& out, const View& a, const View& b);
View where(const View& condition, const View& a, const View& b);  // a and b have one element type

namespace detail {
std::vector<Elementwise> unary_rows();
std::vector<Elementwise> binary_rows();
}  // namespace detail

}  // namespace freight::python
