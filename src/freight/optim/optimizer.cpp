// See optimizer.h.
#include "freight/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "freight/ir/graph.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/reduce.h"
#include "freight/trace/tracer.h"

namespace freight::optim {

namespace {
void need_finite(const char* op, const char* what, double v) {
  if (!std::isfinite(v) || v < 0) fail(ErrorKind::usage, op, what, " must be finite and not negative: got ", v);
}
void need_beta(const char* op, double beta) {
  if (!(beta > 0 && beta < 1)) fail(ErrorKind::usage, op, "betas must lie between 0 and 1: got ", beta);
}
}  // namespace

std::vector<Variable> Optimizer::each_once(const std::vector<Variable>& variables) {
  std::vector<Variable> out;
  for (const Variable& v : variables) {
    if (std::find(out.begin(), out.end(), v) == out.end()) out.push_back(v);
  }
  return out;
}

Optimizer::Optimizer(const std::vector<Variable>& parameters, double lr, const CommonOptions& common)
    : parameters_(each_once(parameters)), common_(common) {
  need_finite("optimizer", "learning rate", lr);
  need_finite("optimizer", "clip_grad_norm", common.clip_grad_norm);
  if (parameters_.empty()) fail(ErrorKind::usage, "optimizer", "there are no parameters to train");
  lr_ = Variable("lr", {DType::f32, {}}, {Init::Kind::constant, lr, 0});
  lr_.share_among_devices();
}

void Optimizer::set_lr(double lr) {
  need_finite("optimizer", "learning rate", lr);
  lr_.set(lr);
}

double Optimizer::lr() const { return lr_.array().data<float>()[0]; }

std::vector<Variable> Optimizer::per_parameter(const std::string& kind) {
  return per_parameter(kind, 0, parameters_.size());
}

std::vector<Variable> Optimizer::per_parameter(const std::string& kind, size_t begin, size_t end) {
  std::vector<Variable> out;
  for (size_t i = begin; i < end; ++i) {
    const Variable& p = parameters_[i];
    const std::string name = kind + "." + p.name();
    const DeviceScope on(p.device());
    out.emplace_back("optimizer." + name, p.type());
    states_.push_back({name, out.back()});
    beside_.emplace_back(out.back(), p);
  }
  return out;
}

Variable Optimizer::scalar_state(const std::string& name) {
  states_.push_back({name, Variable("optimizer." + name, {DType::f32, {}})});
  states_.back().variable.share_among_devices();
  return states_.back().variable;
}

void Optimizer::follow_parameters() const {
  for (const auto& [state, parameter] : beside_) {
    trace::place(state.impl(), parameter.impl()->device);
  }
}

void Optimizer::step(const In& loss) {
  const Frame frame(loss.where);
  const std::vector<bool> frozen_now = frozen();
  std::vector<Variable> trained;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!frozen_now[i]) trained.push_back(parameters_[i]);
  }
  if (trained.empty()) trace::fail_here("optimizer", "all ", parameters_.size(), " parameters are frozen");
  const std::vector<Tensor> found = grad(loss, trained);
  std::vector<Tensor> gradients(parameters_.size());
  for (size_t i = 0, next = 0; i < parameters_.size(); ++i) {
    if (!frozen_now[i]) gradients[i] = found[next++];
  }
  apply(gradients);
}

std::vector<bool> Optimizer::frozen() const {
  std::vector<bool> out;
  for (const Variable& p : parameters_) {
    const std::shared_ptr<trace::VariableImpl>& impl = p.impl();
    if (trace::compiling()) trace::Session()->depend_on(std::shared_ptr<const bool>(impl, &impl->frozen));
    out.push_back(impl->frozen);
  }
  return out;
}

const Tensor& Optimizer::grad_norm() const {
  if (common_.clip_grad_norm <= 0) {
    trace::fail_here("grad_norm",
                     "gradients are not clipped, so their norm is not computed; set clip_grad_norm, or take ",
                     "global_norm(grad(loss, parameters))");
  }
  if (!grad_norm_.defined()) trace::fail_here("grad_norm", "there was no step so far; call step() or apply() before");
  return grad_norm_;
}

void Optimizer::apply(const std::vector<Tensor>& gradients) {
  const Scope scope("optimizer");
  if (gradients.size() != parameters_.size()) {
    trace::fail_here("optimizer", "got ", gradients.size(), " gradients, need ", parameters_.size());
  }
  follow_parameters();
  {
    const trace::OnePiece piece;
    const std::vector<bool> frozen_now = frozen();
    std::vector<Tensor> used;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (!frozen_now[i]) used.push_back(gradients[i]);
    }
    if (common_.clip_grad_norm > 0) {
      used = clip_grad_norm(used, common_.clip_grad_norm, &grad_norm_);
      grad_norm_ = grad_norm_.detach();  // the optimizer holds it, and shall not hold the step's history
    }
    begin();
    for (size_t i = 0, next = 0; i < parameters_.size(); ++i) {
      const bool decay = common_.decay_norm_bias || parameters_[i].shape().rank() >= 2;
      const DeviceScope on(parameters_[i].device());
      if (!frozen_now[i]) update(i, parameters_[i], used[next++], decay);
    }
  }
  trace::end_of_piece();
}

SGD::SGD(const std::vector<Variable>& parameters, const SGDOptions& options)
    : Optimizer(parameters, options.lr, {options.clip_grad_norm, options.decay_norm_bias}), options_(options) {
  need_finite("SGD", "momentum", options.momentum);
  need_finite("SGD", "weight decay", options.weight_decay);
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0)) {
    fail(ErrorKind::usage, "SGD", "Nesterov needs momentum above 0 and no dampening: got momentum ", options.momentum,
         ", dampening ", options.dampening);
  }
  if (options.momentum != 0) momentum_ = per_parameter("momentum");
}

void SGD::update(size_t index, const Variable& p, const Tensor& g, bool decay) {
  const SgdAttrs attrs{options_.momentum, options_.dampening, decay ? options_.weight_decay : 0, options_.nesterov};
  if (attrs.momentum == 0 && attrs.weight_decay == 0) {
    // The gradient of a table of which a few rows were used is a scatter: only those rows change.
    const trace::Device device = trace::device_of_operands("sgd_update", {g});
    trace::settle(g, device);
    const trace::Session tape(device);
    const Node made = tape->graph().def(tape->value_of(g));  // a copy: the graph grows below
    const auto* scatter = std::get_if<ScatterAttrs>(&made.attrs);
    if (made.op == Op::scatter_add && scatter->axis == 0 && p.shape().rank() == 2 && g.dtype() == p.type().dtype &&
        tape->graph().type(made.in(0)).numel() < p.shape()[0]) {
      const Tensor rows = tape->wrap(made.in(0)), gradients = tape->wrap(made.in(1));
      p.assign(trace::one(Op::sgd_rows, NoAttrs{}, {p.value(), rows, gradients, lr_variable().value()}));
      return;
    }
  }
  std::vector<Tensor> in{p.value(), g, lr_variable().value()};
  if (!momentum_.empty()) in.push_back(momentum_[index].value());
  const std::vector<Tensor> next = trace::add(Op::sgd_update, attrs, in);
  p.assign(next[0]);
  if (!momentum_.empty()) momentum_[index].assign(next[1]);
}

Adam::Adam(const std::vector<Variable>& parameters, const AdamOptions& options, bool decoupled)
    : Optimizer(parameters, options.lr, {options.clip_grad_norm, options.decay_norm_bias}),
      options_(options),
      decoupled_(decoupled) {
  need_finite("Adam", "weight decay", options.weight_decay);
  need_beta("Adam", options.beta1);
  need_beta("Adam", options.beta2);
  step_ = scalar_state("step");
  m_ = per_parameter("m");
  v_ = per_parameter("v");
}

void Adam::begin() { step_.assign(step_ + 1); }

void Adam::update(size_t index, const Variable& p, const Tensor& g, bool decay) {
  adam_step(p, g, lr_variable().value(), step_.value(), m_[index], v_[index],
            {options_.beta1, options_.beta2, options_.eps, decay ? options_.weight_decay : 0, decoupled_});
}

void adam_step(const Variable& p, const Tensor& gradient, const Tensor& lr, const Tensor& step, const Variable& m,
               const Variable& v, const AdamAttrs& attrs) {
  const std::vector<Tensor> next =
      trace::add(Op::adam_update, attrs, {p.value(), gradient, lr, step, m.value(), v.value()});
  p.assign(next[0]);
  m.assign(next[1]);
  v.assign(next[2]);
}

Lion::Lion(const std::vector<Variable>& parameters, const LionOptions& options)
    : Optimizer(parameters, options.lr, {options.clip_grad_norm, options.decay_norm_bias}), options_(options) {
  need_finite("Lion", "weight decay", options.weight_decay);
  need_beta("Lion", options.beta1);
  need_beta("Lion", options.beta2);
  m_ = per_parameter("m");
}

void Lion::update(size_t index, const Variable& p, const Tensor& g, bool decay) {
  const Variable& m = m_[index];
  const Tensor direction = sign(m * options_.beta1 + g * (1 - options_.beta1));
  m.assign(m * options_.beta2 + g * (1 - options_.beta2));
  const double weight_decay = decay ? options_.weight_decay : 0;
  p.assign(p - (weight_decay > 0 ? direction + p * weight_decay : direction) * lr_variable());
}

Tensor global_norm(const std::vector<Tensor>& gradients) {
  Tensor total;
  for (const Tensor& g : gradients) {
    const Tensor part = sum(square(cast(g, DType::f32))).to_device(gradients[0].device());
    total = total.defined() ? total + part : part;
  }
  return sqrt(total);
}

std::vector<Tensor> clip_grad_norm(const std::vector<Tensor>& gradients, double max_norm, Tensor* norm) {
  const Tensor n = global_norm(gradients);
  if (norm) *norm = n;
  const Tensor scale = minimum(max_norm / (n + 1e-6), 1.0);
  std::vector<Tensor> out;
  for (const Tensor& g : gradients) out.push_back(g * cast(scale.to_device(g.device()), g.dtype()));
  return out;
}

}  // namespace freight::optim
