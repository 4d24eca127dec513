// Runs the parts of a rank in turns, each up to its next sum. Statistics over the whole batch (BatchNorm with
// --sync-batch-norm) are sums over all parts within their plans, so no part can end before all have reached such a sum.
// Each part has its own arena, and its own block for gradients (job/host_sum.h).
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "freight/base/array.h"
#include "freight/ir/type.h"
#include "freight/job/host_sum.h"
#include "freight/run/executable.h"

namespace freight::train {

class InterleavedParts {
 public:
  // Returns the plan of a part with these types, and its states in the order of its leaves, as arrays that share memory
  // with the variables.
  struct Source {
    std::function<std::shared_ptr<const Plan>(const Type& x, const Type& y)> plan;
    std::function<std::vector<Array>(const Array& x, const Array& y)> states;
  };
  explicit InterleavedParts(Source source) : source_(std::move(source)) {}

  // Adds a copy of this rank's next part, which may be empty, with its random state.
  void add(const Array& x, const Array& y, const RandomState& random);
  size_t count() const { return parts_.size(); }
  void clear() { parts_.clear(); }

  // Runs all added parts and passes their gradients to `sum`. States in the block of `sum` are replaced by the parts'
  // own blocks, and the random state at `random_state` by each part's own.
  void run(job::HostSum& sum, const void* random_state);
  // These are valid after run(). An empty part only has rows().
  int64_t rows(size_t part) const { return parts_[part].x.shape()[0]; }
  double loss(size_t part) const { return static_cast<double>(slots_[part]->results[0].data<float>()[0]); }
  double right(size_t part) const { return static_cast<double>(slots_[part]->results[1].data<float>()[0]); }

 private:
  struct Part {
    Array x, y;
    RandomState random;
  };
  // A plan with its own memory.
  struct Bound {
    std::unique_ptr<Executable> executable;
    std::vector<Array> own;  // the states in the part's block
  };
  struct PartBuffers {
    Array block;
    std::shared_ptr<SharedArena> arena = make_shared_arena();
    std::map<std::string, Bound> bound = {};  // by the part's types
    std::vector<Array> results = {};
  };
  Bound& bind(size_t part, const Array& block, const void* random_state);

  Source source_;
  std::vector<Part> parts_;
  std::vector<std::unique_ptr<PartBuffers>> slots_;
};

}  // namespace freight::train
