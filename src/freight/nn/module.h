// Module: parameters and children by name, and a forward function. Names follow PyTorch's state_dict
// ("layer1.0.conv1.weight"). Calling a module pushes its name on the scope of the trace.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "freight/nn/config.h"
#include "freight/trace/tensor.h"
#include "freight/trace/variable.h"

namespace freight::nn {

class Module;

// A module within a module.
struct Child {
  std::string name;                // within the module
  std::shared_ptr<Module> module;  // shared with who made it
};
// A variable under a name.
struct NamedVariable {
  std::string name;   // within the module
  Variable variable;  // a handle
};
// Elements under a name.
struct NamedArray {
  std::string name;  // within the module
  Array array;       // on the host
};

// A layer, a block or a net; see the top of this file.
class Module {
 public:
  Module();  // in training, without parameters
  virtual ~Module();
  Module(Module&&) noexcept;
  Module& operator=(Module&&) noexcept;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Runs forward under the module's name.
  Tensor operator()(const In& x);
  // The module's function. Call it by operator().
  virtual Tensor forward(const Tensor& x) = 0;
  // Type and settings for specs and listings, as the declaration of its class says (layer_type.h); a class that nobody
  // has declared has no spec form, and an empty type.
  Config config() const;

  // Training or evaluation, for this module and all below; a compiled step is traced once for each.
  void train();
  void eval();  // see train()
  // Which of the two; a trace that asks is replayed only while the answer holds.
  bool training() const;

  // All trainable parameters below, in order of registration; each once, however often it is reached.
  std::vector<Variable> parameters() const;
  // All parameters and statistics by their path below this module. A variable that several paths lead to (a layer that
  // is used twice, tied weights) stands under each of them.
  std::vector<NamedVariable> state_dict() const;
  // Sets all values. Throws Error(checkpoint) that lists missing, unexpected and misshapen entries, and names paths to
  // one variable that have different values; nothing is changed then. PyTorch's num_batches_tracked entries are passed
  // over.
  void load_state_dict(const std::vector<NamedArray>& entries, const std::string& source = "state_dict") const;
  // Moves all parameters and statistics below. They lie where they were made until then, and what the module computes
  // runs there. Optimizers take their own state after it at their next step.
  void to_device(const std::string& device) const;
  // Numbers in trainable parameters.
  int64_t parameter_count() const;

  const std::string& name() const { return name_; }                 // within its parent; "" at the top
  const std::vector<Child>& children() const { return children_; }  // in order
  // This module's own variables, by their local names.
  const std::vector<NamedVariable>& variables() const { return variables_; }

 protected:
  // Registers a trained variable f32 and returns it.
  Variable parameter(const std::string& name, const Shape& shape, const Init& init);
  // Registers an untrained variable f32, all of whose elements are `value` at first, and returns it.
  Variable buffer(const std::string& name, const Shape& shape, double value);
  // Makes a child of type T, owned by this module: Linear& fc = add<Linear>("fc", 784, 10).
  template <class T, class... A>
  T& add(const std::string& name, A&&... a) {
    auto child = std::make_shared<T>(std::forward<A>(a)...);
    T& reference = *child;
    adopt(name, std::move(child));
    return reference;
  }
  // Tells the layers that run after this one, inside of the same outermost module, which places of (N, T) are tokens:
  // all up to the last that is not `padding`.
  static void announce_tokens(const Tensor& tokens, int64_t padding);
  // How many tokens each sample has, i32 (N), for x (N, T, ...); undefined where nothing was announced for (N, T).
  static Tensor token_counts(const Tensor& x);
  // A child with an empty name leaves no trace in paths: its own children appear as this module's. A module may be
  // adopted again, here or elsewhere: it keeps the names that the first time gave.
  void adopt(const std::string& name, std::shared_ptr<Module> child);

 private:
  void set_training(bool on);
  void prefix_names(const std::string& prefix, std::set<const void*>& done);
  void collect(const std::string& prefix, std::vector<NamedVariable>& out) const;
  std::string name_;
  bool adopted_ = false;
  std::vector<Child> children_;
  std::vector<NamedVariable> variables_;
  std::shared_ptr<bool> training_;  // shared with the guards of traces
};

// One call of a module, seen by a CallRecorder.
struct ModuleCall {
  const Module* module;  // valid while it lives
  std::string path;      // "layer1.0.conv1"
  Type in, out;          // of its argument and result
};
// While it lives, notes the calls of modules on this thread (outer modules after their children).
class CallRecorder {
 public:
  // Begins to record.
  CallRecorder();
  ~CallRecorder();
  CallRecorder(const CallRecorder&) = delete;
  CallRecorder& operator=(const CallRecorder&) = delete;
  std::vector<ModuleCall> calls;  // in order

 private:
  CallRecorder* before_;
};

}  // namespace freight::nn
