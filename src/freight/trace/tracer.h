// Trace: one append-only graph with what its leaves are bound to. Internal to the library: sources of trace, ops and
// nn include it, users do not. Eager traces evaluate themselves; compiled ones are taken apart by compile.cpp.
#pragma once
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "freight/base/error.h"
#include "freight/ir/graph.h"
#include "freight/run/executable.h"
#include "freight/trace/scope.h"
#include "freight/trace/tensor.h"
#include "freight/trace/variable.h"

namespace freight::trace {

class Trace;

struct TensorImpl {
  Type type;
  std::shared_ptr<Trace> trace;  // null once evaluated
  Value value;                   // in the trace
  Array array;                   // once evaluated
};

struct VariableImpl {
  std::string name;
  Type type;
  Init init;
  uint64_t seed = 0, epoch = 0;  // the seed at construction, and which call of seed() set it
  Variable::Role role = Variable::Role::state;
  bool trainable = true;
  bool on_host = false;
  std::shared_ptr<Storage> storage;  // null until somebody needs the elements

  const std::shared_ptr<Storage>& materialize();
};

// A variable inside one trace.
struct StateUse {
  std::shared_ptr<VariableImpl> variable;
  Value leaf, current;
};

// A trace may depend on a flag outside of the graph (train or eval): it is valid only while the flag has this value.
struct Guard {
  std::shared_ptr<const bool> flag;
  bool value = false;
  bool holds() const { return *flag == value; }
};

class Trace : public std::enable_shared_from_this<Trace> {
 public:
  enum class Mode { eager, compile };
  explicit Trace(Mode mode) : mode_(mode) {}

  Mode mode() const { return mode_; }
  Graph& graph() { return graph_; }

  std::vector<Tensor> add(Op op, Attrs attrs, const std::vector<Tensor>& inputs);
  Tensor wrap(Value value);
  // A new input leaf.
  Tensor input(const std::string& name, const Type& type);
  // The value of a tensor in this trace; evaluated tensors become inputs, tensors of older traces are evaluated.
  Value value_of(const Tensor& tensor);
  // The leaf of an evaluated tensor if this trace has read it, else invalid.
  Value find(const Tensor& tensor) const;
  StateUse& use(const std::shared_ptr<VariableImpl>& variable);
  // Assignments made so far take effect only where `condition` (bool[]) holds; of integer states the random one's.
  void guard_assignments(Value condition);
  int64_t next_stream() { return streams_++; }
  void depend_on(const std::shared_ptr<const bool>& flag);

  bool touches_state() const { return !states_.empty(); }
  // Sets graph outputs and updates (with the random state's, where random ops were traced).
  void finish(const std::vector<Value>& outputs);
  // Eager: runs all that is pending; live tensors get their elements.
  void run();

  // After finish: what the leaves are bound to, in order of the graph's leaves. `captured` follows the inputs that
  // input() made.
  std::vector<std::shared_ptr<Storage>> state_storages() const;
  std::vector<std::shared_ptr<VariableImpl>> variables() const;
  const std::vector<Array>& captured() const { return captured_; }
  const std::vector<Guard>& guards() const { return guards_; }

 private:
  Mode mode_;
  Graph graph_;
  std::vector<std::weak_ptr<TensorImpl>> pending_;
  std::vector<Array> captured_;
  std::vector<std::shared_ptr<TensorImpl>> captured_from_;
  std::unordered_map<const TensorImpl*, Value> captured_index_;
  std::vector<StateUse> states_;
  std::unordered_map<const VariableImpl*, size_t> state_index_;
  std::vector<Guard> guards_;
  Value sound_;  // bool[]: whether the conditions of all guard_assignments hold
  int64_t streams_ = 0;
};

// The thread's trace: the one being compiled, else the eager one (made when there is none).
Trace& current();
bool compiling();
// Forgets an eager trace that is being run.
void release(const Trace* trace);
// Runs the thread's eager trace where it has something to run.
void flush();
// While it lives, the thread records into `trace`.
class Recording {
 public:
  explicit Recording(std::shared_ptr<Trace> trace);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  std::shared_ptr<Trace> before_;
};

RunOptions run_options();

// Throws Error(usage) with the current module path and source line.
template <class... Parts>
[[noreturn]] void fail_here(const std::string& op, const Parts&... parts) {
  throw Error(ErrorKind::usage, op, cat(parts...), location());
}

// Shorthands of the ops room: append one node to the current trace.
inline std::vector<Tensor> add(Op op, Attrs attrs, const std::vector<Tensor>& inputs) {
  return current().add(op, std::move(attrs), inputs);
}
inline Tensor one(Op op, Attrs attrs, const std::vector<Tensor>& inputs) {
  return current().add(op, std::move(attrs), inputs)[0];
}
Tensor constant(double value, const Type& type);
// The tensor behind an argument; a number becomes a constant of `dtype`. Throws Error(usage) for an undefined tensor.
Tensor tensor_of(const In& x, const char* op, DType dtype = DType::f32);

}  // namespace freight::trace
