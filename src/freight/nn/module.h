// Module: parameters and children by name, and a forward function. Names follow PyTorch's state_dict
// ("layer1.0.conv1.weight"). Calling a module pushes its name on the scope of the trace.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "freight/nn/config.h"
#include "freight/nn/state.h"
#include "freight/trace/scope.h"
#include "freight/trace/tensor.h"
#include "freight/trace/variable.h"

namespace freight::nn {

// Sees a call of a module when its results are there; what it puts into `outputs` takes their place. In a compiled
// function it is called while that is traced, with tensors that have no elements: what it computes of them is part of
// the step, and any other effect happens once per trace.
using OutputHook =
    std::function<void(const Module& module, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs)>;
namespace detail {
// A function that is called as a hook is, but returns something.
template <class F>
concept ReturningHook = std::is_invocable_v < const F&,
        const Module&, const std::vector<Tensor>
&, std::vector<Tensor>& >
       &&!std::is_void_v<
           std::invoke_result_t<const F&, const Module&, const std::vector<Tensor>&, std::vector<Tensor>&>>;
}  // namespace detail
// Gives what takes the place of a gradient: of the same type, or the gradient itself. `index` numbers the module's
// inputs or results. It is called where gradients are asked for; reading elements is refused there.
using GradientHook = std::function<Tensor(const Tensor& gradient, size_t index)>;
struct Hooks;
class Module;
// Takes the module over. A pointer to the base class in one place: std::make_shared is some forty functions to compile
// for each class.
std::shared_ptr<Module> owned(Module* module);

// A hook stays as long as its handle.
class [[nodiscard]] HookHandle {
 public:
  HookHandle() = default;
  HookHandle(std::weak_ptr<Hooks> hooks, int64_t id) : hooks_(std::move(hooks)), id_(id) {}  // for the library
  HookHandle(HookHandle&& other) noexcept;
  HookHandle& operator=(HookHandle&& other) noexcept;
  HookHandle(const HookHandle&) = delete;
  HookHandle& operator=(const HookHandle&) = delete;
  ~HookHandle() { remove(); }
  // Takes the hook away now; compiled steps that it was part of are traced anew.
  void remove();

 private:
  std::weak_ptr<Hooks> hooks_;
  int64_t id_ = -1;
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

  // Runs forward under the module's name. Classes with several inputs, or options: module_of.h.
  Tensor operator()(const In& x);
  // The module's function. Call it by operator().
  virtual Tensor forward(const Tensor& x) = 0;
  // The same for callers that do not know how many inputs and results the class has, as Sequential does.
  std::vector<Tensor> call(const TensorList& inputs, SourceLine at = SourceLine::current());
  // Throws Error(usage) that says how many inputs there must be; here it is one.
  virtual std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs);

  // Has the hook see the results of each call from now on; hooks run in the order in which they came. Add hooks before
  // a step is compiled or between steps, which are then traced anew, or inside of the step and remove them there.
  HookHandle on_output(OutputHook hook);
  // Refused when the program is compiled: the hook returns something, which nobody would look at.
  template <class F>
  requires detail::ReturningHook<F> FREIGHT_REFUSED(
      "what a hook returns is dropped: put the tensor that replaces a result into `outputs`, and return nothing")
  HookHandle on_output(const F&) { return {}; }
  // Lets the hook replace the gradient with respect to each floating result in later calls, as PyTorch's
  // register_full_backward_pre_hook does.
  HookHandle on_output_gradient(GradientHook hook);
  // The same for the gradient with respect to each floating input, as register_full_backward_hook; gradients of the
  // module's own parameters are not affected.
  HookHandle on_input_gradient(GradientHook hook);
  // The number of on_output hooks there are now: what they compute is no part of a stored model.
  size_t output_hooks() const;
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
  // Sets all values, or with .strict = false those whose names both have; what is refused: load_values in state.h.
  LoadResult load_state_dict(const std::vector<NamedArray>& entries, const std::string& source = "state_dict") const;
  LoadResult load_state_dict(const std::vector<NamedArray>& entries, const LoadOptions& options) const;
  // The values of another net: load_state_dict(other.state_dict()).
  LoadResult load_state_dict(const std::vector<NamedVariable>& entries, const LoadOptions& options = {}) const;
  // Moves all parameters and statistics below to a device, where the module then computes; until then they are on the
  // device where they were created. Optimizers move their state at their next step.
  void to_device(const std::string& device) const;
  // Numbers in trainable parameters.
  int64_t parameter_count() const;

  const std::string& name() const { return name_; }                 // within its parent; "" at the top
  const std::vector<Child>& children() const { return children_; }  // in order
  // This module's own variables, by their local names.
  const std::vector<NamedVariable>& variables() const { return variables_; }

 protected:
  // One call of a module, for a class that has an operator() of its own: what is computed while it lives is under the
  // module's name and of the caller's line.
  class Call {
   public:
    Call(const Module& module, const SourceLine& at);  // begins the call
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    // The inputs as forward is to see them: gradients that leave by them pass the hooks.
    std::vector<Tensor> given(std::vector<Tensor> inputs) const;
    // Shows the results to hooks and recorders, and gives back what hooks have made of them. Undefined tensors among
    // the inputs are options that were left out.
    std::vector<Tensor> done(const std::vector<Tensor>& inputs, std::vector<Tensor> outputs) const;

   private:
    const Module& module_;
    Frame frame_;
    Scope scope_;
  };
  // Throws Error(usage) that names the module's path and both numbers.
  [[noreturn]] static void refuse_inputs(size_t got, size_t need);
  // Registers a trained variable f32 and returns it. One with an empty name has the path of the module itself. Throws
  // Error(usage) where another variable has the name.
  Variable parameter(const std::string& name, const Shape& shape, const Init& init);
  // The same with the values that Linear's weight has at first (WeightInit::standard); zeros below two axes.
  Variable parameter(const std::string& name, const Shape& shape);
  // Registers an untrained variable f32, all of whose elements are `value` at first, and returns it.
  Variable buffer(const std::string& name, const Shape& shape, double value);
  // Registers a variable that exists, and returns it.
  Variable own(const std::string& name, Variable variable);
  // Makes a child of type T, owned by this module: Linear& fc = add<Linear>("fc", 784, 10).
  template <class T, class... A>
  requires(sizeof...(A) != 1 || !(std::is_same_v<A, T> && ...)) T& add(const std::string& name, A&&... a) {
    T* const child = new T(std::forward<A>(a)...);
    adopt(name, owned(child));
    return *child;
  }
  // The same of a child that the caller makes, which is moved in: add("conv", Conv2d(1, 4, 3, {.padding = 1})).
  template <class T>
  requires std::is_base_of_v<Module, T> T& add(const std::string& name, T&& module) {
    T* const child = new T(std::forward<T>(module));
    adopt(name, owned(child));
    return *child;
  }
  // Announces to the layers that run after this one, inside of the same outermost module, which positions of (N, T) are
  // tokens: all up to the last that is not `padding`.
  static void announce_tokens(const Tensor& tokens, int64_t padding);
  // How many tokens each sample has, i32 (N), for x (N, T, ...); undefined where nothing was announced for (N, T).
  static Tensor token_counts(const Tensor& x);
  // While one lives, modules that run do not know of one another: each is an outermost one, and its call is a line of
  // the program. For a forward in another language, whose layers read what it hands them, as PyTorch's do.
  class PartsApart {
   public:
    PartsApart();
    ~PartsApart();
    PartsApart(const PartsApart&) = delete;
    PartsApart& operator=(const PartsApart&) = delete;

   private:
    int depth_;
    Shape tokens_;
    Tensor counts_;
    SourceLine caller_;
  };
  // Children with an empty name leave no trace in paths: their own children appear as this module's. A module may be
  // adopted again, here or elsewhere: it keeps the names that the first time gave. Throws Error(usage) for a name that
  // is taken, a null pointer, and a child that is this module or holds it.
  void adopt(const std::string& name, std::shared_ptr<Module> child);

 private:
  struct Renamed;
  // Throws Error(usage) for a module whose parts were moved into another one.
  void need_whole(const char* op) const;
  HookHandle add_hook(const char* op, OutputHook output, GradientHook gradient, bool of_inputs);
  void set_training(bool on);
  void prefix_names(const std::string& prefix, Renamed& done);
  void collect(const std::string& prefix, std::vector<NamedVariable>& out) const;
  std::string name_;
  bool adopted_ = false;
  std::vector<Child> children_;
  std::vector<NamedVariable> variables_;
  std::shared_ptr<bool> training_;  // shared with the guards of traces
  std::shared_ptr<Hooks> hooks_;
};

// While it lives, modules on this thread skip their gradient hooks: for code that compares what networks compute.
class GradientHooksOff {
 public:
  // From here on.
  GradientHooksOff();
  ~GradientHooksOff();
  GradientHooksOff(const GradientHooksOff&) = delete;
  GradientHooksOff& operator=(const GradientHooksOff&) = delete;

 private:
  bool before_;
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
