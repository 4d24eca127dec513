// See evaluate.h.
#include "freight/train/evaluate.h"

#include <chrono>

#include "freight/base/error.h"
#include "freight/data/loader.h"
#include "freight/ops/ops.h"

namespace freight::train {

struct Evaluator::State {
  // (images, labels) -> (summed loss, number right)
  struct Step {
    nn::Module* net;
    std::pair<Tensor, Tensor> operator()(const Tensor& x, const Tensor& y) const {
      const Tensor logits = (*net)(x);
      const Tensor losses = cross_entropy(logits, y, {.reduction = Reduction::sum});
      const Tensor right = sum(cast(equal(argmax(logits, 1), cast(y, DType::i32)), DType::f32));
      return {losses, right};
    }
  };
  models::Model& model;
  int64_t batch_size;
  Compiled<Step> step;
};

Evaluator::Evaluator(models::Model& model, const CompileOptions& options, int64_t batch_size)
    : state_(new State{model, batch_size, compile(State::Step{model.net.get()}, options)}) {}
Evaluator::~Evaluator() = default;

Evaluation Evaluator::run(const data::Dataset& set, const std::function<bool(int64_t, int64_t)>& poll) {
  const auto start = std::chrono::steady_clock::now();
  if (set.count() == 0) fail(ErrorKind::data, set.name, "nothing to evaluate: the ", set.split, " split is empty");
  const bool was_training = state_->model.net->training();
  state_->model.net->eval();
  Evaluation e;
  data::Loader loader(set, {.batch_size = state_->batch_size});
  for (data::Batch& b : loader.epoch(0)) {
    const auto [loss, right] = state_->step(b.images, b.labels);
    e.loss += static_cast<double>(loss.item<float>());
    e.top1 += static_cast<double>(right.item<float>());
    e.count += b.count;
    if (poll && !poll(e.count, set.count())) break;
  }
  if (was_training) state_->model.net->train();
  e.loss /= static_cast<double>(e.count);
  e.top1 *= 100.0 / static_cast<double>(e.count);
  e.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return e;
}

}  // namespace freight::train
