// Learning-rate schedules: pure functions of the step (from 0) to a learning rate, as PyTorch's schedulers give it
// when stepped once per update. The host sets the optimizer's rate from them before each step.
#pragma once
#include <cstdint>
#include <vector>

namespace freight::optim {

enum class Anneal { cosine, linear };  // the way down

// Settings of Schedule::one_cycle.
struct OneCycleOptions {
  double pct_start = 0.3;          // share of the steps in which the rate rises
  double div_factor = 25;          // first rate = max / div_factor
  double final_div_factor = 1e4;   // last rate = first / final_div_factor
  Anneal anneal = Anneal::cosine;  // the form of both phases
};

// A learning rate by the number of the update; see the top of this file.
class Schedule {
 public:
  static Schedule constant(double lr);  // always lr
  // lr * gamma^floor(step / size). PyTorch's StepLR.
  static Schedule step(double lr, int64_t size, double gamma = 0.1);
  // lr * gamma^(milestones passed). PyTorch's MultiStepLR.
  static Schedule multi_step(double lr, const std::vector<int64_t>& milestones, double gamma = 0.1);
  // From lr down to `min` over `total` steps, min afterwards: min + (lr - min) (1 + cos(pi t / total)) / 2.
  // PyTorch's CosineAnnealingLR. Loshchilov and Hutter 2017.
  static Schedule cosine(double lr, int64_t total, double min = 0);
  // From lr to lr * end_factor over `total` steps, constant afterwards. PyTorch's LinearLR from 1.
  static Schedule linear(double lr, int64_t total, double end_factor = 0);
  // PyTorch's OneCycleLR (two phases). Smith and Topin 2017. The momentum is left alone.
  static Schedule one_cycle(double max_lr, int64_t total, const OneCycleOptions& options = {});
  // The first `steps` steps rise linearly from start_factor times this schedule's first rate to that rate; then this
  // schedule begins. PyTorch's LinearLR and SequentialLR.
  Schedule warmup(int64_t steps, double start_factor = 0.01) const;

  // The rate for update number `step`, counted from 0; throws Error(usage) for a negative one. All constructors throw
  // it for rates that are not finite and for lengths below 1.
  double at(int64_t step) const;

 private:
  enum class Kind { constant, step, multi_step, cosine, linear, one_cycle };
  Schedule(Kind kind, double lr) : kind_(kind), lr_(lr) {}
  double base(int64_t step) const;
  Kind kind_;
  double lr_;
  int64_t total_ = 1;
  double factor_ = 1;  // gamma, minimum or end factor
  std::vector<int64_t> milestones_;
  OneCycleOptions cycle_;
  int64_t warmup_ = 0;
  double start_factor_ = 1;
};

}  // namespace freight::optim
