// See optimizer.h.
#include "freight/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "freight/base/usage.h"
#include "freight/ir/graph.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/reduce.h"
#include "freight/ops/shape.h"
#include "freight/optim/norm_internal.h"
#include "freight/trace/tracer.h"

namespace freight::optim {

namespace {
void need_finite(const char* op, const char* what, double v) { need_at_least(op, what, v, 0); }
template <class Options>
CommonOptions common_of(const Options& o) {
  return {o.lr, o.weight_decay, o.clip_grad_norm, o.decay_norm_bias, o.maximize};
}
void need_beta(const char* op, double beta) { need_below(op, "betas", beta, 0, 1); }
}  // namespace

std::vector<Variable> Optimizer::each_once(const std::vector<Variable>& variables) {
  std::vector<Variable> out;
  for (const Variable& v : variables) {
    if (std::find(out.begin(), out.end(), v) == out.end()) out.push_back(v);
  }
  return out;
}

namespace {

constexpr nn::LoadSides kSides{.entries = "states", .holder = "optimizer"};
constexpr const char* kSkipped = "skipped";
constexpr const char* kRatio = "lr_ratio.";

template <class Entries>
bool has_entry(const Entries& entries, const char* name) {
  return std::any_of(entries.begin(), entries.end(), [&](const auto& e) { return e.name == name; });
}

Variable shared_scalar(const std::string& name, double value) {
  Variable v(name, {DType::f32, {}}, {Init::Kind::constant, value, 0});
  v.share_among_devices();
  return v;
}

// A rate or a count that is none would spoil the weights at the next step, without a word.
void need_sound(const std::vector<nn::NamedArray>& entries, const std::string& source) {
  for (const nn::NamedArray& e : entries) {
    const bool rate = e.name == "lr" || e.name.rfind(kRatio, 0) == 0;
    if (!e.array.defined() || (!rate && e.name != "step" && e.name != kSkipped)) continue;
    for (const float v : e.array.to_vector<float>()) {
      if (std::isfinite(v) && v >= 0) continue;
      fail(ErrorKind::checkpoint, source, "the ", rate ? "rate" : "count", " '", e.name, "' is ", v,
           ", expected a finite number of at least 0; the states come from a diverged run or a damaged file");
    }
  }
}

double number_in(const Variable& scalar) { return static_cast<double>(scalar.array().data<float>()[0]); }

}  // namespace

std::vector<Variable> ParameterGroups::joined(std::initializer_list<const Variables*> nets) {
  Variables all;
  for (const Variables* net : nets) all.insert(all.end(), net->begin(), net->end());
  return all;
}

ParameterGroups::ParameterGroups() = default;
ParameterGroups::ParameterGroups(const ParameterGroups& other) = default;
ParameterGroups::ParameterGroups(ParameterGroups&& other) noexcept = default;
ParameterGroups& ParameterGroups::operator=(const ParameterGroups& other) = default;
ParameterGroups& ParameterGroups::operator=(ParameterGroups&& other) noexcept = default;
ParameterGroups::~ParameterGroups() = default;
ParameterGroups::ParameterGroups(const Variables& parameters) : list_{{.parameters = parameters}} {}
ParameterGroups::ParameterGroups(std::initializer_list<Variable> parameters) : list_{{.parameters = parameters}} {}
ParameterGroups::ParameterGroups(std::vector<ParameterGroup> groups) : list_(std::move(groups)) {}
ParameterGroups::ParameterGroups(std::initializer_list<ParameterGroup> groups) : list_(groups) {}

Optimizer::~Optimizer() = default;

Optimizer::Optimizer(const ParameterGroups& groups, const CommonOptions& common)
    : common_(common), skips_(std::make_shared<bool>(false)) {
  need_finite("optimizer", "learning rate", common.lr);
  need_finite("optimizer", "clip_grad_norm", common.clip_grad_norm);
  need_finite("optimizer", "weight decay", common.weight_decay);
  for (const ParameterGroup& g : groups.list()) add_group(g);
  if (parameters_.empty()) fail(ErrorKind::usage, "optimizer", "there are no parameters to train");
  std::map<std::string, int> seen;
  for (const Variable& p : parameters_) {
    const int times = ++seen[p.name()];
    names_.push_back(times > 1 ? cat(p.name(), "#", times) : p.name());
  }
  lr_ = shared_scalar("lr", common.lr);
}

void Optimizer::add_group(const ParameterGroup& g) {
  const std::string name = g.name.empty() ? std::to_string(groups_.size()) : g.name;
  for (const Group& other : groups_) {
    if (other.name == name) refuse_twice("optimizer", "groups", name);
  }
  if (g.parameters.empty()) {
    fail(ErrorKind::usage, "optimizer", "there are no parameters to train in group '", name,
         "': parameters() skips what set_trainable(false) has frozen; freeze a group by .frozen = true");
  }
  Group made{name, {}, g.weight_decay.value_or(common_.weight_decay), std::make_shared<bool>(g.frozen)};
  need_finite("optimizer", "weight decay", made.weight_decay);
  if (g.lr) {
    need_finite("optimizer", "learning rate", *g.lr);
    if (!(common_.lr > 0)) {
      fail(ErrorKind::usage, "optimizer", "group '", name, "' has its own rate, which keeps its ratio to the ",
           "optimizer's: that must be above 0, got ", common_.lr);
    }
    made.lr_ratio = shared_scalar(kRatio + name, *g.lr / common_.lr);
  }
  for (const Variable& p : each_once(g.parameters)) {
    if (const auto at = std::find(parameters_.begin(), parameters_.end(), p); at != parameters_.end()) {
      fail(ErrorKind::usage, "optimizer", "parameter '", p.name(), "' is in two groups: '",
           groups_[group_of_[static_cast<size_t>(at - parameters_.begin())]].name, "' and '", name, "'");
    }
    parameters_.push_back(p);
    group_of_.push_back(groups_.size());
  }
  groups_.push_back(std::move(made));
}

void Optimizer::set_lr(double lr) {
  need_finite("optimizer", "learning rate", lr);
  lr_.set(lr);
}

double Optimizer::lr() const { return number_in(lr_); }

size_t Optimizer::group_index(const char* op, const std::string& name) const {
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].name == name) return i;
  }
  refuse_name(op, name, groups());
}

void Optimizer::set_lr(const std::string& group, double lr) {
  need_finite("optimizer", "learning rate", lr);
  const Group& g = groups_[group_index("set_lr", group)];
  if (!g.lr_ratio.defined()) {
    fail(ErrorKind::usage, "set_lr", "group '", group,
         "' has the optimizer's rate: set that, or give the group one of ", "its own, .lr, when the optimizer is made");
  }
  const double all = this->lr();
  if (!(all > 0)) {
    fail(ErrorKind::usage, "set_lr", "the rate of group '", group, "' is relative to the optimizer's, which is ", all,
         ": set that first");
  }
  g.lr_ratio.set(lr / all);
}

double Optimizer::lr(const std::string& group) const {
  const Group& g = groups_[group_index("lr", group)];
  return g.lr_ratio.defined() ? lr() * number_in(g.lr_ratio) : lr();
}

void Optimizer::set_frozen(const std::string& group, bool frozen) {
  *groups_[group_index("set_frozen", group)].frozen = frozen;
}
bool Optimizer::frozen(const std::string& group) const { return *groups_[group_index("frozen", group)].frozen; }

std::vector<std::string> Optimizer::groups() const {
  std::vector<std::string> out;
  for (const Group& g : groups_) out.push_back(g.name);
  return out;
}

std::vector<nn::NamedVariable> Optimizer::state_dict() const {
  std::vector<nn::NamedVariable> out = states_;
  out.push_back({"lr", lr_});
  for (const Group& g : groups_) {
    if (g.lr_ratio.defined()) out.push_back({kRatio + g.name, g.lr_ratio});
  }
  return out;
}

nn::LoadResult Optimizer::load_state_dict(const std::vector<nn::NamedArray>& entries, const nn::LoadOptions& options) {
  need_sound(entries, options.source);
  std::vector<nn::NamedArray> all = entries;
  if (has_entry(entries, kSkipped)) {
    need_skipped();
  } else if (skipped_.defined() && has_entry(entries, "step")) {  // in a run that froze nothing all its counts are 0
    all.push_back({kSkipped, Array(DType::f32, skipped_.shape())});
  }
  return nn::load_values(state_dict(), all, options, kSides);
}

nn::LoadResult Optimizer::load_state_dict(const std::vector<nn::NamedVariable>& entries,
                                          const nn::LoadOptions& options) {
  if (has_entry(entries, kSkipped) != skipped_.defined()) return load_state_dict(nn::values_of(entries), options);
  std::vector<nn::NamedVariable> numbers;
  for (const nn::NamedVariable& e : entries) {
    if (e.variable.shape().rank() < 2) numbers.push_back(e);  // spares copies of moments
  }
  need_sound(nn::values_of(numbers), options.source);
  return nn::load_values(state_dict(), entries, options, kSides);
}

std::vector<Variable> Optimizer::per_parameter(const std::string& kind) {
  return per_parameter(kind, std::vector<bool>(parameters_.size(), true));
}

std::vector<Variable> Optimizer::per_parameter(const std::string& kind, const std::vector<bool>& which) {
  std::vector<Variable> out(parameters_.size());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (which[i]) out[i] = state_of(kind, i, parameters_[i].type());
  }
  return out;
}

std::vector<Variable> Optimizer::number_per_parameter(const std::string& kind) {
  std::vector<Variable> out;
  for (size_t i = 0; i < parameters_.size(); ++i) out.push_back(state_of(kind, i, {DType::f32, {}}));
  return out;
}

Variable Optimizer::state_of(const std::string& kind, size_t parameter, const Type& type) {
  const Variable& p = parameters_[parameter];
  const std::string name = kind + "." + names_[parameter];
  const DeviceScope on(p.device());
  Variable state("optimizer." + name, type);
  add_state({name, state}, parameter);
  beside_.emplace_back(state, p);
  return state;
}

Variable Optimizer::scalar_state(const std::string& name) {
  add_state({name, Variable("optimizer." + name, {DType::f32, {}})}, std::nullopt);
  states_.back().variable.share_among_devices();
  return states_.back().variable;
}

void Optimizer::add_state(const nn::NamedVariable& state, std::optional<size_t> parameter) {
  states_.push_back(state);
  whole_.push_back({state, parameter});
}

void Optimizer::keep_states_of(const std::vector<bool>& own) {
  need_count("keep_states_of", "values, one for each parameter", own.size(), parameters_.size());
  own_ = own;
  states_.clear();
  for (const State& s : whole_) {
    if (!s.parameter || own[*s.parameter]) states_.push_back(s.state);
  }
}

void Optimizer::count_steps() { count_ = scalar_state("step"); }

void Optimizer::need_skipped() {
  if (skipped_.defined()) return;
  add_state({kSkipped, Variable(cat("optimizer.", kSkipped), {DType::f32, {static_cast<int64_t>(parameters_.size())}})},
            std::nullopt);
  skipped_ = states_.back().variable;
  skipped_.share_among_devices();
  *skips_ = true;
}

void Optimizer::skip(const std::vector<bool>& frozen) {
  if (!count_.defined() || std::find(frozen.begin(), frozen.end(), true) == frozen.end()) return;
  need_skipped();
  Array one(DType::f32, skipped_.shape());
  for (size_t i = 0; i < frozen.size(); ++i) one.data<float>()[i] = frozen[i] ? 1 : 0;
  skipped_.assign(skipped_ + one);
}

Tensor Optimizer::step_count(size_t index) const {
  if (trace::compiling()) trace::Session()->depend_on(skips_);
  return *skips_ ? count_ - select(skipped_, 0, static_cast<int64_t>(index)) : count_.value();
}

void Optimizer::follow_parameters() const {
  for (const auto& [state, parameter] : beside_) {
    trace::place(state.impl(), parameter.impl()->device);
  }
}

std::vector<Tensor> Optimizer::gradients(const GradientFunction& of) const {
  const std::vector<bool> frozen = frozen_now();
  std::vector<Variable> trained;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!frozen[i]) trained.push_back(parameters_[i]);
  }
  if (trained.empty()) trace::fail_here("optimizer", "all ", parameters_.size(), " parameters are frozen");
  const std::vector<Tensor> found = of(trained);
  std::vector<Tensor> all;
  for (size_t i = 0, next = 0; i < parameters_.size(); ++i) {
    all.push_back(frozen[i] ? zeros(parameters_[i].shape(), parameters_[i].type().dtype) : found[next++]);
  }
  return all;
}

void Optimizer::step(const In& loss) {
  const Frame frame(loss.where);
  apply(gradients([&](const std::vector<Variable>& trained) { return grad(loss, trained); }));
}

Optimizer::Rule Optimizer::rule_of(size_t index) const {
  const Group& g = groups_[group_of_[index]];
  const bool decay = common_.decay_norm_bias || parameters_[index].shape().rank() >= 2;
  return {g.lr_ratio.defined() ? lr_ * g.lr_ratio : lr_.value(), decay ? g.weight_decay : 0};
}

std::vector<bool> Optimizer::frozen_now() const {
  std::vector<bool> out;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const std::shared_ptr<trace::VariableImpl>& impl = parameters_[i].impl();
    const std::shared_ptr<bool>& group = groups_[group_of_[i]].frozen;
    if (trace::compiling()) {
      trace::Session()->depend_on(std::shared_ptr<const bool>(impl, &impl->frozen));
      trace::Session()->depend_on(group);
    }
    // Tied weights are one variable, also where they were tied after the optimizer was made: the first place updates
    // it.
    const auto first = std::find(parameters_.begin(), parameters_.end(), parameters_[i]);
    const size_t at = static_cast<size_t>(first - parameters_.begin());
    if (group_of_[at] != group_of_[i]) {
      fail(ErrorKind::usage, "optimizer", "parameters '", names_[at], "' and '", names_[i],
           "' were tied, and are in two groups: '", groups_[group_of_[at]].name, "' and '", groups_[group_of_[i]].name,
           "'; tie them before the optimizer is made");
    }
    out.push_back(impl->frozen || *group || at != i);
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
    trace::fail_here("optimizer", "expected ", parameters_.size(), ", got ", gradients.size(), " gradients");
  }
  follow_parameters();
  {
    const trace::OnePiece piece;
    std::vector<bool> frozen = frozen_now();
    std::vector<Tensor> used;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const Tensor& g = gradients[i];
      frozen[i] = frozen[i] || !g.defined();
      if (frozen[i]) continue;
      if (!(g.type() == parameters_[i].type())) {
        trace::fail_here("optimizer", "gradient ", i, " is ", g.type(), ", parameter '", names_[i], "' is ",
                         parameters_[i].type(), "; gradients are expected in the order of parameters()");
      }
      used.push_back(common_.maximize ? -g : g);
    }
    if (common_.clip_grad_norm > 0 && !used.empty()) {
      used = clip_grad_norm(used, common_.clip_grad_norm, &grad_norm_);
      grad_norm_ = grad_norm_.detach();  // the optimizer holds it, and shall not hold the step's history
    }
    if (count_.defined()) count_.assign(count_ + 1);
    skip(frozen);
    for (size_t i = 0, next = 0; i < parameters_.size(); ++i) {
      if (frozen[i]) continue;
      const Tensor& gradient = used[next++];
      const DeviceScope on(parameters_[i].device());
      if (keeps(i)) update(i, parameters_[i], gradient, rule_of(i));
    }
  }
  trace::end_of_piece();
}

SGD::SGD(const ParameterGroups& parameters, const SGDOptions& options)
    : Optimizer(parameters, common_of(options)), options_(options) {
  need_finite("SGD", "momentum", options.momentum);
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0)) {
    fail(ErrorKind::usage, "SGD", "Nesterov needs momentum above 0 and no dampening: got momentum ", options.momentum,
         ", dampening ", options.dampening);
  }
  if (options.momentum != 0) momentum_ = per_parameter("momentum");
  if (options.dampening != 0) count_steps();
}

void SGD::update(size_t index, const Variable& p, const Tensor& g, const Rule& rule) {
  const SgdAttrs attrs{options_.momentum, options_.dampening, rule.weight_decay, options_.nesterov};
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
      p.assign(trace::one(Op::sgd_rows, NoAttrs{}, {p.value(), rows, gradients, rule.lr}));
      return;
    }
  }
  if (attrs.dampening != 0 && attrs.momentum != 0) {  // of the first gradient nothing is left out
    const Tensor decayed = rule.weight_decay > 0 ? g + p * rule.weight_decay : g;
    const Tensor share = where(step_count(index) > 1.0, 1 - attrs.dampening, ones({}));
    const Tensor m = momentum_[index] * attrs.momentum + decayed * cast(share, g.dtype());
    momentum_[index].assign(m);
    p.assign(p - m * rule.lr);
    return;
  }
  std::vector<Tensor> in{p.value(), g, rule.lr};
  if (!momentum_.empty()) in.push_back(momentum_[index].value());
  const std::vector<Tensor> next = trace::add(Op::sgd_update, attrs, in);
  p.assign(next[0]);
  if (!momentum_.empty()) momentum_[index].assign(next[1]);
}

Adam::Adam(const ParameterGroups& parameters, const AdamOptions& options, bool decoupled)
    : Optimizer(parameters, common_of(options)), options_(options), decoupled_(decoupled) {
  need_beta("Adam", options.beta1);
  need_beta("Adam", options.beta2);
  need_finite("Adam", "eps", options.eps);
  count_steps();
  m_ = per_parameter("m");
  v_ = per_parameter("v");
  if (options.amsgrad) largest_ = per_parameter("largest");
}

namespace {

// 1 - beta^step, f32[].
Tensor correction(double beta, const Tensor& step) { return 1.0 - exp(step * std::log(beta)); }

// A moment with this share of the old one, which the variable has from here on.
Tensor advanced(const Variable& moment, double beta, const Tensor& by) {
  moment.assign(moment * beta + by * (1 - beta));
  return moment.value();
}

// (the gradient with weight decay, the parameter with decoupled weight decay)
std::pair<Tensor, Tensor> decayed(const Variable& p, const Tensor& gradient, const Tensor& lr, double decay,
                                  bool decoupled) {
  if (decay == 0) return {gradient, p.value()};
  if (decoupled) return {gradient, p * (1.0 - lr * decay)};
  return {gradient + p * decay, p.value()};
}

}  // namespace

void Adam::update(size_t index, const Variable& p, const Tensor& gradient, const Rule& rule) {
  const Tensor step = step_count(index);
  if (!options_.amsgrad) {
    adam_step(p, gradient, rule.lr, step, m_[index], v_[index],
              {options_.beta1, options_.beta2, options_.eps, rule.weight_decay, decoupled_});
    return;
  }
  const auto [g, start] = decayed(p, gradient, rule.lr, rule.weight_decay, decoupled_);
  const Tensor m = advanced(m_[index], options_.beta1, g), v = advanced(v_[index], options_.beta2, square(g));
  largest_[index].assign(maximum(largest_[index].value(), v));
  const Tensor root = sqrt(largest_[index].value()) / sqrt(correction(options_.beta2, step)) + options_.eps;
  p.assign(start - m * (rule.lr / correction(options_.beta1, step)) / root);
}

NAdam::NAdam(const ParameterGroups& parameters, const NAdamOptions& options)
    : Optimizer(parameters, common_of(options)), options_(options) {
  need_beta("NAdam", options.beta1);
  need_beta("NAdam", options.beta2);
  need_finite("NAdam", "eps", options.eps);
  need_finite("NAdam", "momentum_decay", options.momentum_decay);
  count_steps();
  m_ = per_parameter("m");
  v_ = per_parameter("v");
  rest_ = number_per_parameter("rest");
}

void NAdam::update(size_t index, const Variable& p, const Tensor& gradient, const Rule& rule) {
  const Tensor step = step_count(index);
  // The momentum's share in step t: beta1 (1 - 0.96^(t momentum_decay) / 2).
  const auto share = [&](const Tensor& t) {
    return (1.0 - exp(t * (std::log(0.96) * options_.momentum_decay)) * 0.5) * options_.beta1;
  };
  const Tensor now = share(step), next = share(step + 1.0);
  const Tensor product = (1.0 - rest_[index]) * now;
  rest_[index].assign(1.0 - product);
  const auto [g, start] = decayed(p, gradient, rule.lr, rule.weight_decay, options_.decoupled_weight_decay);
  const Tensor m = advanced(m_[index], options_.beta1, g), v = advanced(v_[index], options_.beta2, square(g));
  const Tensor root = sqrt(v / correction(options_.beta2, step)) + options_.eps;
  const Tensor of_gradient = rule.lr * (1.0 - now) / (1.0 - product);
  p.assign(start - (g * of_gradient + m * (rule.lr * next / (1.0 - product * next))) / root);
}

Adagrad::Adagrad(const ParameterGroups& parameters, const AdagradOptions& options)
    : Optimizer(parameters, common_of(options)), options_(options) {
  need_finite("Adagrad", "lr_decay", options.lr_decay);
  need_finite("Adagrad", "initial_accumulator_value", options.initial_accumulator_value);
  need_finite("Adagrad", "eps", options.eps);
  if (options.lr_decay != 0) count_steps();
  squares_ = per_parameter("squares");
}

void Adagrad::update(size_t index, const Variable& p, const Tensor& gradient, const Rule& rule) {
  const auto [g, start] = decayed(p, gradient, rule.lr, rule.weight_decay, false);
  squares_[index].assign(squares_[index] + square(g));
  const Tensor lr = options_.lr_decay == 0 ? rule.lr : rule.lr / ((step_count(index) - 1.0) * options_.lr_decay + 1.0);
  const Tensor root = sqrt(squares_[index] + options_.initial_accumulator_value) + options_.eps;
  p.assign(start - g / root * lr);
}

void adam_step(const Variable& p, const Tensor& gradient, const Tensor& lr, const Tensor& step, const Variable& m,
               const Variable& v, const AdamAttrs& attrs) {
  const std::vector<Tensor> next =
      trace::add(Op::adam_update, attrs, {p.value(), gradient, lr, step, m.value(), v.value()});
  p.assign(next[0]);
  m.assign(next[1]);
  v.assign(next[2]);
}

Lion::Lion(const ParameterGroups& parameters, const LionOptions& options)
    : Optimizer(parameters, common_of(options)), options_(options) {
  need_beta("Lion", options.beta1);
  need_beta("Lion", options.beta2);
  m_ = per_parameter("m");
}

void Lion::update(size_t index, const Variable& p, const Tensor& g, const Rule& rule) {
  const Variable& m = m_[index];
  const Tensor direction = sign(m * options_.beta1 + g * (1 - options_.beta1));
  m.assign(m * options_.beta2 + g * (1 - options_.beta2));
  p.assign(p - (rule.weight_decay > 0 ? direction + p * rule.weight_decay : direction) * rule.lr);
}

RMSprop::RMSprop(const ParameterGroups& parameters, const RMSpropOptions& options)
    : Optimizer(parameters, common_of(options)), options_(options) {
  need_beta("RMSprop", options.alpha);
  need_finite("RMSprop", "eps", options.eps);
  need_finite("RMSprop", "momentum", options.momentum);
  square_ = per_parameter("square");
  if (options.centered) mean_ = per_parameter("mean");
  if (options.momentum != 0) momentum_ = per_parameter("momentum");
}

void RMSprop::update(size_t index, const Variable& p, const Tensor& gradient, const Rule& rule) {
  const double alpha = options_.alpha;
  const Tensor g = rule.weight_decay > 0 ? gradient + p * rule.weight_decay : gradient;
  const Tensor square = square_[index] * alpha + freight::square(g) * (1 - alpha);
  square_[index].assign(square);
  Tensor variance = square;
  if (options_.centered) {
    const Tensor mean = mean_[index] * alpha + g * (1 - alpha);
    mean_[index].assign(mean);
    variance = square - freight::square(mean);
  }
  Tensor step = g / (sqrt(variance) + options_.eps);
  if (!momentum_.empty()) {
    step = momentum_[index] * options_.momentum + step;
    momentum_[index].assign(step);
  }
  p.assign(p - step * rule.lr);
}

ScaledNorm scaled_norm(const std::vector<Tensor>& gradients) {
  // Between the two bounds neither the squares of 2^38 elements overflow, nor do those vanish that are 2^-23 of the
  // largest. Beyond them a factor brings the largest element to within 2^-39 and 2^44 (2^-65 for f32's smallest).
  constexpr double kLarge = 0x1p45, kSmall = 0x1p-40, kFactor = 0x1p84;
  if (gradients.empty()) trace::fail_here("global_norm", "got no gradients");
  const auto device = gradients[0].device();
  Tensor largest = zeros({}).to_device(device);  // a parameter without elements has no largest one
  for (const Tensor& g : gradients) {
    if (g.type().numel() == 0) continue;
    const Tensor part = max(abs(cast(g, DType::f32))).to_device(device);
    largest = maximum(largest, part);
  }
  const Tensor large = largest > kLarge, small = logical_and(largest<kSmall, largest> 0.0);
  const Tensor one = ones({}).to_device(device);
  ScaledNorm n{.norm = {},
               .down = where(large, 1 / kFactor, where(small, kFactor, one)),
               .up = where(large, kFactor, where(small, 1 / kFactor, one))};
  Tensor total;
  for (const Tensor& g : gradients) {
    const Tensor part = sum(square(cast(g, DType::f32) * n.down.to_device(g.device()))).to_device(device);
    total = total.defined() ? total + part : part;
  }
  n.norm = sqrt(total);
  return n;
}

Tensor global_norm(const std::vector<Tensor>& gradients) {
  const ScaledNorm n = scaled_norm(gradients);
  return n.norm * n.up;
}

std::vector<Tensor> clip_grad_norm(const std::vector<Tensor>& gradients, double max_norm, Tensor* norm) {
  if (!(max_norm >= 0)) trace::fail_here("clip_grad_norm", "max_norm must not be negative: got ", max_norm);
  const ScaledNorm n = scaled_norm(gradients);
  if (norm) *norm = n.norm * n.up;
  // min(1, max_norm / (norm + 1e-6)) of gradients that are scaled down already.
  const Tensor scale = minimum(max_norm / (n.norm + n.down * 1e-6), n.up);
  const auto beside = [](const Tensor& factor, const Tensor& g) {
    return cast(factor.to_device(g.device()), g.dtype());
  };
  std::vector<Tensor> out;
  for (const Tensor& g : gradients) out.push_back(g * beside(n.down, g) * beside(scale, g));
  return out;
}

}  // namespace freight::optim
