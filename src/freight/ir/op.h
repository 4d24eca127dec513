// What the op table (op_table.inc, one row per op) says of an op, and the enum made from it. Printing, parsing,
// verification, differentiation, fusion, cost and the generated tests all read the row. To add an op see
// docs/extend/op.md.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "freight/ir/attrs.h"
#include "freight/ir/type.h"

namespace freight {

enum class Op : uint8_t {
#define FREIGHT_OP(name, ...) name,
#include "freight/ir/op_table.inc"
#undef FREIGHT_OP
};
inline constexpr int kOpCount = static_cast<int>(Op::fused) + 1;

enum class OpKind : uint8_t {
  leaf,
  generator,
  unary,
  binary,
  ternary,
  view,
  movement,
  reduce,
  contract,
  convolve,
  linalg,  // factorizations, triangular solves, spectra: of whole matrices, in f32 and f64 alone
  pool,
  index,
  collective,  // over the ranks of a job (run/collectives.h); on one rank the identity
  composite,
  fused,
};

// What mixed precision (passes/autocast.cpp) computes an op's f32 operands and results in.
enum class Precision : uint8_t {
  low,                // the 16-bit type: where nearly all FLOPs are
  low_if_supported,   // the same, but for statistics and weights (with fewer axes), where Backend::narrows; else f32
                      // inside
  match_inputs,       // the 16-bit type where all operands are in it, else f32: one rounding, or none
  match_first_input,  // as the first operand is; other operands and results f32: statistics inside are f32
  full,               // f32: reductions, transcendental functions, losses, updates
};

struct Node;
struct Graph;
class Builder;
class VjpContext;

// Infers the result types; throws Error(usage) naming the op, what was got and what is needed.
using InferFn = std::vector<Type> (*)(const Node& node, const std::vector<Type>& in);
// Adds the cotangents of the inputs (see vjp.h).
using VjpFn = void (*)(VjpContext& context);
// Builds the plain definition of a composite from `in`; one value per output.
using DecomposeFn = std::vector<Value> (*)(Builder& builder, const Node& node, const std::vector<Value>& in);

struct Cost {
  double flops = 0;
  double bytes = 0;  // that must be read and written at least
};
using FlopsFn = double (*)(const Node& node, const std::vector<Type>& in, const std::vector<Type>& out);

struct OpInfo {
  Op op;
  const char* name;
  OpKind kind;
  Precision precision;
  const char* signature;       // operands and results by name: "a, b, bias?, residual? -> y"; read by ir/signature.h
  const char* doc;             // one line
  int min_inputs, max_inputs;  // those of the signature; max -1: any number
  Attrs attrs;                 // the alternative that nodes of this op carry
  const char* scalar;          // pointwise: the result as a C expression of a, b, c; "" otherwise
  InferFn infer;
  FlopsFn flops;          // per node; pointwise ops count one FLOP per element and operation of `scalar`, or are heavy
  VjpFn vjp;              // nullptr: not differentiable (no cotangent flows through)
  DecomposeFn decompose;  // composites only
};

const OpInfo& info(Op op);
inline const char* name(Op op) { return info(op).name; }
// False where no op has that name.
bool parse_op(std::string_view text, Op& out);
// Pointwise ops that cost tens of operations per element: exponentials, other functions, random numbers.
bool is_heavy(Op op);
inline bool is_reduce(Op op) { return info(op).kind == OpKind::reduce; }
inline bool is_pointwise(Op op) {
  const OpKind k = info(op).kind;
  return k == OpKind::unary || k == OpKind::binary || k == OpKind::ternary || k == OpKind::generator;
}

}  // namespace freight
