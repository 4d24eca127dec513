// Weight averaging: shadow copies of a module's variables that follow them exponentially inside the step. Evaluate
// with the averages by swapping them in. Polyak and Juditsky 1992; decay warm-up as in common practice.
#pragma once
#include <vector>

#include "freight/nn/module.h"

namespace freight::optim {

// Settings of EMA.
struct EMAOptions {
  double decay = 0.999;  // share of the old average in the new one
  bool warmup = true;  // decay_t = min(decay, (1 + t) / (10 + t)): early averages are not stuck at the initial weights
};

// Averages of a net's weights; see the top of this file.
class EMA {
 public:
  // Follows all parameters and statistics of `net`; shadows begin as copies.
  explicit EMA(const nn::Module& net, const EMAOptions& options = {});
  // Inside a step, after the optimizer: shadow = decay shadow + (1 - decay) value. What is not trained is copied.
  void update();
  // Host side: exchanges the shadows with the net's values (in place); call again to go back.
  void swap();
  // Shadows by the names of the net's variables, and the update count as "updates".
  std::vector<nn::NamedVariable> state_dict() const;

 private:
  struct Pair {
    std::string name;
    Variable value, shadow;
  };
  EMAOptions options_;
  std::vector<Pair> pairs_;
  Variable count_;
};

}  // namespace freight::optim
