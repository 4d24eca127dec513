// The functions of GELU and SiLU that tile programs compute in one step: GELU's factor F(x), of x F(x), and its slope,
// the derivative of x F(x), by the error function and by tanh; SiLU itself, x sigmoid(x), and its slope. The composites
// and their gradients (ir) write them out in primitives, which are found again here.
#pragma once
#include <cstdint>

#include "freight/backend/cpu/kernels/tile.h"

namespace freight::cpu {

// Polynomials of degree 5 in y - n, y = 2.5 x + 0.5, around each whole number n from -15 to 16, of which the last bits
// number the polynomial. At both ends the functions are 0 and 1.
struct GeluTable {
  static constexpr int kDegree = 5, kCount = 32, kFirst = -15, kLast = 16;
  static constexpr float kScale = 2.5f, kShift = 0.5f;
  alignas(64) float power[kDegree + 1][kCount];
};
extern const GeluTable kGeluTables[4];  // by the number of the function

// The program with values of kind `function` where these are written out in f32.
TileProgram with_activations(const TileProgram& program);

}  // namespace freight::cpu
