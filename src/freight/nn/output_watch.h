// OutputWatch: what modules give while a loss is computed, and the loss's gradients by it. For inspecting nets: norms
// of gradients by layer, maps of what a class looks at (Selvaraju et al. 2017, Grad-CAM).
//
//   nn::OutputWatch seen(conv);
//   const Tensor score = net(x)[{0, 3}];
//   const Tensor slope = seen.gradients(sum(score))[0];  // of seen.outputs()[0]
//
// A compiled function makes the watch inside of it. It reads alone: Module::on_output_gradient and on_gradient
// change gradients.
#pragma once
#include <vector>

#include "freight/nn/module.h"

namespace freight::nn {

// Sees what modules give; see the top of this file.
class OutputWatch {
 public:
  explicit OutputWatch(Module& module) : OutputWatch(std::vector<Module*>{&module}) {}  // one module
  explicit OutputWatch(const std::vector<Module*>& modules);                            // several; they must outlive it

  // All results of all calls so far, in their order.
  const std::vector<Tensor>& outputs() const { return *outputs_; }
  // The gradients of a scalar loss by outputs(), zeros where the loss does not depend on one. Throws Error(usage) where
  // there are none.
  std::vector<Tensor> gradients(const In& loss) const;
  void clear() { outputs_->clear(); }  // forgets all results so far

 private:
  std::shared_ptr<std::vector<Tensor>> outputs_;
  std::vector<HookHandle> hooks_;
};

}  // namespace freight::nn
