// Dynamic batching: samples of many requests wait in a queue per model and run together. One thread computes for all
// models, so that there is one pool of compute threads (base/threads.h), and models take turns. What is done with a
// batch (grouping, padding, dividing) is deploy::Predictor's, whose plans are all made before the first request.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "freight/base/array.h"

namespace freight::serve {

class ServedModel;

struct EngineOptions {
  // How long a sample may wait for others; 0: a batch is what has gathered while the last one ran.
  double max_delay_seconds = 0;
};

class Engine {
 public:
  // Makes the plans of all models, and calls `warmed` on the engine's thread after each (model, plans done, of how
  // many); false from it stops. Throws what making a plan throws.
  using Warmed = std::function<bool(const ServedModel&, int64_t done, int64_t all)>;
  Engine(std::vector<ServedModel*> models, const EngineOptions& options, const Warmed& warmed);
  // Answers everything that waits.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // From now on no sample waits for others. Any thread.
  void hurry();

  // f32 (N, outputs) for the samples (ServedModel::samples, or Predictor::sample_of_...); waits for it. Any thread.
  // Throws Busy where too many samples wait already, else what Predictor::run throws.
  Array run(ServedModel& model, std::vector<Array> samples);

  // 64 batches of a model wait: an answer would come late, so that refusing is better.
  struct Busy {};

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace freight::serve
