// Shape and element type inference and FLOP counts, one function per rule; the op table refers to them.
#pragma once
#include <string>
#include <vector>

#include "freight/base/dtypes.h"
#include "freight/ir/graph.h"

namespace freight {

namespace infer {
using Types = std::vector<Type>;
using Rule = Types(const Node&, const Types& in);
Rule leaf, constant, iota, random, any, same, floating, single_or_double, whole, logical, predicate, equality, cast,
    where;
Rule reshape, transpose, broadcast, slice, pad, concat, reduce, arg_reduce, argsort;
Rule matmul, conv, conv_grad_input, conv_grad_weight, max_pool, max_pool_grad, avg_pool, avg_pool_grad;
Rule lu_factor, cholesky, qr, solve_triangular, eigh, svd, eig, lstsq, solve;
Rule gather, scatter_add, gather_elements, scatter_elements_add, scatter, scatter_elements, check_index, along_axis,
    cross_entropy, batch_norm;
Rule moments, batch_norm_inference, layer_norm, group_norm, dropout, embedding, one_hot, adaptive_avg_pool;
Rule attention, attention_grad, recurrent, recurrent_grad, recurrent_layer, recurrent_layer_grad;
Rule sgd_rows, sgd_update, adam_update, fused;
}  // namespace infer

// The result types of a node by its row's rule. Throws Error(usage) where the rule does not take the element type of
// the first operand, or an op that computes would meet complex numbers: then no backend meets one.
std::vector<Type> infer_types(const Node& node, const std::vector<Type>& in);
// The element types in which ops of this rule compute: those of their operands, but for indices, conditions and keys,
// which a rule checks itself. Signatures, documents and bindings read them (Parameter::dtypes in ops/signature.h).
DTypes element_types(InferFn rule);
// "does not compute in i32: expected f32, f64, got i32[3]; cast it first".
std::string refusal(const Type& got, DTypes expected);

namespace flops {
using Types = std::vector<Type>;
using Rule = double(const Node&, const Types& in, const Types& out);
// FLOPs per element of exponentials, other functions and random numbers, about.
inline constexpr double kHeavy = 20;
template <int N>
double per_element(const Node&, const Types&, const Types& out) {
  return static_cast<double>(N) * static_cast<double>(out[0].numel());
}
Rule zero, heavy, per_input, matmul, conv, conv_grad_input, conv_grad_weight, pool, decomposed, attention_grad;
Rule lu_factor, cholesky, qr, solve_triangular, eigh, svd, eig;
Rule recurrent, recurrent_layer, fused;
}  // namespace flops

// Extent of a convolution's or pool's result along one spatial axis; below 1 where the window does not fit.
int64_t window_output(int64_t size, int64_t kernel, int64_t stride, int64_t low, int64_t high, int64_t dilation);

}  // namespace freight
