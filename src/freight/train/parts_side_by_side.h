// The parts of a rank, computed side by side: statistics over the whole batch (BatchNorm with --sync-batch-norm) are
// sums over all parts in the middle of their plans, so that none can end before all have come that far. Each has an
// arena of its own, and a block of its own for its gradients (job/host_sum.h).
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

class PartsSideBySide {
 public:
  // The plan of a part of these types; what it reads and updates, in the order of its leaves, as arrays that share the
  // variables' memory.
  struct Source {
    std::function<std::shared_ptr<const Plan>(const Type& x, const Type& y)> plan;
    std::function<std::vector<Array>(const Array& x, const Array& y)> states;
  };
  explicit PartsSideBySide(Source source) : source_(std::move(source)) {}

  // Takes a copy of this rank's next part, which may be empty, and what it draws from.
  void add(const Array& x, const Array& y, const RandomState& random);
  size_t count() const { return parts_.size(); }
  void clear() { parts_.clear(); }

  // Runs all that were added, and gives their gradients to `sum`. States in its block go to the parts' own blocks; the
  // state at `random_state` is the program's, in whose place each part has its own.
  void run(job::HostSum& sum, const void* random_state);
  // The next are asked after run(). An empty part has nothing but its rows.
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
    std::vector<Array> own;  // states in the part's block
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
