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

// A node may refuse its elements when it runs, which is an error of the data: an index out of range, a singular
// matrix.
enum class CanFail : uint8_t { no, by_index, yes };  // by_index: where an operand holds integers

// Before which pass a composite without a kernel is written out.
enum class Decomposes : uint8_t { before_precision, after_precision };

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
// The others are described at their columns; op_rules.h declares them.
using DecomposeIfFn = bool (*)(const Graph& graph, const Node& node);
using TransposeFn = bool (*)(Attrs& attrs, size_t operand);
struct ScaleAndShift;
using PerChannelFn = ScaleAndShift (*)(Builder& builder, const Node& node, const std::vector<Value>& in);
using OnlyIfFn = Value (*)(Builder& builder, Value update, Value condition);

struct Cost {
  double flops = 0;
  double bytes = 0;  // that must be read and written at least
};
using FlopsFn = double (*)(const Node& node, const std::vector<Type>& in, const std::vector<Type>& out);

struct OpInfo {
  Op op;
  const char* name;
  OpKind kind;
  Precision precision = Precision::full;
  const char* signature = "";  // operands and results by name: "a, b, bias?, residual? -> y"; read by ir/signature.h
  const char* doc = "";        // one line
  Attrs attrs = NoAttrs{};     // the alternative that nodes of this op carry
  const char* scalar = "";     // pointwise: the result as a C expression of a, b, c; "" otherwise
  InferFn infer = nullptr;
  FlopsFn flops = nullptr;          // per node; pointwise ops count one per element and operation, or are heavy
  VjpFn vjp = nullptr;              // nullptr: not differentiable (no cotangent flows through)
  DecomposeFn decompose = nullptr;  // composites only
  // A composite that has a kernel is written out all the same where this holds; nullptr: nowhere.
  DecomposeIfFn decompose_if = nullptr;
  Decomposes decomposes = Decomposes::after_precision;
  CanFail can_fail = CanFail::no;
  bool depends_on_shape = false;  // kernels and layouts on CPUs depend on more of the sizes than which are equal
  bool in_place = false;          // each element of a result is written after the operands' same elements were read
  bool run_once = false;          // overwrites what it reads of its forward op: never computed again
  bool random = false;            // its results are random numbers, by a key
  double product_share = 0;       // of the rate of products that a large one reaches (plan/work.cpp); 0: is no product
  TransposeFn transpose = nullptr;     // makes attributes those for the operand transposed; false where there are none
  PerChannelFn per_channel = nullptr;  // the op as x scale + shift per channel (axis 1) of operand 0
  OnlyIfFn only_if = nullptr;          // the update of a state where the condition holds, which does nothing elsewhere
  int table = -1;  // the operand (rows, width) whose rows the op looks up by their numbers; -1: it looks up none
  int min_inputs = 0, max_inputs = 0;  // those of the signature; max -1: any number
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
