// The operators of freight.Array as slots of its type, which cost less than methods, and exceptions as Python's.
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

#define FREIGHT_BINARY_SLOT(name, row)                                                         \
  PyObject* name(PyObject* a, PyObject* b) {                                                   \
    static const Elementwise& f = elementwise_function(row);                                   \
    return guarded<PyObject*>(nullptr, [&] { return binary(f, a, b, true).release().ptr(); }); \
  }                                                                                            \
  PyObject* inplace_##name(PyObject* a, PyObject* b) {                                         \
    static const Elementwise& f = elementwise_function(row);                                   \
    return guarded<PyObject*>(nullptr, [&] { return in_place(f, a, b).release().ptr(); });     \
  }
FREIGHT_BINARY_SLOT(add, "add")
FREIGHT_BINARY_SLOT(subtract, "subtract")
FREIGHT_BINARY_SLOT(multiply, "multiply")
FREIGHT_BINARY_SLOT(divide, "divide")
FREIGHT_BINARY_SLOT(floor_divide, "floor_divide")
FREIGHT_BINARY_SLOT(remainder, "remainder")
FREIGHT_BINARY_SLOT(power_of, "pow")
FREIGHT_BINARY_SLOT(bit_and, "bitwise_and")
FREIGHT_BINARY_SLOT(bit_or, "bitwise_or")
FREIGHT_BINARY_SLOT(bit_xor, "bitwise_xor")
FREIGHT_BINARY_SLOT(left_shift, "bitwise_left_shift")
FREIGHT_BINARY_SLOT(right_shift, "bitwise_right_shift")
#undef FREIGHT_BINARY_SLOT

PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return power_of(a, b);
}
PyObject* inplace_power(PyObject* a, PyObject* b, PyObject*) { return inplace_power_of(a, b); }

PyObject* matmul_slot(PyObject* a, PyObject* b) {
  return guarded<PyObject*>(nullptr, [&] { return matmul(a, b, true).release().ptr(); });
}

#define FREIGHT_UNARY_SLOT(name, row)                                                \
  PyObject* name(PyObject* a) {                                                      \
    static const Elementwise& f = elementwise_function(row);                         \
    return guarded<PyObject*>(nullptr, [&] { return unary(f, a).release().ptr(); }); \
  }
FREIGHT_UNARY_SLOT(negative, "negative")
FREIGHT_UNARY_SLOT(positive, "positive")
FREIGHT_UNARY_SLOT(absolute, "abs")
FREIGHT_UNARY_SLOT(invert, "bitwise_invert")
#undef FREIGHT_UNARY_SLOT

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

PyObject* as_int(PyObject* o) {
  return guarded<PyObject*>(nullptr, [&] {
    PyArray& x = self(o);
    if (is_complex(x.dtype())) raise<TypeError>("int: a complex array is no real number: take real(x)");
    return PyNumber_Long(scalar_only(x, "int").ptr());
  });
}

PyObject* as_float(PyObject* o) {
  return guarded<PyObject*>(nullptr, [&] {
    PyArray& x = self(o);
    if (is_complex(x.dtype())) raise<TypeError>("float: a complex array is no real number: take real(x)");
    return PyNumber_Float(scalar_only(x, "float").ptr());
  });
}

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

}  // namespace

std::vector<PyType_Slot> operator_slots() {
  const auto slot = [](int id, auto* f) { return PyType_Slot{id, reinterpret_cast<void*>(f)}; };
  return {slot(Py_nb_add, add),
          slot(Py_nb_subtract, subtract),
          slot(Py_nb_multiply, multiply),
          slot(Py_nb_true_divide, divide),
          slot(Py_nb_floor_divide, floor_divide),
          slot(Py_nb_remainder, remainder),
          slot(Py_nb_power, power),
          slot(Py_nb_and, bit_and),
          slot(Py_nb_or, bit_or),
          slot(Py_nb_xor, bit_xor),
          slot(Py_nb_lshift, left_shift),
          slot(Py_nb_rshift, right_shift),
          slot(Py_nb_inplace_add, inplace_add),
          slot(Py_nb_inplace_subtract, inplace_subtract),
          slot(Py_nb_inplace_multiply, inplace_multiply),
          slot(Py_nb_inplace_true_divide, inplace_divide),
          slot(Py_nb_inplace_floor_divide, inplace_floor_divide),
          slot(Py_nb_inplace_remainder, inplace_remainder),
          slot(Py_nb_inplace_power, inplace_power),
          slot(Py_nb_inplace_and, inplace_bit_and),
          slot(Py_nb_inplace_or, inplace_bit_or),
          slot(Py_nb_inplace_xor, inplace_bit_xor),
          slot(Py_nb_inplace_lshift, inplace_left_shift),
          slot(Py_nb_inplace_rshift, inplace_right_shift),
          slot(Py_nb_matrix_multiply, matmul_slot),
          slot(Py_nb_negative, negative),
          slot(Py_nb_positive, positive),
          slot(Py_nb_absolute, absolute),
          slot(Py_nb_invert, invert),
          slot(Py_nb_bool, truth_slot),
          slot(Py_nb_int, as_int),
          slot(Py_nb_float, as_float),
          slot(Py_nb_index, as_index),
          slot(Py_tp_richcompare, compare),
          slot(Py_mp_length, length),
          slot(Py_mp_subscript, subscript),
          slot(Py_mp_ass_subscript, assign_subscript)};
}

}  // namespace freight::python
