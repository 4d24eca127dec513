// Workload of benchmarks and profiles: a model with an optimizer, its training step (or inference) compiled for a
// device, and a resident batch of random samples. N samples, T tokens, K classes or values.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "freight/models/models.h"
#include "freight/optim/optimizer.h"
#include "freight/run/executable.h"
#include "freight/trace/compile.h"

namespace freight::bench {

// The source of a step's samples.
enum class Batches {
  resident,  // they are on the device already, and the result stays there
  moved,     // from the host before each step, with the result copied back: the cost of a training loop without overlap
};

enum class Pass { training, inference };

struct WorkloadOptions {
  int64_t batch = 64;
  Pass pass = Pass::training;     // inference: frozen weights, no loss
  std::string optimizer = "sgd";  // optim::names()
  CompileOptions compile = {};    // its limit also determines where the optimizer's state is stored
};

// The measured step: forward pass, loss, backward pass and update; for inference what deploy::Predictor runs.
struct WorkloadStep {
  const models::Model* model;
  optim::Optimizer* optimizer;  // null for inference
  Tensor operator()(const Tensor& x, const Tensor& y) const;
};

// Random inputs x (N, ...) and targets y of a batch, the same ones on each call.
std::pair<Array, Array> random_batch(const models::Model& model, int64_t batch);

class Workload {
 public:
  // Traces, plans and allocates weights and memory. Throws the errors of all.
  Workload(models::Model model, const WorkloadOptions& options);
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  const models::Model& model() const { return model_; }
  const Plan& plan() const { return executable_->plan(); }
  Executable& executable() const { return *executable_; }
  // The arguments of executable().run(): inputs x (N, ...) and targets y. Its result is the loss, or probabilities (N,
  // K).
  const std::vector<Array>& inputs() const { return inputs_; }
  const std::vector<Array>& results() const { return results_; }

 private:
  models::Model model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<Compiled<WorkloadStep>> step_;
  Executable* executable_;
  std::vector<Array> inputs_, results_;
};

}  // namespace freight::bench
