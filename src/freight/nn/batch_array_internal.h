// BatchArray: the rule behind an array or number that a forward makes from the size of its batch, as nodes for batches
// of any size: a row of constants for each sample (broadcast_to, tile, repeat), counts (arange), values that are the
// same up to, at and behind a place or the diagonal (eye, tril), and 1 / N. A traced forward has such arrays for one
// size of the batch; graph_module.cpp, which alone uses this, has traces for several.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "freight/ir/graph.h"

namespace freight::nn {

// The sizes of the batch that a forward is traced for. The first two are primes, so that a size of the network is
// unlikely to equal one. The last one is even: what a forward does for odd numbers alone is seen.
inline constexpr std::array<int64_t, 3> kBatches{1009, 1013, 1018};

// A line: slope N + more.
struct BatchSize {
  int64_t slope = 0, more = 0;
  int64_t at(int64_t batch) const { return slope * batch + more; }
  // The line through three numbers, one for each of kBatches; empty where they lie on none.
  static std::optional<BatchSize> of(const std::array<int64_t, 3>& seen);
};

// The three arrays that a forward has for kBatches.
using SeenArrays = std::array<Array, 3>;

class BatchArray {
 public:
  // Empty where no rule is known that gives all three: integers exactly, other numbers to their last digits.
  static std::optional<BatchArray> of(const SeenArrays& seen);

  // A function of N: fixed + factor f(N), for each of some numbers.
  enum class Function : uint8_t { none, size, square, root, inverse, inverse_less, inverse_more, inverse_root };
  struct Coefficients {
    std::vector<double> fixed, factor;
    Function function = Function::none;
  };

  // The samples repeat this array, whose extents along the batch are 1; it is undefined for other rules.
  const Array& repeated() const { return repeated_; }
  // Nodes of the array for a batch of this size. `repeated`: the value of repeated(), where the graph has it.
  Value add_to(Graph& graph, int64_t batch, Value repeated = {}) const;

 private:
  friend class BatchArrayRules;
  // base + sum of step[i] * (place along runs[i])
  struct Line {
    Coefficients base;
    std::vector<Coefficients> steps;
  };
  // values[i] where z < ends[i], else the last one. z: the place along one axis, counted from its end where `from_end`,
  // or its distance behind that along another one.
  struct Pieces {
    size_t run = 0;
    std::optional<size_t> behind;
    bool from_end = false;
    std::vector<int64_t> ends;
    std::vector<std::vector<double>> values;
  };
  Value line(class BatchNodes& nodes) const;
  Value pieces(class BatchNodes& nodes) const;

  DType dtype_ = DType::f32;
  std::vector<BatchSize> shape_;  // of the result
  std::vector<BatchSize> view_;   // the same elements, of which each axis is along the batch, or not
  std::vector<size_t> runs_;      // the axes of the view that are along the batch
  Shape fixed_;                   // the view's extents, and 1 along the batch: the shape of coefficients
  Line line_;
  std::optional<Pieces> pieces_;  // in place of the line
  Array repeated_;
};

}  // namespace freight::nn
