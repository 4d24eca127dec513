// See schedule.h.
#include "freight/optim/schedule.h"

#include <algorithm>
#include <cmath>

#include "freight/base/error.h"
#include "freight/base/usage.h"

namespace freight::optim {

namespace {

constexpr double kPi = 3.14159265358979323846;

double checked_lr(double lr) {
  need_at_least("schedule", "learning rate", lr, 0);
  return lr;
}
int64_t checked_length(int64_t n) {
  need_at_least("schedule", "length in steps", static_cast<double>(n), 1);
  return n;
}
double anneal(Anneal kind, double from, double to, double t) {
  if (kind == Anneal::linear) return from + (to - from) * t;
  return to + (from - to) / 2 * (1 + std::cos(kPi * t));
}

}  // namespace

Schedule Schedule::constant(double lr) { return {Kind::constant, checked_lr(lr)}; }

Schedule Schedule::step(double lr, int64_t size, double gamma) {
  Schedule s(Kind::step, checked_lr(lr));
  s.total_ = checked_length(size);
  s.factor_ = gamma;
  return s;
}

Schedule Schedule::multi_step(double lr, const std::vector<int64_t>& milestones, double gamma) {
  Schedule s(Kind::multi_step, checked_lr(lr));
  s.milestones_ = milestones;
  s.factor_ = gamma;
  return s;
}

Schedule Schedule::cosine(double lr, int64_t total, double min) {
  Schedule s(Kind::cosine, checked_lr(lr));
  s.total_ = checked_length(total);
  s.factor_ = checked_lr(min);
  return s;
}

Schedule Schedule::linear(double lr, int64_t total, double end_factor) {
  Schedule s(Kind::linear, checked_lr(lr));
  s.total_ = checked_length(total);
  s.factor_ = end_factor;
  return s;
}

Schedule Schedule::one_cycle(double max_lr, int64_t total, const OneCycleOptions& options) {
  Schedule s(Kind::one_cycle, checked_lr(max_lr));
  s.total_ = checked_length(total);
  if (!(options.pct_start >= 0 && options.pct_start <= 1) || !(options.div_factor > 0) ||
      !(options.final_div_factor > 0)) {
    fail(ErrorKind::usage, "schedule", "one cycle needs pct_start in [0, 1] and positive divisors: got ",
         options.pct_start, ", ", options.div_factor, ", ", options.final_div_factor);
  }
  s.cycle_ = options;
  return s;
}

Schedule Schedule::warmup(int64_t steps, double start_factor) const {
  need_at_least("schedule", "warm-up steps", static_cast<double>(steps), 0);
  Schedule s = *this;
  s.warmup_ = steps;
  s.start_factor_ = start_factor;
  return s;
}

double Schedule::at(int64_t step) const {
  need_at_least("schedule", "step", static_cast<double>(step), 0);
  if (step >= warmup_) return base(step - warmup_);
  const double t = static_cast<double>(step) / static_cast<double>(warmup_);
  return base(0) * (start_factor_ + (1 - start_factor_) * t);
}

double Schedule::base(int64_t step) const {
  const double t = std::min(1.0, static_cast<double>(step) / static_cast<double>(total_));
  switch (kind_) {
    case Kind::constant: break;
    case Kind::step: {
      const int64_t falls = step / total_;
      return lr_ * std::pow(factor_, static_cast<double>(falls));
    }
    case Kind::multi_step: {
      const auto passed = std::count_if(milestones_.begin(), milestones_.end(), [&](int64_t m) { return m <= step; });
      return lr_ * std::pow(factor_, static_cast<double>(passed));
    }
    case Kind::cosine: return factor_ + (lr_ - factor_) * (1 + std::cos(kPi * t)) / 2;
    case Kind::linear: return lr_ * (1 + (factor_ - 1) * t);
    case Kind::one_cycle: {
      const double first = lr_ / cycle_.div_factor, last = first / cycle_.final_div_factor;
      const double rise = cycle_.pct_start * static_cast<double>(total_) - 1, end = static_cast<double>(total_ - 1);
      const double at = std::min(static_cast<double>(step), end);
      if (at <= rise) return anneal(cycle_.anneal, first, lr_, rise > 0 ? at / rise : 1);
      return anneal(cycle_.anneal, lr_, last, end > rise ? (at - rise) / (end - rise) : 1);
    }
  }
  return lr_;
}

}  // namespace freight::optim
