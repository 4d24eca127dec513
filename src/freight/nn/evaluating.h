// Evaluating: for those that measure or ask a net which may be trained on.
#pragma once
#include <utility>
#include <vector>

#include "freight/nn/module.h"

namespace freight::nn {

// Puts a module and all below it into evaluation mode while it lives. Its end, also by an exception, gives each the
// mode that it had: a layer may be kept in evaluation mode while the net around it is trained.
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
