// See loss_scale.h.
#include "freight/optim/loss_scale.h"

#include "freight/base/usage.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/reduce.h"
#include "freight/trace/scope.h"

namespace freight::optim {

namespace {
constexpr double kLargest = 0x1p24;  // gradients of nothing but zeros would let it grow for ever
}  // namespace

LossScale::LossScale(const LossScaleOptions& options)
    : options_(options),
      factor_("loss_scale.factor", {DType::f32, {}}, {Init::Kind::constant, options.initial, 0}),
      good_("loss_scale.good_steps", {DType::f32, {}}) {
  need_positive("loss scale", "factor", options.initial);
  need_at_least("loss scale", "growth interval", static_cast<double>(options.growth_interval), 1);
  factor_.share_among_devices();
  good_.share_among_devices();
}

std::vector<Tensor> LossScale::gradients(const Tensor& loss, const std::vector<Variable>& parameters,
                                         const GradOptions& options) const {
  std::vector<Tensor> found = grad(loss * factor_, parameters, options);
  const Scope scope("loss_scale");
  const Tensor inverse = 1.0 / factor_;  // exact: the factor is a power of two
  for (Tensor& g : found) g = cast(g, DType::f32) * inverse;
  return found;
}

Tensor LossScale::all_finite(const std::vector<Tensor>& gradients) {
  const Scope scope("loss_scale");
  Tensor total;
  for (const Tensor& g : gradients) {
    const Tensor part = sum(abs(cast(g, wide(g.dtype()))));
    total = total.defined() ? total + part : part;
  }
  return is_finite(total);
}

void LossScale::update(const Tensor& sound) const {
  const Scope scope("loss_scale");
  const Tensor good = where(sound, good_ + 1.0, 0.0);
  const Tensor grows = good >= static_cast<double>(options_.growth_interval);
  factor_.assign(where(sound, where(grows, minimum(factor_ * 2.0, kLargest), factor_), factor_ * 0.5));
  good_.assign(where(grows, 0.0, good));
}

double LossScale::factor() const { return static_cast<double>(factor_.array().data<float>()[0]); }
int64_t LossScale::good_steps() const { return static_cast<int64_t>(good_.array().data<float>()[0]); }

}  // namespace freight::optim
