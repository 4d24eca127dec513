// One op as a prepared kernel: (op, attributes, operand types, device) -> what runs it, from a cache, without a graph
// being traced, built or hashed. It gives the bits that an eager trace of this one node gives, for its kernel is made
// from the same plan. For callers that evaluate op by op: trace/evaluate.cpp, and bindings of array libraries.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "freight/base/array.h"
#include "freight/ir/op.h"
#include "freight/run/executable.h"

namespace freight {

class PreparedOp {
 public:
  // Throws what type inference, the passes and the device throw. Leaves have nothing to run: Error(usage).
  PreparedOp(Op op, const Attrs& attrs, std::span<const Type> operands, const std::string& device);

  const std::vector<Type>& results() const { return results_; }
  // One array per operand and per result, of the right types, dense row-major. Results are written in place. Any number
  // of threads may call it; calls of one PreparedOp follow each other.
  void run(const std::vector<Array>& operands, const std::vector<Array>& results) const;
  // Memory held between calls, for intermediate values.
  size_t held_bytes() const;

 private:
  std::vector<Type> results_;
  std::unique_ptr<Executable> executable_;
};

// The options for an eager node on a device, alone or with others. Reads in between decide how eager work is cut into
// plans, which must not change any bit of the results.
RunOptions eager_options(const std::string& device);

// From the cache, or made now; a failure leaves nothing in it. Any number of threads may ask. The cache keeps the most
// recently used kPreparedOps of them, and fewer where they hold more than kPreparedBytes together.
std::shared_ptr<const PreparedOp> prepare(Op op, const Attrs& attrs, std::span<const Type> operands,
                                          const std::string& device);
inline constexpr size_t kPreparedOps = 1024;
inline constexpr size_t kPreparedBytes = size_t{256} << 20;

struct PreparedOpStats {
  int64_t hits = 0, misses = 0, evictions = 0;
  size_t size = 0, held_bytes = 0;
};
PreparedOpStats prepared_op_stats();
void clear_prepared_ops();

}  // namespace freight
