// Evaluation: loss and top-1 over a data set, exactly once per sample, with the network in evaluation mode.
#pragma once
#include <functional>
#include <string>

#include "freight/data/dataset.h"
#include "freight/models/models.h"
#include "freight/trace/compile.h"

namespace freight::train {

struct Evaluation {
  int64_t count = 0;
  double loss = 0;  // mean over samples
  double top1 = 0;  // percent
  double seconds = 0;
};

// Keeps the compiled step between calls, so that every epoch replays the same plan.
class Evaluator {
 public:
  // `channels_last` as the loader gives images.
  Evaluator(models::Model& model, const CompileOptions& options, int64_t batch_size);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;
  // `poll` is called between batches; returning false stops and throws Error(runtime, "interrupted").
  Evaluation run(const data::Dataset& set, const std::function<bool(int64_t done, int64_t total)>& poll = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace freight::train
