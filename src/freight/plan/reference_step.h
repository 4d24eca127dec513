// ReferenceStep: a training step of one of the nets that `freight calibrate` measures, for whoever must know by how
// much kernels are slower beside something else: other ranks of the host that compute, or sums that travel.
#pragma once
#include <memory>

namespace freight::plan {

class ReferenceStep {
 public:
  // Plans it, on the default backend.
  ReferenceStep();
  ~ReferenceStep();
  ReferenceStep(const ReferenceStep&) = delete;
  ReferenceStep& operator=(const ReferenceStep&) = delete;

  struct Seconds {
    double products = 0, rest = 0;  // in products of matrices and convolutions, and in all other kernels
    double all() const { return products + rest; }
  };
  // Runs once.
  Seconds run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace freight::plan
