// Tracing on a thread depends on this besides its arguments: an operator `x + y` and the call of a module `net(x)` have
// no place for a context. Internal to the library, for sources of trace and nn alone: everything else is passed as an
// argument (run/context.h for the runs of plans).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "freight/base/shape.h"
#include "freight/trace/device.h"
#include "freight/trace/tensor.h"

namespace freight::nn {
class AuxiliaryOutputs;
class CallRecorder;
}  // namespace freight::nn

namespace freight::trace {

class Trace;
struct TensorImpl;
struct VariableImpl;

// Within a Readings (tensor.h), readers of a variable get this value in the compiled function that it was made in, or
// outside of any (null). It is undefined once the variable has been assigned.
struct Reading {
  const VariableImpl* variable;
  const Trace* recording;
  Tensor value;
};

struct ThreadContext {
  // The place in the program: scope.h.
  std::string scope;
  const char* file = nullptr;
  unsigned line = 0;
  const char* function = nullptr;
  // The device of the innermost DeviceScope; null outside of any.
  Device device = nullptr;

  // Calls of modules: how many are under way, who follows them, and what is known of the tokens meanwhile.
  int module_depth = 0;
  nn::CallRecorder* call_recorder = nullptr;
  nn::AuxiliaryOutputs* auxiliary_outputs = nullptr;
  bool gradient_hooks_off = false;
  bool shared_statistics = false, any_batch = false;  // batch_statistics.h
  Shape tokens;
  Tensor token_counts;

  std::vector<Reading> readings;  // the innermost last

  // Tensors whose last trace has gone wait here while another trace goes, so that a chain of traces does not become a
  // chain of calls.
  std::vector<std::shared_ptr<TensorImpl>>* leaving = nullptr;
  // Traces that were kept as history, in the order of their runs, and how many there may be before they are gone
  // through again: twice those that were worth it, so that going through costs little.
  std::vector<std::weak_ptr<Trace>> kept;
  size_t most_kept = 4;

  // The recorded parts. They are the last members, since a trace that goes uses those above.
  int pieces = 0;                             // OnePiece objects that live on this thread
  std::shared_ptr<Trace> recording;           // null outside of compiled functions
  std::vector<std::shared_ptr<Trace>> eager;  // one per device
};

// Of the calling thread.
ThreadContext& thread_context();

}  // namespace freight::trace
