// Variable: a named tensor that lives across steps at a fixed address: parameters, optimizer state, statistics.
// Read it in a trace by using it; replace it by `assign`. Its memory is made, and filled by its initializer, at first
// need: planning and listing a model allocate nothing. A handle: copies name the same variable.
#pragma once
#include <memory>
#include <string>

#include "freight/trace/tensor.h"

namespace freight {

// How a variable is filled at first. Draws are Philox keyed by the seed, the variable's name, and how many
// variables of that name were filled before since seed().
struct Init {
  enum class Kind { constant, uniform, normal, trunc_normal, orthogonal };  // the distributions
  Kind kind = Kind::constant;                                               // of the first values
  double a = 0, b = 0;    // constant: value; uniform: [a, b); normal, trunc_normal (cut at two deviations): mean a,
                          // deviation b; orthogonal: gain a
  int64_t zero_row = -1;  // on axis 0, set to 0 after that; none where negative
  bool identity = false;  // of (out, in, k...): filter i then takes channel i as it is, while there is one; rest drawn
  // For uniform biases of recurrent gates (G H): the second gate's, which keeps the state, become logarithms of numbers
  // of steps between 1 and memory - 1, and with `coupled` the first gate's, which lets inputs in, their negatives.
  // Tallec and Ollivier 2018, arXiv:1804.11188.
  int64_t memory = 0, gates = 1;
  bool coupled = false;  // see `memory`
};

namespace trace {
struct VariableImpl;
}

// A handle of a named tensor that lives across steps; see the top of this file.
class Variable {
 public:
  enum class Role { parameter, state };  // state: not trained (statistics, optimizer state)

  Variable() = default;
  // filled at first need
  Variable(const std::string& name, const Type& type, const Init& init = {}, Role role = Role::state);
  // A variable of the tensor's type, on its device, with a copy of its elements. Evaluates the tensor; throws
  // Error(usage) for one of a function that is being traced.
  Variable(const std::string& name, const Tensor& value, Role role = Role::state);
  // Another handle of the same variable.
  Variable(const Variable& other) : impl_(other.impl_) {}
  Variable(Variable&& other) noexcept : impl_(std::move(other.impl_)), of_module_(other.of_module_) {}
  // Names what `other` names. Assigning to a module's member (decoder.weight = encoder.weight) ties the two: the
  // module's variable is the other one from here on, for everybody who has a handle of it, and its own elements are
  // gone. Throws Error(usage) where their types differ.
  Variable& operator=(Variable other);
  ~Variable() = default;

  bool defined() const { return impl_ != nullptr; }    // false for Variable(), which names nothing
  const std::string& name() const;                     // "fc1.weight"
  void set_name(const std::string& name) const;        // for checkpoints and messages
  const Type& type() const;                            // element type and shape, which never change
  const Shape& shape() const { return type().shape; }  // the extents
  Role role() const;                                   // as it was made
  // True where modules list it among their parameters. Optimizers leave what was set to false alone from then on,
  // though they were given it before; compiled steps that it concerns are traced anew.
  bool trainable() const;
  void set_trainable(bool on) const;  // see trainable()
  // Lives in host memory: compiled steps on a device bring it for its readers alone, and send its next value back. To
  // be said before a step that uses it is compiled.
  void set_on_host(bool on) const;
  bool on_host() const;  // see set_on_host()
  // Where it lies: the device that was current when it was made, until it is moved. Steps that use it run there; those
  // that were compiled before are traced anew when it has moved.
  const std::string& device() const;
  // Moves it. Throws Error(device) for one that is not there, Error(usage) while a step is traced.
  void to_device(const std::string& device) const;
  // Several devices use it from its first use on, a learning rate or a count of steps: its value follows the other
  // operands.
  void share_among_devices() const;

  // The value in the current trace: what was last assigned there, else the stored one.
  Tensor value() const;
  // The transpose of its value, as Tensor::T().
  Tensor T(SourceLine at = SourceLine::current()) const;  // NOLINT(readability-identifier-naming): NumPy's name
  // Readers from here on get `next`; the elements are replaced at the end of the step (compiled) or with the next
  // evaluation. Gradients end at a variable's value: they do not go on through an assignment to what `next` was
  // computed from (hold that tensor and compute with it where they should). Types must be equal.
  void assign(const In& next) const;

  // Host access. Throws Error(usage) while a step is being traced. array() shares the variable's memory.
  Array array() const;
  // Overwrites all elements. Throws Error(usage) where the types differ.
  void set(const Array& value) const;
  void set(double value) const;  // every element
  // The same as set() for an array that nobody else uses from here on: where the variable has no memory yet, it takes
  // the array's.
  void adopt(const Array& value) const;
  // Gives its memory back; at the next need it is made and filled anew. To be said where no compiled step uses it.
  void release() const;

  const std::shared_ptr<trace::VariableImpl>& impl() const;  // for the library
  // The handle that is to be a module's member.
  Variable as_member() const;
  friend bool operator==(const Variable& a, const Variable& b) { return a.impl() == b.impl(); }

 private:
  // The variable; throws Error(usage) naming `op` where there is none.
  const std::shared_ptr<trace::VariableImpl>& need(const char* op) const;
  void set(const Array& value, bool adopt) const;
  void tie(const Variable& other);
  std::shared_ptr<trace::VariableImpl> impl_;
  bool of_module_ = false;
};

// Inside a step: the assignments made so far take effect only where `condition` (bool[], one element) holds; where not,
// floating variables keep their values, and the next step draws this one's random numbers. A training step that met NaN
// leaves its model as it was.
void assign_only_if(const In& condition);

// The variable behind all random ops: i64[2] = (seed, step). Saved and restored with training state.
Variable rng_state();

}  // namespace freight
