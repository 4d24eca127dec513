// Benchmarks and profiles run this: a model with an optimizer, its training step (or inference) compiled for a device,
// and a resident batch of random samples. N samples, T tokens, K classes or values.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "freight/models/models.h"
#include "freight/optim/optimizer.h"
#include "freight/trace/compile.h"

namespace freight::bench {

// Where the samples of a step come from.
enum class Batches {
  resident,  // they lie on the device already, and the result stays there
  moved,     // from the host before each step, and the result back: what a training loop without overlap pays
};

enum class Pass { training, inference };

struct WorkloadOptions {
  int64_t batch = 64;
  Pass pass = Pass::training;     // inference: frozen weights, no loss
  std::string optimizer = "sgd";  // optim::names()
  CompileOptions compile = {};    // its limit also says where the optimizer's state lies
};

// The step that is measured: forward, loss, backward and update; of inference what deploy::Predictor runs.
struct WorkloadStep {
  const models::Model* model;
  optim::Optimizer* optimizer;  // null: inference
  Tensor operator()(const Tensor& x, const Tensor& y) const;
};

// Random inputs x (N, ...) and targets y of a batch, always the same ones.
std::pair<Array, Array> random_batch(const models::Model& model, int64_t batch);

class Workload {
 public:
  // Traces and plans. Throws what these throw.
  Workload(models::Model model, const WorkloadOptions& options);
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  const models::Model& model() const { return model_; }
  const Plan& plan() const { return *plan_; }
  // Allocates weights and memory at the first call.
  Executable& executable() const { return step_->executable(inputs_[0], inputs_[1]); }
  // For executable().run(): inputs x (N, ...) and targets y; the loss, or probabilities (N, K).
  const std::vector<Array>& inputs() const { return inputs_; }
  const std::vector<Array>& results() const { return results_; }

 private:
  models::Model model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<Compiled<WorkloadStep>> step_;
  std::shared_ptr<const Plan> plan_;
  std::vector<Array> inputs_, results_;
};

}  // namespace freight::bench
