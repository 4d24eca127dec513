// Optimizers: the update of all parameters as part of the traced step. Learning rates are variables that the host sets
// between steps; moments and the step count are states that are updated in place. Formulas: ir/composites.cpp. Groups
// of parameters with settings of their own: groups.h.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "freight/nn/module.h"
#include "freight/optim/groups.h"
#include "freight/trace/tensor.h"
#include "freight/trace/variable.h"

namespace freight {
struct AdamAttrs;
}

namespace freight::optim {

// Settings that all optimizers share.
struct CommonOptions {
  double lr = 0;                // learning rate
  double weight_decay = 0;      // of the parameters' group
  double clip_grad_norm = 0;    // scale the gradients of all groups down to this global norm; 0: off
  bool decay_norm_bias = true;  // false: no weight decay for parameters of rank below 2 (norm scales, biases)
  bool maximize = false;        // steps along the gradients, not against them
};

// An optimizer of some variables; see the top of this file.
class Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Gradients of the scalar loss, clipped where asked, and the update of every parameter that is not frozen by now
  // (Variable::set_trainable, set_frozen). Throws Error(usage) naming a parameter that the loss does not depend on.
  void step(const In& loss);
  // Gradients of parameters, such as grad() of a loss.
  using GradientFunction = std::function<std::vector<Tensor>(const std::vector<Variable>&)>;
  // Gradients by `of`, one per parameter: zeros for those that are frozen by now. Throws Error(usage) where all are.
  std::vector<Tensor> gradients(const GradientFunction& of) const;
  // The same with gradients that the caller made, one per parameter; those of frozen ones are not looked at, and one
  // whose gradient is Tensor() is left alone, as if it were frozen.
  void apply(const std::vector<Tensor>& gradients);

  // Host side, between steps. Throws Error(usage) unless lr is finite and not negative. Groups with a rate of their own
  // keep its ratio to the optimizer's, as under PyTorch's schedulers.
  void set_lr(double lr);
  double lr() const;  // the present learning rate
  // The rate of a group, to be set for those that were made with one of their own; throws Error(usage) that lists the
  // groups for a name that none has.
  void set_lr(const std::string& group, double lr);
  double lr(const std::string& group) const;  // the group's present rate; throws as above
  // Leaves a group alone, or not: its parameters, moments and counts of updates. Compiled steps are traced anew.
  void set_frozen(const std::string& group, bool frozen);
  bool frozen(const std::string& group) const;  // see set_frozen
  // Names of the groups, in their order.
  std::vector<std::string> groups() const;
  // The f32[] that the step reads.
  const Variable& lr_variable() const { return lr_; }
  // The parameters of all groups, in their order.
  const std::vector<Variable>& parameters() const { return parameters_; }
  // Moments and step counts by name ("momentum.fc1.weight", "step"): what a step updates.
  const std::vector<nn::NamedVariable>& states() const { return states_; }
  // Several processes step the same parameters by the same gradients, and each keeps a part of the states (ZeRO stage
  // 1, Rajbhandari et al. 2020): this one those of the parameters at which `own` is true. It updates these alone;
  // whoever has the others hands their new values over. A step that was compiled before keeps to the part of then.
  // Throws Error(usage) unless there is one value per parameter.
  void keep_states_of(const std::vector<bool>& own);
  bool keeps(size_t parameter) const { return own_.empty() || own_[parameter]; }  // this process has its states
  // A state, and the parameter (its index) that it belongs to; nothing for counts, which every process keeps.
  struct State {
    nn::NamedVariable state;          // its name and value
    std::optional<size_t> parameter;  // index in parameters()
  };
  // Those of all parameters, in the order of a checkpoint. What another process keeps has no elements here.
  const std::vector<State>& whole_states() const { return whole_; }
  // Makes the counts of steps in which parameters were frozen one of the states, as a run has it that froze some.
  void keep_skipped() { need_skipped(); }
  // These and the rates ("lr", and "lr_ratio.GROUP" to it): what a run needs to go on with the same bits. Parameters
  // that share a name, as two nets' may, are told apart by #2, #3, ...
  std::vector<nn::NamedVariable> state_dict() const;
  // Takes them back, as nn::values_of gives them or from another optimizer of such parameters. Throws as
  // nn::load_values, and for rates and counts that are not finite or below 0.
  nn::LoadResult load_state_dict(const std::vector<nn::NamedArray>& entries, const nn::LoadOptions& options = {});
  nn::LoadResult load_state_dict(const std::vector<nn::NamedVariable>& entries, const nn::LoadOptions& options = {});
  // Inside a step, after step() with clipping on: the norm of the gradients before clipping, f32[]. Throws Error(usage)
  // where clipping is off, and before the first step.
  const Tensor& grad_norm() const;

 protected:
  // Throws Error(usage) without parameters, and for rates that are not finite.
  Optimizer(const ParameterGroups& groups, const CommonOptions& common);
  // How one parameter is updated: its group's rate, f32[], and the weight decay that acts on it.
  struct Rule {
    Tensor lr;                // of the parameter's group
    double weight_decay = 0;  // of the parameters' group
  };
  // Assigns the new value of parameter `index`.
  virtual void update(size_t index, const Variable& parameter, const Tensor& gradient, const Rule& rule) = 0;
  // One zero-filled state per parameter, named KIND.PARAMETER; the second form for those where `which` is true, with
  // undefined variables for the others.
  std::vector<Variable> per_parameter(const std::string& kind);
  std::vector<Variable> per_parameter(const std::string& kind, const std::vector<bool>& which);
  // The same, of numbers f32[].
  std::vector<Variable> number_per_parameter(const std::string& kind);
  // The name of a parameter's group.
  const std::string& group_of(size_t index) const { return groups_[group_of_[index]].name; }
  // True where the parameter's group has a rate of its own.
  bool has_own_lr(size_t index) const { return groups_[group_of_[index]].lr_ratio.defined(); }
  // A state f32[], 0 at first.
  Variable scalar_state(const std::string& name);
  // To be called in the constructor by optimizers that read step_count.
  void count_steps();
  // In update: how many updates the parameter has had with this one, f32[]. Steps in which it was frozen do not count,
  // so that it begins with the moments' correction of a first step when it is no longer.
  Tensor step_count(size_t index) const;
  // The same without repetitions: a variable is updated once, however often it is listed.
  static std::vector<Variable> each_once(const std::vector<Variable>& variables);

 private:
  struct Group {
    std::string name;
    Variable lr_ratio;             // of its rate to the optimizer's; undefined where it has none of its own
    double weight_decay = 0;       // of the parameters' group
    std::shared_ptr<bool> frozen;  // shared with the guards of traces
  };
  size_t group_index(const char* op, const std::string& name) const;
  void add_group(const ParameterGroup& group);
  // By parameter: whether it is to be left alone. A compiled step is valid while the answer holds.
  std::vector<bool> frozen_now() const;
  // In a step, on the device of the parameter.
  Rule rule_of(size_t index) const;
  // Counts a step for the parameters that are frozen in it.
  void skip(const std::vector<bool>& frozen);
  void need_skipped();
  // Moves states to where their parameters lie by now.
  void follow_parameters() const;

  CommonOptions common_;
  std::vector<Variable> parameters_;  // each once
  std::vector<std::string> names_;    // theirs, without repetitions
  std::vector<size_t> group_of_;
  std::vector<Group> groups_;
  void add_state(const nn::NamedVariable& state, std::optional<size_t> parameter);
  Variable state_of(const std::string& kind, size_t parameter, const Type& type);
  std::vector<nn::NamedVariable> states_;              // kept here
  std::vector<State> whole_;                           // and those that are not
  std::vector<bool> own_;                              // by parameter; empty: all
  std::vector<std::pair<Variable, Variable>> beside_;  // (state, its parameter)
  Variable lr_;
  Variable count_;               // of steps; undefined where nobody asks for it
  Variable skipped_;             // by parameter: steps in which it was frozen; made when the first one is
  std::shared_ptr<bool> skips_;  // whether it is made; shared with the guards of traces
  Tensor grad_norm_;
};

struct SGDOptions {
  double lr = 0.01;             // learning rate
  double momentum = 0;          // share of the old momentum in the new one; 0: off
  double dampening = 0;         // share of the gradient that the momentum leaves out, but in the first step
  double weight_decay = 0;      // 0: off
  bool nesterov = false;        // needs momentum and no dampening
  double clip_grad_norm = 0;    // see CommonOptions
  bool decay_norm_bias = true;  // see CommonOptions
  bool maximize = false;        // see CommonOptions
};
// PyTorch's SGD.
class SGD : public Optimizer {
 public:
  explicit SGD(const ParameterGroups& parameters, const SGDOptions& options = {});
  // Groups in braces.
  explicit SGD(std::initializer_list<ParameterGroup> groups, const SGDOptions& options = {})
      : SGD(ParameterGroups(groups), options) {}

 private:
  void update(size_t index, const Variable& parameter, const Tensor& gradient, const Rule& rule) override;
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
  bool maximize = false;              // see CommonOptions
  bool amsgrad = false;               // Reddi et al. 2018: divides by the root of the largest v so far
};
// Kingma and Ba 2015; weight decay is added to the gradient.
class Adam : public Optimizer {
 public:
  explicit Adam(const ParameterGroups& parameters, const AdamOptions& options = {})
      : Adam(parameters, options, false) {}
  // Groups in braces.
  explicit Adam(std::initializer_list<ParameterGroup> groups, const AdamOptions& options = {})
      : Adam(ParameterGroups(groups), options) {}

 protected:
  Adam(const ParameterGroups& parameters, const AdamOptions& options, bool decoupled);

 private:
  void update(size_t index, const Variable& parameter, const Tensor& gradient, const Rule& rule) override;
  AdamOptions options_;
  bool decoupled_;
  std::vector<Variable> m_, v_, largest_;
};
// Loshchilov and Hutter 2019: the decay acts on the weights.
class AdamW : public Adam {
 public:
  explicit AdamW(const ParameterGroups& parameters, const AdamOptions& options = {})
      : Adam(parameters, options, true) {}
  // Groups in braces.
  explicit AdamW(std::initializer_list<ParameterGroup> groups, const AdamOptions& options = {})
      : AdamW(ParameterGroups(groups), options) {}
};

struct NAdamOptions {
  double lr = 2e-3;                     // learning rate
  double beta1 = 0.9, beta2 = 0.999;    // shares of the old moments
  double eps = 1e-8;                    // added to the root of v
  double momentum_decay = 0.004;        // how fast the share of the momentum grows
  double weight_decay = 0;              // 0: off
  bool decoupled_weight_decay = false;  // the decay acts on the weights, not on the gradient
  double clip_grad_norm = 0;            // see CommonOptions
  bool decay_norm_bias = true;          // see CommonOptions
  bool maximize = false;                // see CommonOptions
};
// Dozat 2016, "Incorporating Nesterov momentum into Adam", as PyTorch has it.
class NAdam : public Optimizer {
 public:
  explicit NAdam(const ParameterGroups& parameters, const NAdamOptions& options = {});
  // Groups in braces.
  explicit NAdam(std::initializer_list<ParameterGroup> groups, const NAdamOptions& options = {})
      : NAdam(ParameterGroups(groups), options) {}

 private:
  void update(size_t index, const Variable& parameter, const Tensor& gradient, const Rule& rule) override;
  NAdamOptions options_;
  std::vector<Variable> m_, v_;
  std::vector<Variable> rest_;  // f32[]: 1 less the product of the momentum's shares so far
};

struct AdagradOptions {
  double lr = 0.01;                      // learning rate
  double lr_decay = 0;                   // the rate of step t is lr / (1 + (t - 1) lr_decay)
  double weight_decay = 0;               // 0: off
  double initial_accumulator_value = 0;  // added to the sum of squares
  double eps = 1e-10;                    // added to the root of the sum of squares
  double clip_grad_norm = 0;             // see CommonOptions
  bool decay_norm_bias = true;           // see CommonOptions
  bool maximize = false;                 // see CommonOptions
};
// Duchi et al. 2011: gradients divided by the root of the sum of their squares; weight decay is added to the gradient.
class Adagrad : public Optimizer {
 public:
  explicit Adagrad(const ParameterGroups& parameters, const AdagradOptions& options = {});
  // Groups in braces.
  explicit Adagrad(std::initializer_list<ParameterGroup> groups, const AdagradOptions& options = {})
      : Adagrad(ParameterGroups(groups), options) {}

 private:
  void update(size_t index, const Variable& parameter, const Tensor& gradient, const Rule& rule) override;
  AdagradOptions options_;
  std::vector<Variable> squares_;
};

struct LionOptions {
  double lr = 1e-4;                  // learning rate
  double beta1 = 0.9, beta2 = 0.99;  // shares of the old moment in the direction and in the new one
  double weight_decay = 0;           // decoupled
  double clip_grad_norm = 0;         // see CommonOptions
  bool decay_norm_bias = true;       // see CommonOptions
  bool maximize = false;             // see CommonOptions
};
// Chen et al. 2023, "Symbolic discovery of optimization algorithms": steps of one size, the sign of
// beta1 m + (1 - beta1) g. Rates are a third to a tenth of AdamW's, decays as much larger.
class Lion : public Optimizer {
 public:
  explicit Lion(const ParameterGroups& parameters, const LionOptions& options = {});
  // Groups in braces.
  explicit Lion(std::initializer_list<ParameterGroup> groups, const LionOptions& options = {})
      : Lion(ParameterGroups(groups), options) {}

 private:
  void update(size_t index, const Variable& parameter, const Tensor& gradient, const Rule& rule) override;
  LionOptions options_;
  std::vector<Variable> m_;
};

struct RMSpropOptions {
  double lr = 0.01;             // learning rate
  double alpha = 0.99;          // share of the old mean square in the new one
  double eps = 1e-8;            // added to the root of the mean square
  double momentum = 0;          // share of the old step in the new one; 0: off
  bool centered = false;        // the root is of the variance: of the mean square less the squared mean
  double weight_decay = 0;      // 0: off
  double clip_grad_norm = 0;    // see CommonOptions
  bool decay_norm_bias = true;  // see CommonOptions
  bool maximize = false;        // see CommonOptions
};
// Tieleman and Hinton 2012, as PyTorch has it: gradients divided by the root of their mean square; weight decay is
// added to the gradient.
class RMSprop : public Optimizer {
 public:
  explicit RMSprop(const ParameterGroups& parameters, const RMSpropOptions& options = {});
  // Groups in braces.
  explicit RMSprop(std::initializer_list<ParameterGroup> groups, const RMSpropOptions& options = {})
      : RMSprop(ParameterGroups(groups), options) {}

 private:
  void update(size_t index, const Variable& parameter, const Tensor& gradient, const Rule& rule) override;
  RMSpropOptions options_;
  std::vector<Variable> square_, mean_, momentum_;
};

// Inside a step: one Adam update of p and its moments m and v at rate lr (f32[]) and count `step` (f32[], from 1).
void adam_step(const Variable& p, const Tensor& gradient, const Tensor& lr, const Tensor& step, const Variable& m,
               const Variable& v, const AdamAttrs& attrs);

// The global 2-norm of all gradients, f32[]. Sums in f32.
Tensor global_norm(const std::vector<Tensor>& gradients);
// gradients * min(1, max_norm / (norm + 1e-6)), PyTorch's clip_grad_norm_. Throws Error(usage) for a negative max_norm.
std::vector<Tensor> clip_grad_norm(const std::vector<Tensor>& gradients, double max_norm, Tensor* norm = nullptr);

}  // namespace freight::optim
