// Dynamic loss scaling (Micikevicius et al. 2018): the loss is multiplied by a factor before the gradients are taken,
// so that they stay inside the range of f16. Factor and counter are states of the step, updated in place.
#pragma once
#include <vector>

#include "freight/nn/module.h"
#include "freight/trace/tensor.h"
#include "freight/trace/variable.h"

namespace freight::optim {

// Settings of LossScale.
struct LossScaleOptions {
  double initial = 65536;          // the first factor
  int64_t growth_interval = 2000;  // steps in a row with finite gradients after which the factor doubles
};

// The factor and its rule; see the top of this file.
class LossScale {
 public:
  // Throws Error(usage) unless both are positive.
  explicit LossScale(const LossScaleOptions& options);

  // Inside a step: gradients of the loss, scaled on the way and in f32 without the factor in the end.
  std::vector<Tensor> gradients(const Tensor& loss, const std::vector<Variable>& parameters,
                                const GradOptions& options = {}) const;
  // True where all gradients are finite, bool[]: where not, the step must change nothing else (assign_only_if).
  static Tensor all_finite(const std::vector<Tensor>& gradients);
  // Halves the factor after a step that was not sound, doubles it after enough that were.
  void update(const Tensor& sound) const;
  Tensor value() const { return factor_.value(); }  // the factor, f32[]

  // Both states by name, for checkpoints.
  std::vector<nn::NamedVariable> state_dict() const { return {{"factor", factor_}, {"good_steps", good_}}; }
  // The factor of the first step.
  double initial() const { return options_.initial; }
  // The factor, read on the host.
  double factor() const;
  int64_t good_steps() const;  // since the factor changed

 private:
  LossScaleOptions options_;
  Variable factor_, good_;
};

}  // namespace freight::optim
