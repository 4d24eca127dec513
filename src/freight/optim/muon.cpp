// See muon.h.
#include "freight/optim/muon.h"

#include <algorithm>
#include <cmath>

#include "freight/base/error.h"
#include "freight/ir/attrs.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/linalg.h"
#include "freight/ops/reduce.h"
#include "freight/ops/shape.h"

namespace freight::optim {

namespace {

std::vector<Variable> joined(std::vector<Variable> a, const std::vector<Variable>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

Tensor orthogonalised(const Tensor& g, int iterations) {
  // x <- a x + (b x x' + c (x x')^2) x drives all singular values in (0, 1] towards 1; the coefficients are Jordan's.
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  const bool tall = g.shape()[0] > g.shape()[1];
  Tensor x = tall ? transpose(g) : g;
  x = x / (sqrt(sum(square(x))) + 1e-7);
  for (int i = 0; i < iterations; ++i) {
    const Tensor a = matmul(x, transpose(x));
    x = x * kA + matmul(a * kB + matmul(a, a) * kC, x);
  }
  return tall ? transpose(x) : x;
}

Muon::Muon(const std::vector<Variable>& matrices, const std::vector<Variable>& others, const MuonOptions& options)
    : Optimizer(joined(matrices, others), {.lr = options.lr,
                                           .weight_decay = options.weight_decay,
                                           .clip_grad_norm = options.clip_grad_norm,
                                           .decay_norm_bias = options.decay_norm_bias}),
      options_(options),
      matrices_(each_once(matrices).size()) {
  for (const Variable& p : matrices) {
    if (p.shape().rank() < 2) {
      fail(ErrorKind::usage, "Muon", "parameter ", p.name(), " is ", p.type(), ", need rank 2 or more");
    }
  }
  if (!(options.momentum >= 0 && options.momentum < 1)) {
    fail(ErrorKind::usage, "Muon", "momentum must be at least 0 and below 1: got ", options.momentum);
  }
  count_steps();
  momentum_ = per_parameter("momentum", 0, matrices_);
  m_ = per_parameter("m", matrices_, parameters().size());
  v_ = per_parameter("v", matrices_, parameters().size());
}

void Muon::update(size_t index, const Variable& p, const Tensor& g, const Rule& rule) {
  if (index >= matrices_) {
    const size_t i = index - matrices_;
    adam_step(p, g, rule.lr * options_.adam_lr_ratio, step_count(index), m_[i], v_[i],
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
