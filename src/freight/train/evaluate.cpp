// See evaluate.h.
#include "freight/train/evaluate.h"

#include <chrono>

#include "freight/base/error.h"
#include "freight/data/loader.h"
#include "freight/models/loss.h"

namespace freight::train {

struct Evaluator::State {
  // (images, labels) -> (summed loss, number right)
  struct Step {
    const models::Model* model;
    std::pair<Tensor, Tensor> operator()(const Tensor& x, const Tensor& y) const {
      const auto [outputs, losses] = models::score(*model, x, y, {.reduction = Reduction::sum});
      return {losses, models::right_count(*model, outputs, y)};
    }
  };
  models::Model& model;
  int64_t batch_size;
  Compiled<Step> step;
};

void need_fit(const models::Model& model, const data::Dataset& set) {
  const auto refuse = [&](const auto&... difference) {
    fail(ErrorKind::usage, "data", "model ", model.name, " does not fit data set ", set.name, ": ", difference...);
  };
  if (model.input.shape != set.sample_shape()) {
    refuse("it takes samples ", model.input.shape, ", got ", set.sample_shape());
  }
  const int64_t outputs = model.classes();
  if (model.loss == models::Loss::mse) {
    const int64_t values = set.labels.numel() / set.count();
    if (set.classification()) refuse("it regresses values (loss mse), the targets are classes");
    if (outputs != values) refuse("it gives ", outputs, " values per sample, the targets have ", values);
  } else {
    if (!set.classification()) {
      refuse("it tells classes (loss cross_entropy), the targets are values; linear_regression, or a spec with ",
             "\"loss\": \"mse\", takes those");
    }
    if (outputs < set.class_count()) refuse("it gives ", outputs, " classes, the data has ", set.class_count());
  }
}

Evaluator::Evaluator(models::Model& model, const CompileOptions& options, int64_t batch_size)
    : state_(new State{model, batch_size, compile(State::Step{&model}, options)}) {}
Evaluator::~Evaluator() = default;

Evaluation Evaluator::run(const data::Dataset& set, const std::function<bool(int64_t, int64_t)>& poll) {
  const auto start = std::chrono::steady_clock::now();
  if (set.count() == 0) fail(ErrorKind::data, set.name, "nothing to evaluate: the ", set.split, " split is empty");
  const bool was_training = state_->model.net->training();
  state_->model.net->eval();
  Evaluation e;
  double right_sum = 0;
  data::Loader loader(set, {.batch_size = state_->batch_size});
  for (data::Batch& b : loader.epoch(0)) {
    const auto [loss, right] = state_->step(b.images, b.labels);
    e.loss += static_cast<double>(loss.item<float>());
    right_sum += static_cast<double>(right.item<float>());
    e.count += b.count;
    if (poll && !poll(e.count, set.count())) break;
  }
  if (was_training) state_->model.net->train();
  e.loss /= static_cast<double>(e.count);
  if (state_->model.loss != models::Loss::mse) e.top1 = 100.0 * right_sum / static_cast<double>(e.count);
  e.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return e;
}

}  // namespace freight::train
