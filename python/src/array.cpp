// freight.Array as a Python type: numbers beside arrays, operators, indexing, conversions; see array.h.
#include "array.h"

#include <cmath>
#include <cstring>

#include "freight/ops/elementwise.h"
#include "freight/ops/indexing.h"
#include "freight/ops/shape.h"
#include "freight/trace/tracer.h"
#include "index.h"
#include "loops.h"

namespace freight::python {

Types& types() {
  static Types t;
  return t;
}

static nb::object wrapped(PyArray array) {
  nb::object o = nb::inst_alloc(types().array);
  new (nb::inst_ptr<PyArray>(o)) PyArray(std::move(array));
  nb::inst_mark_ready(o);
  return o;
}
nb::object wrap(View view) { return wrapped({std::move(view), {}}); }
nb::object wrap(Tensor tensor) { return wrapped({{}, std::move(tensor)}); }

nb::object wrap_view(nb::handle x, Tensor tensor, const char* function, const nb::tuple& arguments) {
  nb::object o = wrap(std::move(tensor));
  nb::module_::import_("freight._views").attr("add")(x, o, function, arguments);
  return o;
}

nb::object dtype_object(DType dtype) { return nb::borrow(types().dtypes[static_cast<size_t>(dtype)]); }

PyArray* array_or_null(nb::handle h) {
  const auto* type = reinterpret_cast<PyTypeObject*>(types().array.ptr());
  if (reinterpret_cast<const PyTypeObject*>(Py_TYPE(h.ptr())) != type &&
      !PyType_IsSubtype(Py_TYPE(h.ptr()), const_cast<PyTypeObject*>(type))) {
    return nullptr;
  }
  return nb::inst_ptr<PyArray>(h);
}

PyArray& array_of(nb::handle h, const char* function, nb::object* made) {
  if (PyArray* a = made ? array_or_converted(h, *made) : array_or_null(h)) return *a;
  if (nb::hasattr(h, "_kept_value")) return array_of(h.attr("_kept_value"), function);
  if (made && nb::hasattr(h, "__array__")) return array_of(*made = converted(h), function);  // numpy.float64
  raise<TypeError>(function, ": expected a freight.Array, got ", nb::str(h.type()).c_str(), ": convert it by asarray");
}

nb::object converted(nb::handle h) { return nb::module_::import_("freight").attr("asarray")(h); }

PyArray* array_or_converted(nb::handle h, nb::object& made) {
  if (PyArray* a = array_or_null(h)) return a;
  if (scalar_of(h).kind != Scalar::Kind::none || PyType_Check(h.ptr())) return nullptr;  // numpy.float64 is a float
  const bool is_list = PyList_Check(h.ptr()) || PyTuple_Check(h.ptr());
  if (!is_list && !nb::hasattr(h, "__array__") && !nb::hasattr(h, "__dlpack__")) return nullptr;
  made = converted(h);
  return &array_of(made, "asarray");
}

const View& host(const PyArray& a) {
  if (a.on_host()) return a.view;
  static thread_local View read;  // valid until the next call
  read = from_array(a.tensor.array());
  return read;
}

Tensor borrowed_tensor(const PyArray& a) { return a.on_host() ? Tensor(to_array(a.view)) : a.tensor; }

Tensor tensor_of(const PyArray& a) {
  if (!a.on_host() || (trace::compiling() && !a.view.block->of_trace)) return borrowed_tensor(a);
  const Array elements = to_array(copy(a.view));
  // A number lies where the other operands do.
  return a.view.shape.rank() == 0 ? In(elements).tensor : Tensor(elements);
}

bool has_traced(nb::handle values) {
  if (PyTuple_Check(values.ptr()) || PyList_Check(values.ptr())) {
    for (nb::handle h : nb::borrow<nb::sequence>(values)) {
      if (has_traced(h)) return true;
    }
    return false;
  }
  const PyArray* a = array_or_null(values);
  return a && !a->on_host();
}

std::optional<DType> dtype_of(nb::handle h) {
  if (h.is_none()) return std::nullopt;
  if (h.type().is(types().dtype)) return nb::inst_ptr<PyDType>(h)->type;
  if (h.ptr() == reinterpret_cast<PyObject*>(&PyFloat_Type)) return DType::f32;
  if (h.ptr() == reinterpret_cast<PyObject*>(&PyLong_Type)) return DType::i64;
  if (h.ptr() == reinterpret_cast<PyObject*>(&PyBool_Type)) return DType::boolean;
  if (h.ptr() == reinterpret_cast<PyObject*>(&PyComplex_Type)) return DType::c64;
  nb::object name = nb::borrow(h);
  if (!nb::isinstance<nb::str>(h)) name = nb::getattr(h, "name", nb::getattr(h, "__name__", nb::none()));
  if (nb::isinstance<nb::str>(name)) {
    const std::string text = text_of(name);
    for (int i = 0; i < kDTypeCount; ++i) {
      if (text == python_name(static_cast<DType>(i)) || text == info(static_cast<DType>(i)).name)
        return static_cast<DType>(i);
    }
  }
  raise<TypeError>("data type ", nb::repr(h).c_str(), " not understood");
}

std::string text_of(nb::handle h) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(h.ptr(), &size);
  if (!text) throw nb::python_error();
  return {text, static_cast<size_t>(size)};
}

nb::tuple tuple_of(const Shape& shape) {
  nb::object t = nb::steal(PyTuple_New(shape.rank()));
  for (int a = 0; a < shape.rank(); ++a) PyTuple_SetItem(t.ptr(), a, PyLong_FromLongLong(shape[a]));
  return nb::borrow<nb::tuple>(t);
}

int64_t integer_of(nb::handle h, const char* what) {
  const nb::object n = nb::steal(PyNumber_Index(h.ptr()));
  if (!n.is_valid()) {
    PyErr_Clear();
    raise<TypeError>(what, ": expected an integer, got ", nb::repr(h).c_str());
  }
  const long long v = PyLong_AsLongLong(n.ptr());
  if (v == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    raise<OverflowError>(what, ": ", nb::repr(h).c_str(), " does not fit in 64 bits");
  }
  return v;
}

std::vector<int64_t> integers_of(nb::handle h, const char* what) {
  std::vector<int64_t> out;
  if (nb::isinstance<nb::tuple>(h) || nb::isinstance<nb::list>(h)) {
    for (nb::handle item : nb::borrow<nb::sequence>(h)) out.push_back(integer_of(item, what));
  } else {
    out.push_back(integer_of(h, what));
  }
  return out;
}

Scalar scalar_of(nb::handle h) {
  Scalar s;
  PyObject* o = h.ptr();
  if (PyBool_Check(o)) {
    s.kind = Scalar::Kind::boolean;
    s.integer = o == Py_True;
    s.value = static_cast<double>(s.integer);
  } else if (PyLong_Check(o)) {
    s.kind = Scalar::Kind::integer;
    int overflow = 0;
    s.integer = PyLong_AsLongLongAndOverflow(o, &overflow);
    s.value = static_cast<double>(s.integer);
    if (overflow) {
      s.value = PyLong_AsDouble(o);
      if (PyErr_Occurred()) {
        PyErr_Clear();
        s.value = overflow > 0 ? HUGE_VAL : -HUGE_VAL;
      }
      const unsigned long long bits = overflow > 0 ? PyLong_AsUnsignedLongLong(o) : 0;
      s.beyond_i64 = true;
      s.beyond_u64 = overflow < 0 || PyErr_Occurred();
      PyErr_Clear();
      s.integer = static_cast<int64_t>(bits);
    }
  } else if (PyFloat_Check(o)) {
    s.kind = Scalar::Kind::floating;
    s.value = PyFloat_AsDouble(o);
  } else if (PyComplex_Check(o)) {
    s.kind = Scalar::Kind::complex;
    s.value = {PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o)};
  }
  return s;
}

DType usual_type(const Scalar& s) {
  switch (s.kind) {
    case Scalar::Kind::boolean: return DType::boolean;
    case Scalar::Kind::integer:
      if (s.beyond_u64) raise<OverflowError>("Python integer does not fit in 64 bits");
      return s.beyond_i64 ? DType::u64 : DType::i64;
    case Scalar::Kind::floating: return DType::f32;
    default: return DType::c64;
  }
}

DType joined_type(DType dtype, const Scalar& s) {
  switch (s.kind) {
    case Scalar::Kind::boolean: return dtype;
    case Scalar::Kind::integer: return dtype == DType::boolean ? usual_type(s) : dtype;
    case Scalar::Kind::floating: return is_floating(dtype) || is_complex(dtype) ? dtype : DType::f32;
    default: return complex_type(dtype);
  }
}

void store(const Scalar& s, DType dtype, char* at) {
  dispatch(dtype, [&]<class T>(T) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (s.kind == Scalar::Kind::complex) raise<TypeError>("a complex number is no ", python_name(dtype));
      if (s.kind == Scalar::Kind::floating) {
        if (!std::isfinite(s.value.real()))
          raise<OverflowError>("cannot convert ", s.value.real(), " to ", python_name(dtype));
        *reinterpret_cast<T*>(at) = element_cast<T>(s.value.real());
        return;
      }
      const bool fits = s.beyond_i64 ? !s.beyond_u64 && std::is_same_v<T, uint64_t> : std::in_range<T>(s.integer);
      if (!fits)
        raise<OverflowError>("Python integer ", s.beyond_i64 ? cat(s.value.real()) : cat(s.integer),
                             " out of bounds for ", python_name(dtype));
      *reinterpret_cast<T*>(at) = static_cast<T>(s.integer);
    } else if constexpr (kIsComplex<T>) {
      *reinterpret_cast<T*>(at) = static_cast<T>(s.value);
    } else if constexpr (std::is_same_v<T, bool>) {
      *reinterpret_cast<T*>(at) = s.value != 0.0;
    } else {
      if (s.kind == Scalar::Kind::complex) raise<TypeError>("a complex number is no ", python_name(dtype));
      *reinterpret_cast<T*>(at) = element_cast<T>(s.value.real());
    }
  });
}

View scalar_view(const Scalar& s, DType dtype) {
  View v(dtype, Shape{});
  store(s, dtype, v.data);
  return v;
}

Tensor invoke_named(const char* name, const std::vector<ArgumentValue>& values) {
  for (const Signature* s : functions_named(name)) {
    if (s->parameters.size() >= values.size()) return invoke(*s, values, python_line())[0];
  }
  raise<TypeError>(name, " is a host function: it works neither in jit and grad nor on other devices");
}

namespace {

// An operand: an array or a number.
struct Operand {
  PyArray* array = nullptr;
  Scalar scalar;
  bool valid() const { return array || scalar.kind != Scalar::Kind::none; }
  bool traced() const { return array && !array->on_host(); }
};

// A number of NumPy, which counts as one of Python where an array takes it in place.
[[gnu::noinline, gnu::cold]] Scalar other_number(nb::handle h) {
  if (!PyObject_HasAttrString(h.ptr(), "dtype") || !PyObject_HasAttrString(h.ptr(), "item")) return {};
  const nb::object rank = nb::getattr(h, "ndim", nb::none());
  return PyLong_Check(rank.ptr()) && PyLong_AsLong(rank.ptr()) == 0 ? scalar_of(h.attr("item")()) : Scalar{};
}

[[gnu::always_inline]] inline Operand operand_of(nb::handle h) {
  Operand o{array_or_null(h), {}};
  if (!o.array) o.scalar = scalar_of(h);
  return o;
}

DType common_type(const Operand& a, const Operand& b) {
  if (a.array && b.array) return promoted(a.array->dtype(), b.array->dtype());
  return a.array ? joined_type(a.array->dtype(), b.scalar) : joined_type(b.array->dtype(), a.scalar);
}

Tensor tensor_in(const Operand& o, DType dtype) {
  if (o.array) return freight::cast(tensor_of(*o.array), dtype);
  return In(to_array(scalar_view(o.scalar, dtype))).tensor;
}

// The library's function; of bool sums, products and the bitwise ones are the logical ones.
std::string library_name(const Elementwise& f, DType dtype) {
  const std::string_view name = f.name;
  if (dtype != DType::boolean) return f.library;
  if (name == "add" || name == "multiply") return name == "add" ? "logical_or" : "logical_and";
  if (!name.starts_with("bitwise_")) return f.library;
  return name == "bitwise_invert" ? "logical_not" : "logical_" + std::string(name.substr(8));
}

Tensor traced_binary(const Elementwise& f, const Operand& a, const Operand& b, DType dtype) {
  if (is_complex(dtype))
    raise<TypeError>(f.name, ": complex numbers work neither in jit and grad nor on other devices");
  return invoke_named(library_name(f, dtype).c_str(), {tensor_in(a, dtype), tensor_in(b, dtype)});
}

// The operand in `dtype`: itself, converted into `made`, or the number in `number`.
const View* view_in(const Operand& o, DType dtype, View& made, std::complex<double>& number) {
  if (o.array) {
    if (o.array->view.dtype == dtype) return &o.array->view;
    made = cast(o.array->view, dtype);
    return &made;
  }
  store(o.scalar, dtype, reinterpret_cast<char*>(&number));
  made.dtype = dtype;
  made.data = reinterpret_cast<char*>(&number);
  return &made;
}

}  // namespace

nb::object unary(const Elementwise& f, nb::handle x) {
  nb::object made;
  PyArray& a = array_of(x, f.name, &made);
  const DType dtype = computed_in(f, a.dtype());
  if (!a.on_host()) {
    if (!*f.library) return made ? made : nb::borrow(x);
    return wrap(invoke_named(library_name(f, dtype).c_str(), {freight::cast(a.tensor, dtype)}));
  }
  return wrap(apply(f, a.view.dtype == dtype ? a.view : cast(a.view, dtype)));
}

// Operands of which some are neither arrays nor numbers, which then are `foreign`, or which are two numbers. A function
// of its own: its code would slow the other one.
[[gnu::noinline, gnu::cold]] static nb::object other_binary(const Elementwise& f, nb::handle left, nb::handle right,
                                                            std::array<nb::handle, 2> foreign, bool as_operator) {
  nb::object a, b;
  if (foreign[0]) array_or_converted(left, a);
  if (foreign[1]) array_or_converted(right, b);
  if (a || b) return binary(f, a ? a : left, b ? b : right, as_operator);
  if (as_operator) return nb::borrow(Py_NotImplemented);
  raise<TypeError>(f.name, ": expected a freight.Array and a second one or a Python number, got ",
                   nb::str(left.type()).c_str(), " and ", nb::str(right.type()).c_str());
}

nb::object binary(const Elementwise& f, nb::handle left, nb::handle right, bool as_operator) {
  const Operand a = operand_of(left), b = operand_of(right);
  if (!a.valid() || !b.valid() || (!a.array && !b.array)) {
    return other_binary(f, left, right, {a.valid() ? nb::handle() : left, b.valid() ? nb::handle() : right},
                        as_operator);
  }
  const DType dtype = computed_in(f, common_type(a, b));
  if (a.traced() || b.traced()) return wrap(traced_binary(f, a, b, dtype));
  View made_a, made_b;
  std::complex<double> number;
  return wrap(apply(f, *view_in(a, dtype, made_a, number), *view_in(b, dtype, made_b, number)));
}

nb::object in_place(const Elementwise& f, nb::handle left, nb::handle right) {
  const Operand a = operand_of(left);
  Operand b = operand_of(right);
  if (!b.valid()) b.scalar = other_number(right);
  if (!a.array || !b.valid()) {
    nb::object made;
    if (a.array) array_or_converted(right, made);
    return made ? in_place(f, left, made) : nb::borrow(Py_NotImplemented);
  }
  const DType dtype = computed_in(f, common_type(a, b));
  if (dtype != a.array->dtype() || f.results[static_cast<size_t>(dtype)] != dtype) {
    raise<TypeError>(f.name, " in place: the result is ", python_name(f.results[static_cast<size_t>(dtype)]),
                     ", the array ", python_name(a.array->dtype()), ": use x = x + y, or astype");
  }
  if (a.traced() || b.traced()) {
    // A traced array gets the new value; the write is part of the function.
    const nb::module_ views = nb::module_::import_("freight._views");
    if (!a.traced()) views.attr("need_own")(left);
    const Tensor y = traced_binary(f, a, b, dtype);
    if (Shape(y.shape()) != a.array->shape())
      raise<ValueError>(f.name, " in place: the result has shape ", to_string(Shape(y.shape())), ", the array ",
                        to_string(a.array->shape()));
    views.attr("write")(left, wrap(y));
    return nb::borrow(left);
  }
  const View& x = a.array->view;
  if (!x.block->writable) raise<ValueError>("output array is read-only");
  View made;
  std::complex<double> number;
  const View* y = view_in(b, dtype, made, number);
  if (broadcast_of(x.shape, y->shape) != x.shape) {
    raise<ValueError>("non-broadcastable output operand with shape ", to_string(x.shape),
                      " doesn't match the broadcast shape ", to_string(broadcast_of(x.shape, y->shape)));
  }
  const bool same = y->data == x.data && y->strides == x.strides && y->shape == x.shape;
  View own;
  if (b.array && !same && may_share_memory(x, *y)) {
    own = copy(*y);
    y = &own;
  }
  apply_into(f, x, x, *y);
  return nb::borrow(left);
}

nb::object element_object(const View& x, const char* at) {
  nb::object out;
  dispatch(x.dtype, [&]<class T>(T) {
    const T v = *reinterpret_cast<const T*>(at);
    if constexpr (std::is_same_v<T, bool>) {
      out = nb::bool_(v);
    } else if constexpr (kIsComplex<T>) {
      out = nb::steal(PyComplex_FromDoubles(v.real(), v.imag()));
    } else if constexpr (kIsHalf<T>) {
      out = nb::float_(static_cast<double>(static_cast<float>(v)));
    } else if constexpr (std::is_floating_point_v<T>) {
      out = nb::float_(static_cast<double>(v));
    } else if constexpr (std::is_signed_v<T>) {
      out = nb::steal(PyLong_FromLongLong(v));
    } else {
      out = nb::steal(PyLong_FromUnsignedLongLong(v));
    }
  });
  return out;
}

// Indexing.
namespace {

SliceIndex slice_of(nb::handle h) {
  Py_ssize_t start = 0, stop = 0, step = 0;
  if (PySlice_Unpack(h.ptr(), &start, &stop, &step) < 0) throw nb::python_error();
  return {start, stop, step};
}

IndexItem item_of(nb::handle h) {
  PyObject* o = h.ptr();
  if (o == Py_None) return NewAxisIndex{};
  if (o == Py_Ellipsis) return EllipsisIndex{};
  if (PySlice_Check(o)) return slice_of(h);
  if (PyBool_Check(o)) {
    View mask(DType::boolean, Shape{});
    *mask.data = o == Py_True;
    return mask;
  }
  if (PyLong_Check(o)) return integer_of(h, "index");
  if (PyArray* a = array_or_null(h)) {
    if (!a->on_host()) return host(*a);
    return a->view;
  }
  if (PyFloat_Check(o) || PyUnicode_Check(o)) {
    raise<IndexError>(
        "only integers, slices (`:`), ellipsis (`...`), None and integer or boolean arrays are valid indices");
  }
  if (nb::isinstance<nb::list>(h) || nb::hasattr(h, "__array__") || nb::hasattr(h, "__dlpack__")) {
    const nb::object made = converted(h);
    View v = array_of(made, "index").view;
    if (v.numel() == 0 && v.dtype == DType::f32) v = cast(v, DType::i64);
    return v;
  }
  if (PyIndex_Check(o)) return integer_of(h, "index");
  raise<IndexError>(
      "only integers, slices (`:`), ellipsis (`...`), None and integer or boolean arrays are valid indices");
}

std::vector<IndexItem> items_of(nb::handle key) {
  std::vector<IndexItem> items;
  if (PyTuple_Check(key.ptr())) {
    for (nb::handle h : nb::borrow<nb::tuple>(key)) items.push_back(item_of(h));
  } else {
    items.push_back(item_of(key));
  }
  return items;
}

}  // namespace

nb::object traced(const char* function) { return nb::module_::import_("freight._traced").attr(function); }

nb::object get_item(nb::handle self, nb::handle key) {
  PyArray& x = *nb::inst_ptr<PyArray>(self);
  if (!x.on_host() || has_traced(key)) return traced("item")(self, key);
  if (PyLong_CheckExact(key.ptr()) && x.view.rank() > 0) return wrap(selected(x.view, 0, integer_of(key, "index")));
  if (PySlice_Check(key.ptr()) && x.view.rank() > 0) return wrap(sliced(x.view, 0, slice_of(key)));
  return wrap(gather(select(x.view, items_of(key))));
}

void set_item(nb::handle self, nb::handle key, nb::handle value) {
  PyArray& x = *nb::inst_ptr<PyArray>(self);
  PyArray* v = array_or_null(value);
  if (!x.on_host() || x.of_parameter || (v && !v->on_host()) || has_traced(key)) {
    traced("assign")(self, key, value);
    return;
  }
  View from = v ? v->view : View();
  nb::object keep;
  if (const Scalar s = scalar_of(value); s.kind != Scalar::Kind::none) {
    from = scalar_view(s, s.kind == Scalar::Kind::complex ? complex_type(x.view.dtype) : x.view.dtype);
  } else if (!v) {
    keep = converted(value);
    from = array_of(keep, "x[...] = v").view;
  }
  scatter(select(x.view, items_of(key)), from);
}

}  // namespace freight::python
