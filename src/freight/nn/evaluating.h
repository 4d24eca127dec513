// Evaluating: temporarily puts a network into evaluation mode, for evaluation or prediction between training steps.
#pragma once
#include <utility>
#include <vector>

#include "freight/nn/module.h"

namespace freight::nn {

// Puts a module and all below it into evaluation mode while it lives. The destructor restores the mode of each, since
// a layer may be kept in evaluation mode while the rest of the network is trained.
class Evaluating {
 public:
  // Until its end; `net` must outlive it.
  explicit Evaluating(Module& net) {
    note(net);
    net.eval();
  }
  ~Evaluating() {
    for (const auto& [module, training] : modes_) {
      if (training) {
        module->train();
      } else {
        module->eval();
      }
    }
  }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  void note(Module& m) {
    modes_.emplace_back(&m, m.training());
    for (const Child& c : m.children()) note(*c.module);
  }

  std::vector<std::pair<Module*, bool>> modes_;  // outer modules first, since train() and eval() reach those inside
};

}  // namespace freight::nn
