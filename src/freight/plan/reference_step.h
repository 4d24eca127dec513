// ReferenceStep: a training step of one of the networks that `freight calibrate` measures. It measures by how much
// kernels slow down next to something else, such as ranks of the same host that compute, or collectives.
#pragma once
#include <memory>

namespace freight::plan {

class ReferenceStep {
 public:
  // Plans the step on the default backend.
  ReferenceStep();
  ~ReferenceStep();
  ReferenceStep(const ReferenceStep&) = delete;
  ReferenceStep& operator=(const ReferenceStep&) = delete;

  struct Seconds {
    double products = 0, rest = 0;  // in matmuls and convolutions, and in all other kernels
    double all() const { return products + rest; }
  };
  // Runs once.
  Seconds run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace freight::plan
