// Optimizers: the update of all parameters as part of the traced step. The learning rate is a variable that the host
// sets between steps; moments and the step count are states that are updated in place. Formulas: ir/composites.cpp.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "freight/nn/module.h"
#include "freight/trace/tensor.h"
#include "freight/trace/variable.h"

namespace freight {
struct AdamAttrs;
}

namespace freight::optim {

// Settings that all optimizers share.
struct CommonOptions {
  double clip_grad_norm = 0;    // scale the gradients down to this global norm; 0: off
  bool decay_norm_bias = true;  // false: no weight decay for parameters of rank below 2 (norm scales, biases)
};

// An optimizer of some variables; see the top of this file.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Gradients of the scalar loss, clipped where asked, and the update of every parameter that is not frozen by now
  // (Variable::set_trainable). Throws Error(usage) naming a parameter that the loss does not depend on.
  void step(const In& loss);
  // The same with gradients that the caller made, one per parameter; those of frozen ones are not looked at.
  void apply(const std::vector<Tensor>& gradients);

  // Host side, between steps. Throws Error(usage) unless lr is finite and not negative.
  void set_lr(double lr);
  double lr() const;  // the present learning rate
  // The f32[] that the step reads.
  const Variable& lr_variable() const { return lr_; }
  const std::vector<Variable>& parameters() const { return parameters_; }  // each once
  // Moments and step counts by name ("momentum.fc1.weight", "step"): what a checkpoint must keep.
  std::vector<nn::NamedVariable> state_dict() const { return states_; }
  // Inside a step, after step() with clipping on: the norm of the gradients before clipping, f32[]. Throws Error(usage)
  // without clipping, and before the first step.
  const Tensor& grad_norm() const;

 protected:
  // Throws Error(usage) without parameters, and for rates that are not finite.
  Optimizer(const std::vector<Variable>& parameters, double lr, const CommonOptions& common);
  // Called once per apply, before the updates.
  virtual void begin() {}
  // Assigns the new value of parameter `index`; `decay` says whether weight decay acts on it.
  virtual void update(size_t index, const Variable& parameter, const Tensor& gradient, bool decay) = 0;
  // One zero-filled state per parameter, named KIND.PARAMETER; the second form for those from `begin` to before `end`.
  std::vector<Variable> per_parameter(const std::string& kind);
  std::vector<Variable> per_parameter(const std::string& kind, size_t begin, size_t end);
  // A state f32[], 0 at first.
  Variable scalar_state(const std::string& name);
  // The same without repetitions: a variable is updated once, however often it is listed.
  static std::vector<Variable> each_once(const std::vector<Variable>& variables);

 private:
  // By parameter: whether it is to be left alone. A compiled step is valid while the answer holds.
  std::vector<bool> frozen() const;
  // Moves states to where their parameters lie by now.
  void follow_parameters() const;
  std::vector<Variable> parameters_;  // each once
  std::vector<nn::NamedVariable> states_;
  std::vector<std::pair<Variable, Variable>> beside_;  // (state, its parameter)
  Variable lr_;
  CommonOptions common_;
  Tensor grad_norm_;
};

struct SGDOptions {
  double lr = 0.01;             // learning rate
  double momentum = 0;          // share of the old momentum in the new one; 0: off
  double dampening = 0;         // share of the gradient that the momentum leaves out
  double weight_decay = 0;      // 0: off
  bool nesterov = false;        // needs momentum and no dampening
  double clip_grad_norm = 0;    // see CommonOptions
  bool decay_norm_bias = true;  // see CommonOptions
};
// PyTorch's SGD; with dampening the first step is damped too (PyTorch's is not).
class SGD : public Optimizer {
 public:
  SGD(const std::vector<Variable>& parameters, const SGDOptions& options);

 private:
  void update(size_t index, const Variable& parameter, const Tensor& gradient, bool decay) override;
  SGDOptions options_;
  std::vector<Variable> momentum_;
};

struct AdamOptions {
  double lr = 1e-3;                   // learning rate
  double beta1 = 0.9, beta2 = 0.999;  // shares of the old moments
  double eps = 1e-8;                  // added to the root of v
  double weight_decay = 0;            // 0: off
  double clip_grad_norm = 0;          // see CommonOptions
  bool decay_norm_bias = true;        // see CommonOptions
};
// Kingma and Ba 2015; weight decay is added to the gradient.
class Adam : public Optimizer {
 public:
  Adam(const std::vector<Variable>& parameters, const AdamOptions& options) : Adam(parameters, options, false) {}

 protected:
  Adam(const std::vector<Variable>& parameters, const AdamOptions& options, bool decoupled);

 private:
  void begin() override;
  void update(size_t index, const Variable& parameter, const Tensor& gradient, bool decay) override;
  AdamOptions options_;
  bool decoupled_;
  Variable step_;
  std::vector<Variable> m_, v_;
};
// Loshchilov and Hutter 2019: the decay acts on the weights.
class AdamW : public Adam {
 public:
  AdamW(const std::vector<Variable>& parameters, const AdamOptions& options) : Adam(parameters, options, true) {}
};

struct LionOptions {
  double lr = 1e-4;                  // learning rate
  double beta1 = 0.9, beta2 = 0.99;  // shares of the old moment in the direction and in the new one
  double weight_decay = 0;           // decoupled
  double clip_grad_norm = 0;         // see CommonOptions
  bool decay_norm_bias = true;       // see CommonOptions
};
// Chen et al. 2023, "Symbolic discovery of optimization algorithms": steps of one size, the sign of
// beta1 m + (1 - beta1) g. Rates are a third to a tenth of AdamW's, decays as much larger.
class Lion : public Optimizer {
 public:
  Lion(const std::vector<Variable>& parameters, const LionOptions& options);

 private:
  void update(size_t index, const Variable& parameter, const Tensor& gradient, bool decay) override;
  LionOptions options_;
  std::vector<Variable> m_;
};

// Inside a step: one Adam update of p and its moments m and v at rate lr (f32[]) and count `step` (f32[], from 1).
void adam_step(const Variable& p, const Tensor& gradient, const Tensor& lr, const Tensor& step, const Variable& m,
               const Variable& v, const AdamAttrs& attrs);

// The global 2-norm of all gradients, f32[]. Sums in f32.
Tensor global_norm(const std::vector<Tensor>& gradients);
// gradients * min(1, max_norm / (norm + 1e-6)), PyTorch's clip_grad_norm_.
std::vector<Tensor> clip_grad_norm(const std::vector<Tensor>& gradients, double max_norm, Tensor* norm = nullptr);

}  // namespace freight::optim
