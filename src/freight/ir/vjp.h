// What a gradient rule sees: the node, its inputs and results, the cotangents of the results; it adds cotangents of
// inputs. Rules build ordinary nodes, so gradients can be differentiated again. The reverse walk is in passes/grad.cpp.
#pragma once
#include <vector>

#include "freight/ir/builder.h"

namespace freight {

class VjpContext {
 public:
  VjpContext(Builder& b, const Node& source, std::vector<Value> cotangents, std::vector<bool> input_needed)
      : builder(b),
        node(source),
        cotangents_(std::move(cotangents)),
        needed_(std::move(input_needed)),
        gradients_(node.inputs.size()) {}

  Builder& builder;
  const Node node;  // a copy: the graph grows while rules run

  Ex in(int i) const { return {&builder, node.in(i)}; }
  Ex out(int i = 0) const { return {&builder, node.out(i)}; }
  // Whether any cotangent reached result i.
  bool has_g(int i = 0) const { return cotangents_[static_cast<size_t>(i)].valid(); }
  // The cotangent of result i; zeros where none arrived.
  Ex g(int i = 0) const;
  // Whether input i leads to a tensor whose gradient is wanted.
  bool needs(int i) const { return needed_[static_cast<size_t>(i)]; }
  void set(int i, Value gradient) { gradients_[static_cast<size_t>(i)] = gradient; }
  void set(int i, Ex gradient) { set(i, gradient.v); }
  const std::vector<Value>& gradients() const { return gradients_; }
  // Set by a rule that leaves the node to its definition: passes/grad expands it and walks on.
  bool through_definition = false;

 private:
  std::vector<Value> cotangents_;
  std::vector<bool> needed_;
  std::vector<Value> gradients_;
};

// Rules of ops whose gradient is more than an expression; in the order of the op table.
namespace vjp {
using Rule = void(VjpContext&);
Rule cast, maximum, minimum, where, reshape, transpose, broadcast, slice, copy, all_reduce, pad, concat, sum,
    reduce_extremum;
Rule matmul, conv, conv_grad_input, conv_grad_weight, max_pool, max_pool_grad, avg_pool, avg_pool_grad;
Rule lu_factor, cholesky, qr, solve_triangular, eigh, svd, eig, lstsq, solve;
Rule gather, scatter_add, gather_elements, scatter_elements_add, scatter, scatter_elements;
// Composites with a rule better than that of their definition; `decomposed` is that of all others.
Rule decomposed, softmax, log_softmax, cross_entropy, batch_norm, layer_norm, gelu, silu, attention;
Rule recurrent, recurrent_layer;
}  // namespace vjp

// Plain definitions of the composites.
namespace composite {
using Definition = std::vector<Value>(Builder&, const Node&, const std::vector<Value>&);
Definition softmax, log_softmax, cross_entropy, moments, batch_norm, batch_norm_inference, layer_norm, group_norm, gelu,
    silu, lstsq, solve;
Definition dropout, embedding, one_hot, adaptive_avg_pool, attention, attention_grad;
Definition recurrent, recurrent_grad, recurrent_layer, recurrent_layer_grad;
Definition sgd_rows, sgd_update, adam_update;
Ex gelu_factor(Ex x, const GeluAttrs& attributes);  // gelu(x) / x
}  // namespace composite

// The gradients of a composite's operands, by differentiating its definition; those that depend on none of the
// cotangents (invalid: none arrived) are invalid. In passes/grad.cpp.
std::vector<Value> through_definition(Builder& b, const Node& node, const std::vector<Value>& cotangents);

}  // namespace freight
