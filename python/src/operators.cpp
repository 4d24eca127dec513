// The operators of freight.Array as slots of its type, which cost less than methods, and exceptions as Python's.
#include <algorithm>

#include "array.h"
#include "freight/base/error.h"

namespace freight::python {

namespace {

PyObject* python_type(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage: return PyExc_ValueError;
    case ErrorKind::capacity: return PyExc_MemoryError;
    case ErrorKind::data: return PyExc_ValueError;
    case ErrorKind::peer_lost: return PyExc_ConnectionError;
    default: return PyExc_RuntimeError;
  }
}

// The message without a line of the library's sources at its end, "(b, loss.cpp:12)", of which a user of Python has
// none.
std::string without_source(std::string text) {
  const size_t end = text.rfind(".cpp:"), begin = end == std::string::npos ? end : text.find_last_of("(,", end);
  if (begin == std::string::npos || text.find_first_not_of("0123456789", end + 5) != text.size() - 1) return text;
  return text.substr(0, begin - (text[begin] == '(')) + (text[begin] == '(' ? "" : ")");
}

}  // namespace

void set_python_error() {
  try {
    throw;
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const ValueError& e) {
    PyErr_SetString(PyExc_ValueError, e.what());
  } catch (const TypeError& e) {
    PyErr_SetString(PyExc_TypeError, e.what());
  } catch (const IndexError& e) {
    PyErr_SetString(PyExc_IndexError, e.what());
  } catch (const OverflowError& e) {
    PyErr_SetString(PyExc_OverflowError, e.what());
  } catch (const Error& e) {
    PyErr_SetString(python_type(e.kind()), without_source(e.what()).c_str());
  } catch (const std::bad_alloc&) {
    PyErr_SetString(PyExc_MemoryError, "not enough memory for the array");
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
}

namespace {

template <class R, class F>
R guarded(R failed, F&& f) {
  try {
    return f();
  } catch (...) {
    set_python_error();
    return failed;
  }
}

// The name of a row of elementwise_functions(), as an argument of templates.
struct RowName {
  template <size_t N>
  consteval RowName(const char (&name)[N]) {
    std::copy_n(name, N, text);
  }
  char text[24] = {};
};

template <RowName kRow>
PyObject* unary_slot(PyObject* a) {
  static const Elementwise& f = elementwise_function(kRow.text);
  return guarded<PyObject*>(nullptr, [&] { return unary(f, a).release().ptr(); });
}

template <RowName kRow>
PyObject* binary_slot(PyObject* a, PyObject* b) {
  static const Elementwise& f = elementwise_function(kRow.text);
  return guarded<PyObject*>(nullptr, [&] { return binary(f, a, b, true).release().ptr(); });
}

template <RowName kRow>
PyObject* in_place_slot(PyObject* a, PyObject* b) {
  static const Elementwise& f = elementwise_function(kRow.text);
  return guarded<PyObject*>(nullptr, [&] { return in_place(f, a, b).release().ptr(); });
}

PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  const Scalar n = scalar_of(b);
  const PyArray* x = n.value == 2.0 && n.kind != Scalar::Kind::complex ? array_or_null(a) : nullptr;
  if (x && is_floating(x->dtype())) return binary_slot<"multiply">(a, a);
  return binary_slot<"pow">(a, b);
}
PyObject* in_place_power(PyObject* a, PyObject* b, PyObject*) { return in_place_slot<"pow">(a, b); }

PyObject* matmul_slot(PyObject* a, PyObject* b) {
  return guarded<PyObject*>(nullptr, [&] { return matmul(a, b, true).release().ptr(); });
}

PyObject* compare(PyObject* a, PyObject* b, int op) {
  static const Elementwise* const kRows[] = {&elementwise_function("less"),    &elementwise_function("less_equal"),
                                             &elementwise_function("equal"),   &elementwise_function("not_equal"),
                                             &elementwise_function("greater"), &elementwise_function("greater_equal")};
  return guarded<PyObject*>(nullptr, [&] { return binary(*kRows[op], a, b, true).release().ptr(); });
}

PyArray& self(PyObject* o) { return *nb::inst_ptr<PyArray>(o); }

Py_ssize_t length(PyObject* o) {
  const Shape& shape = self(o).shape();
  if (shape.rank() == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of unsized object");
    return -1;
  }
  return static_cast<Py_ssize_t>(shape[0]);
}

PyObject* subscript(PyObject* o, PyObject* key) {
  return guarded<PyObject*>(nullptr, [&] { return get_item(o, key).release().ptr(); });
}

int assign_subscript(PyObject* o, PyObject* key, PyObject* value) {
  if (!value) {
    PyErr_SetString(PyExc_TypeError, "elements of an array cannot be deleted");
    return -1;
  }
  return guarded(-1, [&] {
    set_item(o, key, value);
    return 0;
  });
}

int truth_slot(PyObject* o) {
  return guarded(-1, [&] { return static_cast<int>(truth(self(o))); });
}

template <PyObject* (*kConvert)(PyObject*)>
PyObject* as_number(PyObject* o, const char* what) {
  return guarded<PyObject*>(nullptr, [&] {
    PyArray& x = self(o);
    if (is_complex(x.dtype())) raise<TypeError>(what, ": a complex array is no real number: take real(x)");
    return kConvert(scalar_only(x, what).ptr());
  });
}
PyObject* as_int(PyObject* o) { return as_number<PyNumber_Long>(o, "int"); }
PyObject* as_float(PyObject* o) { return as_number<PyNumber_Float>(o, "float"); }

PyObject* as_index(PyObject* o) {
  return guarded<PyObject*>(nullptr, [&] {
    PyArray& x = self(o);
    if (!is_integer(x.dtype()) || x.shape().rank() != 0) {
      raise<TypeError>("only integer arrays without axes can be converted to an index: got ", python_name(x.dtype()),
                       " of shape ", to_string(x.shape()));
    }
    return scalar_only(x, "index").release().ptr();
  });
}

PyType_Slot slot(int id, auto* f) { return {id, reinterpret_cast<void*>(f)}; }

template <RowName kRow>
void add_binary(std::vector<PyType_Slot>& slots, int id, int in_place_id) {
  slots.push_back(slot(id, binary_slot<kRow>));
  slots.push_back(slot(in_place_id, in_place_slot<kRow>));
}

}  // namespace

std::vector<PyType_Slot> operator_slots() {
  std::vector<PyType_Slot> slots = {slot(Py_nb_power, power),
                                    slot(Py_nb_inplace_power, in_place_power),
                                    slot(Py_nb_matrix_multiply, matmul_slot),
                                    slot(Py_nb_negative, unary_slot<"negative">),
                                    slot(Py_nb_positive, unary_slot<"positive">),
                                    slot(Py_nb_absolute, unary_slot<"abs">),
                                    slot(Py_nb_invert, unary_slot<"bitwise_invert">),
                                    slot(Py_nb_bool, truth_slot),
                                    slot(Py_nb_int, as_int),
                                    slot(Py_nb_float, as_float),
                                    slot(Py_nb_index, as_index),
                                    slot(Py_tp_richcompare, compare),
                                    slot(Py_mp_length, length),
                                    slot(Py_mp_subscript, subscript),
                                    slot(Py_mp_ass_subscript, assign_subscript)};
  add_binary<"add">(slots, Py_nb_add, Py_nb_inplace_add);
  add_binary<"subtract">(slots, Py_nb_subtract, Py_nb_inplace_subtract);
  add_binary<"multiply">(slots, Py_nb_multiply, Py_nb_inplace_multiply);
  add_binary<"divide">(slots, Py_nb_true_divide, Py_nb_inplace_true_divide);
  add_binary<"floor_divide">(slots, Py_nb_floor_divide, Py_nb_inplace_floor_divide);
  add_binary<"remainder">(slots, Py_nb_remainder, Py_nb_inplace_remainder);
  add_binary<"bitwise_and">(slots, Py_nb_and, Py_nb_inplace_and);
  add_binary<"bitwise_or">(slots, Py_nb_or, Py_nb_inplace_or);
  add_binary<"bitwise_xor">(slots, Py_nb_xor, Py_nb_inplace_xor);
  add_binary<"bitwise_left_shift">(slots, Py_nb_lshift, Py_nb_inplace_lshift);
  add_binary<"bitwise_right_shift">(slots, Py_nb_rshift, Py_nb_inplace_rshift);
  return slots;
}

}  // namespace freight::python
