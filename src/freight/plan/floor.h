// The floor of a step: the time that the work takes which every plan of the step must do, at the rates that the machine
// reaches. A plan that takes longer spends the rest on further passes over memory, on small kernels, or on kernels that
// are slower than a large product. Algorithms with fewer multiplications (Winograd) can be below it.
#pragma once
#include "freight/base/dtype.h"

namespace freight {
struct Graph;
}

namespace freight::plan {

struct Floor {
  // Multiply-adds, counted as two, of matrix products and convolutions, and of the gradients that training needs: the
  // first layer computes none for its input.
  double flops = 0;
  // Bytes that are moved at least once: updated states (parameters, optimizer states) are read and written, others and
  // the inputs are read, and the result of each product and its gradient are written and read.
  double bytes = 0;
  double seconds(double flops_per_s, double bytes_per_s) const { return flops / flops_per_s + bytes / bytes_per_s; }
};

// The floor of a step by its graph as traced (Plan::source()): the products on which the first output, the loss,
// depends. Depends on the network, the batch and the dtype, but not on the plan. `compute`: the dtype of f32
// activations, which mixed precision makes 16-bit.
Floor floor_of(const Graph& source, DType compute);

}  // namespace freight::plan
