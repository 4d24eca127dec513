// See muon.h.
#include "freight/optim/muon.h"

#include <algorithm>
#include <cmath>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/ir/attrs.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/linalg.h"
#include "freight/ops/reduce.h"
#include "freight/ops/shape.h"
#include "freight/optim/norm_internal.h"

namespace freight::optim {

namespace {

bool listed(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<ParameterGroup> named(const ParameterGroups& groups, const char* name) {
  std::vector<ParameterGroup> out = groups.list();
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i].name.empty()) out[i].name = i == 0 ? name : cat(name, "#", i + 1);
  }
  return out;
}

bool holds(const std::vector<ParameterGroup>& groups, const Variable& v) {
  return std::any_of(groups.begin(), groups.end(), [&](const ParameterGroup& g) {
    return std::find(g.parameters.begin(), g.parameters.end(), v) != g.parameters.end();
  });
}

// The parameters of `others` that are no matrices, without groups that are empty then.
std::vector<ParameterGroup> rest_of(const ParameterGroups& matrices, const ParameterGroups& others) {
  std::vector<ParameterGroup> rest = named(others, "others");
  for (ParameterGroup& g : rest) {
    std::erase_if(g.parameters, [&](const Variable& p) { return holds(matrices.list(), p); });
  }
  std::erase_if(rest, [](const ParameterGroup& g) { return g.parameters.empty(); });
  return rest;
}

ParameterGroups both_groups(const ParameterGroups& matrices, const ParameterGroups& others) {
  std::vector<ParameterGroup> all = named(matrices, "matrices");
  for (const ParameterGroup& g : all) {
    for (const Variable& p : g.parameters) {
      if (p.shape().rank() >= 2) continue;
      fail(ErrorKind::usage, "Muon", "parameter ", p.name(), " is ", p.type(), ", expected rank 2 or more");
    }
  }
  std::erase_if(all, [](const ParameterGroup& g) { return g.parameters.empty(); });
  for (const ParameterGroup& g : rest_of(matrices, others)) all.push_back(g);
  return all;
}

MuonOptions leaving_to_adam(const ParameterGroups& matrices, const ParameterGroups& others, MuonOptions options) {
  for (const ParameterGroup& g : rest_of(matrices, others)) options.adam_groups.push_back(g.name);
  return options;
}

}  // namespace

Tensor orthogonalised(const Tensor& g, int iterations) {
  // x <- a x + (b x x' + c (x x')^2) x drives all singular values in (0, 1] towards 1; the coefficients are Jordan's.
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  const bool tall = g.shape()[0] > g.shape()[1];
  Tensor x = tall ? transpose(g) : g;
  const ScaledNorm n = scaled_norm({x});
  x = x * n.down / (n.norm + n.down * 1e-7);
  for (int i = 0; i < iterations; ++i) {
    const Tensor a = matmul(x, transpose(x));
    x = x * kA + matmul(a * kB + matmul(a, a) * kC, x);
  }
  return tall ? transpose(x) : x;
}

Muon::Muon(const ParameterGroups& matrices, const ParameterGroups& others, const MuonOptions& options)
    : Muon(both_groups(matrices, others), leaving_to_adam(matrices, others, options)) {}

Muon::Muon(const ParameterGroups& groups, const MuonOptions& options)
    : Optimizer(groups, {.lr = options.lr,
                         .weight_decay = options.weight_decay,
                         .clip_grad_norm = options.clip_grad_norm,
                         .decay_norm_bias = options.decay_norm_bias,
                         .maximize = options.maximize}),
      options_(options) {
  const std::vector<std::string> names = this->groups();
  for (const std::string& name : options.adam_groups) {
    if (listed(names, name)) continue;
    refuse_name("adam_groups", name, names);
  }
  need_below("Muon", "momentum", options.momentum, 0, 1);
  std::vector<bool> matrix, other;
  for (size_t i = 0; i < parameters().size(); ++i) {
    matrix.push_back(parameters()[i].shape().rank() >= 2 && !left_to_adam(i));
    other.push_back(!matrix.back());
  }
  count_steps();
  momentum_ = per_parameter("momentum", matrix);
  m_ = per_parameter("m", other);
  v_ = per_parameter("v", other);
}

bool Muon::left_to_adam(size_t index) const { return listed(options_.adam_groups, group_of(index)); }

void Muon::update(size_t index, const Variable& p, const Tensor& g, const Rule& rule) {
  if (!momentum_[index].defined()) {
    const bool as_given = left_to_adam(index) && has_own_lr(index);
    adam_step(p, g, as_given ? rule.lr : rule.lr * options_.adam_lr_ratio, step_count(index), m_[index], v_[index],
              {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = rule.weight_decay, .decoupled = true});
    return;
  }
  const Variable& state = momentum_[index];
  const Tensor momentum = state * options_.momentum + g * (1 - options_.momentum);
  state.assign(momentum);
  const Tensor direction = options_.nesterov ? g * (1 - options_.momentum) + momentum * options_.momentum : momentum;
  const int64_t rows = p.shape()[0], columns = p.shape().numel() / std::max<int64_t>(rows, 1);
  const double scale = std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(columns)));
  const Tensor step = reshape(orthogonalised(reshape(direction, {rows, columns}), options_.iterations), p.shape());
  const Tensor decayed = rule.weight_decay > 0 ? p - p * (rule.lr * rule.weight_decay) : p.value();
  p.assign(decayed - step * (rule.lr * scale));
}

}  // namespace freight::optim
