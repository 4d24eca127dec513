// Variable: a named tensor that lives across steps at a fixed address: parameters, optimizer state, statistics.
// Read it in a trace by using it; replace it by `assign`. Its memory is made, and filled by its initialiser, at first
// need: planning and listing a model allocate nothing. A handle: copies name the same variable.
#pragma once
#include <memory>
#include <string>

#include "freight/trace/tensor.h"

namespace freight {

// How a variable is filled at first. Draws are Philox keyed by the seed, the variable's name, and how many
// variables of that name were filled before since seed().
struct Init {
  enum class Kind { constant, uniform, normal, trunc_normal, orthogonal };
  Kind kind = Kind::constant;
  double a = 0, b = 0;    // constant: value; uniform: [a, b); normal, trunc_normal (cut at two deviations): mean a,
                          // deviation b; orthogonal: gain a
  int64_t zero_row = -1;  // on axis 0, set to 0 after that; none where negative
  bool identity = false;  // of (out, in, k...): filter i then takes channel i as it is, while there is one; rest drawn
  // Of uniform biases of recurrent gates (G H): the second gate's, which keeps the state, become logarithms of numbers
  // of steps between 1 and memory - 1, and with `coupled` the first gate's, which lets inputs in, their negatives.
  // Tallec and Ollivier 2018, arXiv:1804.11188.
  int64_t memory = 0, gates = 1;
  bool coupled = false;
};

namespace trace {
struct VariableImpl;
}

class Variable {
 public:
  enum class Role { parameter, state };  // state: not trained (statistics, optimizer state)

  Variable() = default;
  Variable(const std::string& name, const Type& type, const Init& init = {}, Role role = Role::state);
  Variable(const Variable& other) : impl_(other.impl_) {}
  Variable(Variable&& other) noexcept : impl_(std::move(other.impl_)), of_module_(other.of_module_) {}
  // Names what `other` names. Assigning to a module's member (decoder.weight = encoder.weight) ties the two: the
  // module's variable is the other one from here on, for everybody who has a handle of it, and its own elements are
  // gone. Throws Error(usage) where their types differ.
  Variable& operator=(Variable other);
  ~Variable() = default;

  bool defined() const { return impl_ != nullptr; }
  const std::string& name() const;
  void set_name(const std::string& name) const;
  const Type& type() const;
  const Shape& shape() const { return type().shape; }
  Role role() const;
  // Whether modules list it among their parameters. Optimizers leave what was set to false alone from then on, though
  // they were given it before; compiled steps that it concerns are traced anew.
  bool trainable() const;
  void set_trainable(bool on) const;
  // Lives in host memory: compiled steps on a device bring it for its readers alone, and send its next value back. To
  // be said before a step that uses it is compiled.
  void set_on_host(bool on) const;
  bool on_host() const;
  // Where it lies: the device that was current when it was made, until it is moved. Steps that use it run there; those
  // that were compiled before are traced anew when it has moved.
  const std::string& device() const;
  void to_device(const std::string& device) const;
  // Several devices use it from its first use on, a learning rate or a count of steps: its value follows the other
  // operands.
  void share_among_devices() const;

  // The value in the current trace: what was last assigned there, else the stored one.
  Tensor value() const;
  // Readers from here on get `next`; the elements are replaced at the end of the step (compiled) or with the next
  // evaluation. Gradients end at a variable's value: they do not go on through an assignment to what `next` was
  // computed from (hold that tensor and compute with it where they should). Types must be equal.
  void assign(const In& next) const;

  // Host access. Throws Error(usage) while a step is being traced. array() shares the variable's memory.
  Array array() const;
  void set(const Array& value) const;
  void set(double value) const;  // every element

  const std::shared_ptr<trace::VariableImpl>& impl() const;
  // The handle that is to be a module's member.
  Variable as_member() const;
  friend bool operator==(const Variable& a, const Variable& b) { return a.impl() == b.impl(); }

 private:
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
