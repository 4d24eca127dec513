// The op table: one row per primitive or composite, the only place that knows facts about an op. Printing, parsing,
// verification, differentiation, fusion, cost and the generated tests all read the row. To add an op see docs/adding-an-op.md.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "freight/ir/attrs.h"
#include "freight/ir/type.h"

namespace freight {

// In the order of the table in op_table.cpp (checked at compile time).
enum class Op : uint8_t {
  // leaves
  input, state, constant,
  // generators
  iota, random_uniform, random_normal,
  // unary pointwise
  neg, abs, sign, exp, expm1, log, log1p, sqrt, rsqrt, reciprocal, square, sin, cos, tan, tanh, sigmoid, erf,
  floor, ceil, round, relu, logical_not, is_finite, cast,
  // binary pointwise
  add, sub, mul, div, pow, maximum, minimum, remainder, eq, ne, lt, le, gt, ge, logical_and, logical_or,
  // ternary pointwise
  where,
  // views: the result shares elements with the input
  reshape, transpose, broadcast, slice,
  // data movement
  copy, pad, concat,
  // reductions
  sum, reduce_max, reduce_min, argmax, argmin,
  // contractions
  matmul, conv, conv_grad_input, conv_grad_weight,
  // pooling
  max_pool, max_pool_grad, avg_pool, avg_pool_grad,
  // indexing
  gather, scatter_add, gather_elements, scatter_elements_add,
  // composites
  softmax, log_softmax, cross_entropy, batch_norm, batch_norm_inference, layer_norm, group_norm, gelu, silu, dropout,
  embedding, one_hot, adaptive_avg_pool, sgd_update, adam_update,
  // made by passes
  fused,
};
inline constexpr int kOpCount = static_cast<int>(Op::fused) + 1;

enum class OpKind : uint8_t {
  leaf, generator, unary, binary, ternary, view, movement, reduce, contract, convolve, pool, index, composite, fused,
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
  int min_inputs, max_inputs;  // max -1: any number
  Attrs attrs;                 // the alternative that nodes of this op carry
  const char* scalar;          // pointwise: the result as a C expression of a, b, c; "" otherwise
  InferFn infer;
  FlopsFn flops;               // per node; pointwise ops count one FLOP per element and operation of `scalar`
  VjpFn vjp;                   // nullptr: not differentiable (no cotangent flows through)
  DecomposeFn decompose;       // composites only
};

const OpInfo& info(Op op);
inline const char* name(Op op) { return info(op).name; }
// False where no op has that name.
bool parse_op(std::string_view text, Op& out);
inline bool is_pointwise(Op op) {
  const OpKind k = info(op).kind;
  return k == OpKind::unary || k == OpKind::binary || k == OpKind::ternary || k == OpKind::generator;
}

}  // namespace freight
