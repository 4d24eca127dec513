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

 private:
  std::vector<Value> cotangents_;
  std::vector<bool> needed_;
  std::vector<Value> gradients_;
};

// Rules of ops whose gradient is more than an expression; in the order of the op table.
namespace vjp {
void cast(VjpContext&);
void maximum(VjpContext&);
void minimum(VjpContext&);
void where(VjpContext&);
void reshape(VjpContext&);
void transpose(VjpContext&);
void broadcast(VjpContext&);
void slice(VjpContext&);
void copy(VjpContext&);
void pad(VjpContext&);
void concat(VjpContext&);
void sum(VjpContext&);
void reduce_extremum(VjpContext&);
void matmul(VjpContext&);
void conv(VjpContext&);
void conv_grad_input(VjpContext&);
void conv_grad_weight(VjpContext&);
void max_pool(VjpContext&);
void max_pool_grad(VjpContext&);
void avg_pool(VjpContext&);
void avg_pool_grad(VjpContext&);
void gather(VjpContext&);
void scatter_add(VjpContext&);
void gather_elements(VjpContext&);
void scatter_elements_add(VjpContext&);
// Composites with a rule better than that of their decomposition. A composite without one (vjp == decomposed)
// is differentiated through its decomposition.
void decomposed(VjpContext&);
void softmax(VjpContext&);
void log_softmax(VjpContext&);
void cross_entropy(VjpContext&);
void batch_norm(VjpContext&);
void layer_norm(VjpContext&);
}  // namespace vjp

// Plain definitions of the composites.
namespace composite {
std::vector<Value> softmax(Builder&, const Node&, const std::vector<Value>&);
std::vector<Value> log_softmax(Builder&, const Node&, const std::vector<Value>&);
std::vector<Value> cross_entropy(Builder&, const Node&, const std::vector<Value>&);
std::vector<Value> batch_norm(Builder&, const Node&, const std::vector<Value>&);
std::vector<Value> batch_norm_inference(Builder&, const Node&, const std::vector<Value>&);
std::vector<Value> layer_norm(Builder&, const Node&, const std::vector<Value>&);
std::vector<Value> group_norm(Builder&, const Node&, const std::vector<Value>&);
std::vector<Value> gelu(Builder&, const Node&, const std::vector<Value>&);
std::vector<Value> silu(Builder&, const Node&, const std::vector<Value>&);
std::vector<Value> dropout(Builder&, const Node&, const std::vector<Value>&);
std::vector<Value> embedding(Builder&, const Node&, const std::vector<Value>&);
std::vector<Value> one_hot(Builder&, const Node&, const std::vector<Value>&);
std::vector<Value> adaptive_avg_pool(Builder&, const Node&, const std::vector<Value>&);
std::vector<Value> sgd_update(Builder&, const Node&, const std::vector<Value>&);
std::vector<Value> adam_update(Builder&, const Node&, const std::vector<Value>&);
}  // namespace composite

}  // namespace freight
