// freight.Array: a view of host memory, or a tensor of the library: while a function is traced (jit), where gradients
// are wanted (grad), and on other devices. Functions that have both do the same on both.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <optional>
#include <string>
#include <vector>

#include "elementwise.h"
#include "freight/ops/signature.h"
#include "freight/trace/tensor.h"
#include "view.h"

namespace nb = nanobind;

namespace freight::python {

struct PyArray {
  View view;                  // no block: a tensor
  Tensor tensor;              // undefined: a view
  bool of_parameter = false;  // a copy that a module has given: x[...] = v changes the parameter, too
  bool on_host() const { return view.block != nullptr; }
  DType dtype() const { return on_host() ? view.dtype : tensor.dtype(); }
  Shape shape() const { return on_host() ? view.shape : Shape(tensor.shape()); }
};

// freight.dtype: one object per element type.
struct PyDType {
  DType type;
};

// Set up by the module.
struct Types {
  nb::handle array, dtype;
  nb::handle dtypes[kDTypeCount];  // the module keeps them
};
Types& types();

nb::object wrap(View view);
nb::object wrap(Tensor tensor);
// The part of the tensor x that _core.FUNCTION(x, *arguments) takes: freight/_views.py repeats writes to one in the
// other.
nb::object wrap_view(nb::handle x, Tensor tensor, const char* function, const nb::tuple& arguments);
nb::object dtype_object(DType dtype);
PyArray* array_or_null(nb::handle h);
nb::object converted(nb::handle h);  // freight.asarray
// The array, or what asarray makes of a list or another library's array, which `made` keeps; null for other objects.
PyArray* array_or_converted(nb::handle h, nb::object& made);
PyArray& array_of(nb::handle h, const char* function, nb::object* made = nullptr);  // TypeError for other objects
// The elements on the host; a tensor is evaluated.
const View& host(const PyArray& a);
// For operations that are recorded, and run later: elements of the host are copied, as their owner may change them.
Tensor tensor_of(const PyArray& a);
Tensor borrowed_tensor(const PyArray& a);  // for operations that are done before the call returns
bool has_traced(nb::handle values);        // a tensor, or a tuple or list that has one
nb::object traced(const char* function);   // of freight/_traced.py, for tensors

// None gives `usual`. Accepts freight's types, Python's, names, and NumPy's.
std::optional<DType> dtype_of(nb::handle h);
nb::tuple tuple_of(const Shape& shape);
std::vector<int64_t> integers_of(nb::handle h, const char* what);  // an int or a sequence of ints
int64_t integer_of(nb::handle h, const char* what);
std::string text_of(nb::handle h);  // of a Python string

// A Python number.
struct Scalar {
  enum class Kind { none, boolean, integer, floating, complex } kind = Kind::none;
  int64_t integer = 0;
  bool beyond_i64 = false, beyond_u64 = false;
  std::complex<double> value;
};
Scalar scalar_of(nb::handle h);
// The element type of an operation on an array of type `dtype` and the number.
DType joined_type(DType dtype, const Scalar& s);
DType usual_type(const Scalar& s);
// One element; OverflowError where the type does not hold the number.
void store(const Scalar& s, DType dtype, char* at);
View scalar_view(const Scalar& s, DType dtype);

nb::object binary(const Elementwise& f, nb::handle a, nb::handle b, bool as_operator);
nb::object unary(const Elementwise& f, nb::handle x);
nb::object in_place(const Elementwise& f, nb::handle a, nb::handle b);
SourceLine python_line();  // of the program that calls the package, for plans and errors
Tensor invoke_named(const char* name, const std::vector<ArgumentValue>& values);

// The parts of the module.
void bind_array(nb::module_& m);
void bind_functions(nb::module_& m);
void bind_linalg(nb::module_& m);
void bind_fft(nb::module_& m);
void bind_exchange(nb::module_& m);
void bind_library(nb::module_& m);
std::vector<PyType_Slot> operator_slots();
// Makes a Python exception of the C++ one that is being handled.
void set_python_error();
void add_buffer_slots(std::vector<PyType_Slot>& slots);
nb::object get_item(nb::handle x, nb::handle key);
void set_item(nb::handle x, nb::handle key, nb::handle value);
// The only element of x as a Python number, and as a truth value; `what` names the conversion in errors.
nb::object scalar_only(const PyArray& x, const char* what);
bool truth(PyArray& x);
nb::object matmul(nb::handle a, nb::handle b, bool as_operator);
nb::object element_object(const View& x, const char* at);
// A view of an object's memory by the buffer protocol or DLPack; nothing where it has neither.
std::optional<View> imported(nb::handle object);

}  // namespace freight::python
