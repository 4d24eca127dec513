// Work: what the steps of a plan do, as far as their time depends on it. N, C, O, H, W as in convolutions.
#pragma once
#include <string>
#include <vector>

#include "freight/base/device_memory.h"
#include "freight/base/dtype.h"
#include "freight/ir/by_id.h"

namespace freight {
class Plan;
}

namespace freight::plan {

// The kind of copies to host memory and back.
inline constexpr const char* kTransfer = "transfer";

// One step of a plan. Products are also factorizations of matrices: m, n and k are then the rows of all matrices of a
// batch, the columns, and the steps of elimination; of triangular solves those of the product by the inverse. Their
// FLOPs are as the op table says, fewer than 2 m n k. Convolutions count as the product (m, k) x (k, n) that they are:
// m = N OH OW, n = O, k = C KH KW. Recurrent layers count as the product of each time step: m = N, n = gates x hidden,
// k = hidden.
struct Work {
  std::string
      kind;  // "matmul", "conv3x3.dw", "map", "update", "reduce", "pool", "copy", "concat", kTransfer, "index", ...
  std::string path;  // of the module; "" outside of all
  DType dtype = DType::f32;
  double flops = 0, bytes = 0;
  double m = 0, n = 0, k = 0;  // of products; elsewhere n is the run of elements that a kernel of the kind works along
  double share = 1;            // of the rate of a product of matrices that factorizations reach
  bool whole = true;           // the channels of a convolution, in and out, fill vectors: it may have other kernels
  double launches = 1;         // kernels of a GPU, one behind the other; recurrent layers: one per time step
  bool backward = false;       // or update: runs after the loss is known
  double gradients = 0;        // bytes of gradients of weights that it finishes, as f32
  // Bytes that the plan moves between the last use of the memory that the step reads and writes and the step itself,
  // the mean over its bytes in logarithms: few, and the memory is found in a cache. What a replay uses first was last
  // used in the replay before.
  double distance = 0;
  // Where a device has several queues: its own, and the steps of others that it waits for (PlanStep::after).
  Queue queue = Queue::kernels;
  std::vector<int32_t> after = {};
  bool product() const { return m > 0; }
};

// All steps in order.
std::vector<Work> work_of(const Plan& plan);
// Says of each node whether the first output of the plan's graph, the loss, depends on it.
ByNode<bool> forward_nodes(const Plan& plan);
// Says of each value whether it is a weight's gradient: a step that writes a state of its size reads it.
ByValue<bool> weight_gradients(const Plan& plan);

}  // namespace freight::plan
