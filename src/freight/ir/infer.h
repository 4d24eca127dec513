// Shape and element type inference and FLOP counts, one function per rule; the op table refers to them.
#pragma once
#include <vector>

#include "freight/ir/graph.h"

namespace freight {

namespace infer {
using Types = std::vector<Type>;
Types leaf(const Node&, const Types&);
Types constant(const Node&, const Types&);
Types iota(const Node&, const Types&);
Types random(const Node&, const Types&);
Types any(const Node&, const Types&);
Types same(const Node&, const Types&);
Types floating(const Node&, const Types&);
Types logical(const Node&, const Types&);
Types predicate(const Node&, const Types&);
Types cast(const Node&, const Types&);
Types where(const Node&, const Types&);
Types reshape(const Node&, const Types&);
Types transpose(const Node&, const Types&);
Types broadcast(const Node&, const Types&);
Types slice(const Node&, const Types&);
Types pad(const Node&, const Types&);
Types concat(const Node&, const Types&);
Types reduce(const Node&, const Types&);
Types arg_reduce(const Node&, const Types&);
Types matmul(const Node&, const Types&);
Types conv(const Node&, const Types&);
Types conv_grad_input(const Node&, const Types&);
Types conv_grad_weight(const Node&, const Types&);
Types max_pool(const Node&, const Types&);
Types max_pool_grad(const Node&, const Types&);
Types avg_pool(const Node&, const Types&);
Types avg_pool_grad(const Node&, const Types&);
Types gather(const Node&, const Types&);
Types scatter_add(const Node&, const Types&);
Types gather_elements(const Node&, const Types&);
Types scatter_elements_add(const Node&, const Types&);
Types along_axis(const Node&, const Types&);
Types cross_entropy(const Node&, const Types&);
Types batch_norm(const Node&, const Types&);
Types batch_norm_inference(const Node&, const Types&);
Types layer_norm(const Node&, const Types&);
Types group_norm(const Node&, const Types&);
Types dropout(const Node&, const Types&);
Types embedding(const Node&, const Types&);
Types one_hot(const Node&, const Types&);
Types adaptive_avg_pool(const Node&, const Types&);
Types sgd_update(const Node&, const Types&);
Types adam_update(const Node&, const Types&);
Types fused(const Node&, const Types&);
}  // namespace infer

namespace flops {
using Types = std::vector<Type>;
double zero(const Node&, const Types&, const Types&);
template <int N>
double per_element(const Node&, const Types&, const Types& out) {
  return static_cast<double>(N) * static_cast<double>(out[0].numel());
}
double random(const Node&, const Types&, const Types&);
double per_input(const Node&, const Types&, const Types&);
double matmul(const Node&, const Types&, const Types&);
double conv(const Node&, const Types&, const Types&);
double conv_grad_input(const Node&, const Types&, const Types&);
double conv_grad_weight(const Node&, const Types&, const Types&);
double pool(const Node&, const Types&, const Types&);
double decomposed(const Node&, const Types&, const Types&);
double fused(const Node&, const Types&, const Types&);
}  // namespace flops

// Extent of a convolution's or pool's result along one spatial axis; below 1 where the window does not fit.
int64_t window_output(int64_t size, int64_t kernel, int64_t stride, int64_t low, int64_t high, int64_t dilation);

}  // namespace freight
