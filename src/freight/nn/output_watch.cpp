// See output_watch.h.
#include "freight/nn/output_watch.h"

#include "freight/base/error.h"
#include "freight/trace/tracer.h"

namespace freight::nn {

OutputWatch::OutputWatch(const std::vector<Module*>& modules) : outputs_(std::make_shared<std::vector<Tensor>>()) {
  if (modules.empty()) fail(ErrorKind::usage, "OutputWatch", "there are no modules to watch");
  for (size_t i = 0; i < modules.size(); ++i) {
    if (!modules[i]) {
      fail(ErrorKind::usage, "OutputWatch", "module ", i, " of ", modules.size(),
           " is a null pointer: expected modules");
    }
  }
  for (Module* module : modules) {
    hooks_.push_back(module->on_output([seen = outputs_](const Module&, const auto&, std::vector<Tensor>& outputs) {
      for (const Tensor& t : outputs) {
        if (t.defined()) seen->push_back(t);
      }
    }));
  }
}

std::vector<Tensor> OutputWatch::gradients(const In& loss) const {
  const Frame frame(loss.where);
  if (outputs_->empty()) {
    trace::fail_here("OutputWatch",
                     "no module was called since the watch began: run the network first, with the watch "
                     "alive");
  }
  return grad(loss, *outputs_, {.allow_unused = true});
}

}  // namespace freight::nn
