// Choice between implementations of one step by measurement at plan time (backend/choices.h), for a CPU model, library
// version and thread count.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "freight/backend/backend.h"

namespace freight::cpu {

struct Candidate {
  std::string name;
  std::function<std::unique_ptr<Kernel>()> make;
  bool guess = false;  // Choices::Candidate::guess
};

// Which candidate is fastest, measured on zeros of `specs` (the same step in the layouts of each) or remembered under
// `step`; the first one where nothing may be measured. `cold`: of ZeroOperands.
size_t fastest(const std::string& step, const std::vector<Candidate>& candidates, const std::vector<StepSpec>& specs,
               int cold = -1);

// The fastest candidate for the step. They must compute the same from the same layouts.
std::unique_ptr<Kernel> choose(const StepSpec& spec, const std::vector<Candidate>& candidates);

}  // namespace freight::cpu
