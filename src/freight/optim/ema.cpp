// See ema.h.
#include "freight/optim/ema.h"

#include <algorithm>
#include <set>

#include "freight/base/usage.h"
#include "freight/ops/elementwise.h"
#include "freight/trace/scope.h"
#include "freight/trace/tracer.h"

namespace freight::optim {

EMA::EMA(const nn::Module& net, const EMAOptions& options)
    : options_(options), count_("ema.updates", {DType::f32, {}}) {
  need_below("EMA", "decay", options.decay, 0, 1);
  count_.share_among_devices();
  for (const nn::NamedVariable& v : net.state_dict()) {
    const DeviceScope on(v.variable.device());
    const Variable shadow("ema." + v.name, v.variable.type());
    shadow.set(v.variable.array());
    pairs_.push_back({v.name, v.variable, shadow});
  }
}

void EMA::update() {
  const Scope scope("ema");
  const Tensor t = count_.value() + 1.0;
  count_.assign(t);
  const Tensor decay = options_.warmup ? minimum((t + 1.0) / (t + 10.0), options_.decay) : t * 0.0 + options_.decay;
  for (const Pair& p : pairs_) {
    // What is frozen keeps its value, which its average began with.
    const auto& impl = p.value.impl();
    if (trace::compiling()) trace::Session()->depend_on(std::shared_ptr<const bool>(impl, &impl->frozen));
    if (impl->frozen) continue;
    const Tensor value = p.value.value();
    if (!p.value.trainable()) {
      p.shadow.assign(value);
    } else {
      const Tensor d = cast(decay, value.dtype());
      p.shadow.assign(p.shadow * d + value * (1.0 - d));
    }
  }
}

void EMA::swap() {
  std::set<const void*> done;  // a variable that several paths lead to changes places with its first shadow alone
  for (const Pair& p : pairs_) {
    if (!done.insert(p.value.impl().get()).second) continue;
    const Array value = p.value.array(), shadow = p.shadow.array();
    auto* a = static_cast<unsigned char*>(value.raw());
    std::swap_ranges(a, a + value.bytes(), static_cast<unsigned char*>(shadow.raw()));
  }
}

std::vector<nn::NamedVariable> EMA::state_dict() const {
  std::vector<nn::NamedVariable> out;
  for (const Pair& p : pairs_) out.push_back({p.name, p.shadow});
  out.push_back({"updates", count_});
  return out;
}

}  // namespace freight::optim
