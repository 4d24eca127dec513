// Dynamic batching: samples of many requests wait in a queue per model and run together. One thread computes for all
// models in turn, so that there is one pool of compute threads (base/threads.h). deploy::Predictor groups, pads and
// divides the samples of networks; its plans are all made before the first request. Rows of a table run in one call.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "freight/base/array.h"

namespace freight::serve {

class ServedModel;

struct EngineOptions {
  // The time that the oldest sample waits for a batch to fill; 0: a batch is what arrived while the previous one ran.
  double max_delay_seconds = 0;  // does not bound the whole wait: 64 full batches may be queued (Busy)
};

class Engine {
 public:
  // Makes the plans of all models. After each it calls `warmed` on the engine's thread (model, plans made, of how
  // many), which returns false to leave the rest to the requests. Throws the errors of making a plan.
  using Warmed = std::function<bool(const ServedModel&, int64_t done, int64_t all)>;
  Engine(std::vector<ServedModel*> models, const EngineOptions& options, const Warmed& warmed);
  // Completes all waiting requests.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Stops samples from waiting for others, from now on. Any thread may call it.
  void hurry();

  // Runs the samples (ServedModel::samples, or Predictor::sample_of_...) and returns the result, f32 (N, outputs), when
  // it is there. Any thread may call it. Throws Busy if too many samples are waiting, and the errors of Predictor::run.
  Array run(ServedModel& model, std::vector<Array> samples);

  // Thrown when 64 batches of a model are waiting: refusing a request is better than a late response.
  struct Busy {};

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace freight::serve
