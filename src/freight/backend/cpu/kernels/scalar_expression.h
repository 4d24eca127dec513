// Pointwise ops without a SIMD loop of their own: the C expression in an op's row of the table becomes steps that have
// one. An op that is new in the table is fast on the CPU by that, with no vector code written for it.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "freight/backend/cpu/kernels/tile.h"

namespace freight::cpu {

// One part of an expression. Parts stand behind those that they read; the last one is the result.
struct ScalarPart {
  enum class Kind : uint8_t { operand, number, apply };
  Kind kind = Kind::operand;
  int operand = 0;    // 0, 1, 2: a, b, c
  double number = 0;  // of kind number
  Op op = Op::add;    // of kind apply, to the parts a, b and c
  int a = -1, b = -1, c = -1;
};
using ScalarExpression = std::vector<ScalarPart>;

// Reads what `text` computes: arithmetic, comparisons, !, &&, ||, ?: and calls of functions that are ops by
// themselves ("exp(a)" is the text of op exp), log2, log10 and sigmoid. Nothing where it calls others, or is not C.
std::optional<ScalarExpression> parse_scalar(std::string_view text);

// True where vectors of f32 are computed by a SIMD loop: of the op's own, or by its expression.
bool has_vector_loop(Op op);
bool has_vector_expression(Op op);

// The program with each f32 op that has no SIMD loop replaced by its expression, where that has them.
TileProgram with_expressions(const TileProgram& program);

}  // namespace freight::cpu
