// Parameters that the loss of a run does not use. While the list lives they are frozen: weight decay and momentum would
// change them, and PyTorch's optimizers leave alone what has no gradient.
#pragma once
#include <string>
#include <vector>

#include "freight/trace/variable.h"

namespace freight::optim {

// The list; see the top of this file.
class UnusedParameters {
 public:
  UnusedParameters() = default;
  ~UnusedParameters();  // trains them again
  UnusedParameters(const UnusedParameters&) = delete;
  UnusedParameters& operator=(const UnusedParameters&) = delete;
  // Freezes one that is trained; a step that is being traced depends on it, and is traced anew.
  void add(const Variable& parameter);
  bool empty() const { return all_.empty(); }  // true where the loss uses all
  std::string names() const;                   // "b.weight, b.bias"

 private:
  std::vector<Variable> all_;
};

}  // namespace freight::optim
