// Tensor: the only array type of a user. A lazy handle: type now, elements when somebody asks. Operations on tensors
// append nodes to the thread's current trace; `eval`, or reading on the host, plans and runs all that is pending in one
// plan. Inside freight::compile tensors never have elements. What a trace is: tracer.h; named state: variable.h.
// Reading is an observation: it changes no later value or gradient. A tensor keeps the history that gradients go back
// through until its last handle is gone; detach() gives one without.
// Any number of threads may make, read and share tensors; a handle itself is assigned to by one thread at a time.
#pragma once
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "freight/base/array.h"
#include "freight/ir/type.h"
#include "freight/trace/device.h"
#include "freight/trace/source_line.h"

namespace freight {

class Variable;
struct Index;
namespace trace {
struct TensorImpl;
}

namespace trace {
// The extents of nested rows; throws Error(usage) where rows that should be equally long are not.
void take_extent(Shape& shape, int axis, int64_t extent, bool first);

template <class T, class Rows>
void take_rows(std::initializer_list<Rows> rows, int axis, Shape& shape, std::vector<T>& values) {
  take_extent(shape, axis, static_cast<int64_t>(rows.size()), axis == shape.rank());
  for (const Rows& row : rows) {
    if constexpr (std::is_same_v<Rows, T>) {
      values.push_back(row);
    } else {
      take_rows<T>(row, axis + 1, shape, values);
    }
  }
}
template <class T>
using Row = std::initializer_list<T>;
}  // namespace trace

// A handle of an array of numbers; copies name the same one. See the top of this file.
class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  // Assignment is to a tensor with a name alone: to what a function gives, v.value() = x, it would be without effect.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  ~Tensor() = default;
  // A leaf with these elements, on the thread's current device or on the one named; the storage is shared, not copied,
  // and bytes cross over when a device needs them.
  Tensor(const Array& array);
  Tensor(const Array& array, const std::string& device);
  // A leaf with these elements in row-major order; throws Error(usage) when the counts differ.
  template <class T>
  static Tensor of(const std::vector<T>& values, const Shape& shape) {
    return Tensor(Array::of(values, shape));
  }

  // Rows of numbers, nested up to four deep: Tensor::of<float>({{1, 2}, {3, 4}}). Rows must be equally long. Of two
  // readings the deeper one counts: {{1}, {2}} is (2, 1).
  template <class T>
  static Tensor of(trace::Row<T> values) {
    return of_rows<T>(values);
  }
  template <class T>
  static Tensor of(trace::Row<trace::Row<T>> values) {
    return of_rows<T>(values);
  }
  template <class T>
  static Tensor of(trace::Row<trace::Row<trace::Row<T>>> values) {
    return of_rows<T>(values);
  }
  template <class T>
  static Tensor of(trace::Row<trace::Row<trace::Row<trace::Row<T>>>> values) {
    return of_rows<T>(values);
  }

  // Parts of the tensor, as in NumPy: ops/indexing.h.
  const Tensor operator[](const Index& index) const;
  const Tensor operator[](std::initializer_list<Index> indices) const;

  bool defined() const { return impl_ != nullptr; }       // false for Tensor(), which names nothing
  const Type& type() const;                               // element type and shape, known before the elements are
  const Shape& shape() const { return type().shape; }     // the extents
  DType dtype() const { return type().dtype; }            // the element type
  int rank() const { return type().shape.rank(); }        // the number of axes
  int64_t numel() const { return type().shape.numel(); }  // the number of elements
  // Extent of an axis; negative axes count from the back. Throws Error(usage) out of range.
  int64_t dim(int64_t axis) const;

  // Where it lies, and operations on it run.
  const std::string& device() const;
  // The same value on another device, for operations there; the elements cross over when one needs them. Evaluates
  // what is pending. To gradients the two are one value: they go through. Throws Error(device) for an unknown device,
  // and Error(usage) inside a compiled function of another device.
  Tensor to_device(const std::string& device) const;

  // The elements on the host. Evaluates what is pending; throws Error(usage) while a step is being traced.
  // The array shares its storage with the tensor.
  Array array() const;
  // The only element of a tensor with one element, converted to T.
  template <class T>
  T item() const;
  // All elements in row-major order, converted to T.
  template <class T>
  std::vector<T> to_vector() const {
    return array().to_vector<T>();
  }

  // The same elements without history: no gradient goes through it.
  Tensor detach() const;

  // The transpose of a matrix; of a tensor with fewer axes itself. Throws Error(usage) for one with more, of which
  // transpose(x) swaps the last two axes and permute(x, axes) reorders all. Defined in ops/shape.cpp.
  Tensor T(SourceLine at = SourceLine::current()) const;  // NOLINT(readability-identifier-naming): NumPy's name

  // Refused when the program is compiled: `if (x > 0)` would have to read elements.
  FREIGHT_REFUSED("a tensor has no truth value: choose by where(x > 0, a, b), or read one element by item<bool>()")
  explicit operator bool() const { return false; }

  // For the library: what is behind the handle.
  explicit Tensor(std::shared_ptr<trace::TensorImpl> impl) : impl_(std::move(impl)) {}
  const std::shared_ptr<trace::TensorImpl>& impl() const { return impl_; }  // null where undefined

 private:
  template <class T, class Rows>
  static Tensor of_rows(trace::Row<Rows> rows) {
    Shape shape;
    std::vector<T> values;
    trace::take_rows<T>(rows, 0, shape, values);
    return of(values, shape);
  }
  Array single() const;
  std::shared_ptr<trace::TensorImpl> impl_;
};

template <class T>
T Tensor::item() const {
  return single().to_vector<T>()[0];
}
extern template float Tensor::item() const;
extern template double Tensor::item() const;
extern template int32_t Tensor::item() const;
extern template int64_t Tensor::item() const;

// An argument of the library's functions: a tensor, a variable (its current value), an array or a number, together with
// the caller's source line. Beside a tensor a number takes its element type, but for a floating number (also 2.0)
// beside integers, which makes f32 of them, as in PyTorch; a number that the type cannot hold is an Error(usage) naming
// both.
struct In {
  In(const Tensor& t, SourceLine at = SourceLine::current()) : tensor(t), where(at) {}  // a tensor
  In(const Variable& v, SourceLine at = SourceLine::current());                         // its current value
  In(const Array& a, SourceLine at = SourceLine::current());  // lies where the other operands do
  template <class Number>
  requires std::is_arithmetic_v<Number> In(Number v, SourceLine at = SourceLine::current())
      : scalar(static_cast<double>(v)),
        integer(std::is_integral_v<Number> ? static_cast<int64_t>(v) : 0),
        is_number(true),
        is_integer(std::is_integral_v<Number>),
        beyond_i64(std::is_unsigned_v<Number> && static_cast<int64_t>(v) < 0),
        where(at) {}

  Tensor tensor;                               // undefined for a number
  double scalar = 0;                           // the number,
  int64_t integer = 0;                         // and exactly, where it is given as an integer
  bool is_number = false, is_integer = false;  // a number, and one without a decimal point
  bool beyond_i64 = false;                     // 2^63 or more: the bits of `integer` are then those of a u64
  SourceLine where;                            // of the caller
};

// An argument that is a list of tensors: {x, v, array} in braces, where each may be whatever In takes, or a vector.
struct TensorList {
  TensorList() = default;                                       // an empty one
  TensorList(std::initializer_list<In> items) : list(items) {}  // in braces
  TensorList(const std::vector<Tensor>& tensors);               // as they are
  TensorList(const std::vector<Variable>& variables);           // their current values

  std::vector<In> list;  // in order
};

// The elements in NumPy's form: nested brackets, columns under each other, "..." in the middle of more than 1,000.
std::ostream& operator<<(std::ostream& out, const Tensor& x);

// Runs everything pending in the thread's trace: all tensors with a live handle and all assignments of variables.
void eval();
// The same, for readers who want to say which tensors they mean; throws Error(usage) while a step is being traced.
void eval(const Tensor& x);
void eval(const TensorList& xs);

// Seed of all random numbers: random ops of steps and initial values of parameters made after the call.
void seed(uint64_t value);
// Puts the seed and what has been drawn back when it ends: a run with a seed of its own leaves those of the program.
class SeedKept {
 public:
  SeedKept();
  ~SeedKept();
  SeedKept(const SeedKept&) = delete;
  SeedKept& operator=(const SeedKept&) = delete;

 private:
  uint64_t seed_, epoch_;
  int64_t state_[2];
};

// Settings of grad.
struct GradOptions {
  bool allow_unused = false;              // zeros instead of an error
  std::vector<size_t>* unused = nullptr;  // gets the entries without a gradient, of which it allows all but all of them
};
// Gradients of a scalar loss, one tensor per entry and of its type. The loss may have been read before. The gradient of
// a variable is with respect to the value that it has at this point. Throws Error(usage) that names the entry where the
// loss does not depend on it, unless `allow_unused`, which gives zeros.
std::vector<Tensor> grad(const In& loss, const std::vector<Variable>& parameters, const GradOptions& options = {});
// The same with respect to tensors.
std::vector<Tensor> grad(const In& loss, const std::vector<Tensor>& tensors, const GradOptions& options = {});

// Values of variables that are new to gradients: until it ends, readers on this thread get what read() has returned, so
// that a gradient by that is one by what they compute meanwhile, and not by what was computed from the variable before.
// Those on one thread end in the reverse order of their first read().
class Readings {
 public:
  Readings() = default;
  ~Readings() { end(); }
  Readings(const Readings&) = delete;
  Readings& operator=(const Readings&) = delete;
  // The present value of the variable, which all get from now on.
  Tensor read(const Variable& variable);
  void end();  // once; the destructor does it otherwise

 private:
  size_t count_ = 0;
};
// The same for a tensor: its elements, by which only what is computed from the result has a gradient.
Tensor as_new(const In& x);

// The elements of x, with another gradient: what x gets by this tensor is f(g), where g is the sum of what reaches the
// tensor. The gradient by the tensor itself is g. f is called where gradients are asked for, in a compiled function
// while that is traced, and not where the loss does not depend on x; what it computes is part of the graph, and costs
// nothing else. Throws Error(usage) for an x that is no floating tensor; grad throws it where f gives another type than
// g's or an undefined tensor, reads elements, or asks for gradients. PyTorch's register_hook.
Tensor on_gradient(const In& x, std::function<Tensor(const Tensor& gradient)> f);

}  // namespace freight
