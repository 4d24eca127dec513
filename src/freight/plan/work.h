// Work: what the steps of a plan do, as far as their time depends on it. N, C, O, H and W are as in convolutions.
#pragma once
#include <string>
#include <vector>

#include "freight/base/device_memory.h"
#include "freight/base/dtype.h"
#include "freight/ir/by_id.h"

namespace freight {
class Plan;
struct Graph;
}  // namespace freight

namespace freight::plan {

// The kind of copies to host memory and back.
inline constexpr const char* kTransfer = "transfer";

// One step of a plan. Factorizations of matrices are products, too: m, n and k are the rows of all matrices of a batch,
// the columns, and the steps of elimination; for triangular solves those of the product by the inverse. Their FLOPs are
// those of the op table, fewer than 2 m n k. Convolutions are the product (m, k) x (k, n) with m = N OH OW, n = O, k =
// C KH KW. Recurrent layers are the product of each time step: m = N, n = gates x hidden, k = hidden.
struct Work {
  std::string
      kind;  // "matmul", "conv3x3.dw", "map", "update", "reduce", "pool", "copy", "concat", kTransfer, "index", ...
  std::string path;  // the path of its module; "" outside of all
  DType dtype = DType::f32;
  double flops = 0, bytes = 0;
  // Of products; for other steps n is the number of consecutive elements that such a kernel works along.
  double m = 0, n = 0, k = 0;
  double share = 1;       // fraction of the rate of a matmul that factorizations reach
  bool whole = true;      // the channels of a convolution, in and out, fill vectors; others may have other kernels
  double launches = 1;    // consecutive kernels on a GPU; for recurrent layers one per time step
  bool backward = false;  // backward pass or update: runs after the loss is known
  double gradients = 0;   // bytes of weight gradients that it completes, as f32
  // The bytes that the plan moves between the last use of the memory that the step reads and writes and the step
  // itself, as a geometric mean over its bytes: if they are few, the memory is in a cache. What a replay uses first was
  // last used in the replay before.
  double distance = 0;
  // For devices with several queues: the step's own queue, and the steps of other queues that it waits for
  // (PlanStep::after).
  Queue queue = Queue::kernels;
  std::vector<int32_t> after = {};
  bool product() const { return m > 0; }
};

// The work of all steps, in order.
std::vector<Work> work_of(const Plan& plan);
// For each node: whether the first output of the graph, the loss, depends on it.
ByNode<bool> forward_nodes(const Graph& graph);
// For each value: whether it is a weight's gradient, which is read by a step that writes a state of its size.
ByValue<bool> weight_gradients(const Plan& plan);

}  // namespace freight::plan
