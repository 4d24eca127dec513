// The array class and the functions on views that Python's part of the package is built from. Each gives views of the
// same memory where the standard allows it, and uses the library's function of the same meaning for tensors.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "array.h"
#include "freight/ops/elementwise.h"
#include "loops.h"
#include "reduce.h"

namespace freight::python {

namespace {

// The axes that `axis` means: None is all of them.
std::vector<int> axes_of(nb::handle axis, int rank) {
  std::vector<int> axes;
  if (axis.is_none()) {
    axes.resize(static_cast<size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
  }
  for (const int64_t a : integers_of(axis, "axis")) axes.push_back(checked_axis(a, rank));
  std::vector<int> sorted(axes);
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) raise<ValueError>("duplicate value in 'axis'");
  return axes;
}

std::vector<int64_t> wide(const std::vector<int>& axes) { return {axes.begin(), axes.end()}; }

DType summed_type(DType x, std::optional<DType> given) {
  if (given) return *given;
  if (x == DType::boolean || info(x).kind == NumberKind::signed_integer) return DType::i64;
  return info(x).kind == NumberKind::unsigned_integer ? DType::u64 : x;
}

nb::object reduce_array(int how, nb::handle h, nb::handle axis, bool keepdims, nb::handle dtype) {
  static const char* const kNames[] = {"sum", "prod", "max", "min", "any", "all"};
  const char* name = kNames[how];
  PyArray& x = array_of(h, name);
  const std::vector<int> axes = axes_of(axis, x.shape().rank());
  const auto reduction = static_cast<Reduction>(how);
  DType result = x.dtype();
  const bool adds = reduction == Reduction::sum || reduction == Reduction::prod;
  if (adds) result = summed_type(result, dtype_of(dtype));
  if (!x.on_host()) {
    if (axes.empty()) return nb::borrow(h);
    Tensor t = adds ? freight::cast(x.tensor, result) : x.tensor;
    return wrap(freight::cast(invoke_named(name, {t, wide(axes), keepdims}),
                              reduction == Reduction::any || reduction == Reduction::all ? DType::boolean : result));
  }
  const bool converts = adds && dtype_of(dtype) && result != x.view.dtype;
  View y = reduce(reduction, converts ? cast(x.view, result) : x.view, axes, result);
  return wrap(keepdims ? std::move(y) : drop_axes(y, axes));
}

nb::object running_array(int how, nb::handle h, int64_t axis, nb::handle dtype, bool include_initial) {
  PyArray& x = array_of(h, how == 0 ? "cumulative_sum" : "cumulative_prod");
  const int a = checked_axis(axis, x.shape().rank());
  const DType result = summed_type(x.dtype(), dtype_of(dtype));
  if (!x.on_host()) {
    if (include_initial) raise<TypeError>("include_initial does not work in jit and grad: use concat");
    return wrap(freight::cast(
        invoke_named(how == 0 ? "cumsum" : "cumprod", {freight::cast(x.tensor, result), int64_t{a}}), result));
  }
  const View& v = x.view;
  return wrap(running(how == 0 ? Running::sum : Running::prod, v.dtype == result ? v : cast(v, result), a, result,
                      include_initial));
}

nb::object extreme_array(bool largest, nb::handle h, nb::handle axis, bool keepdims) {
  PyArray& x = array_of(h, largest ? "argmax" : "argmin");
  const int rank = x.shape().rank();
  const bool flat = axis.is_none();
  const int a = flat ? 0 : checked_axis(integer_of(axis, "axis"), rank);
  if (!x.on_host()) {
    Tensor t = flat ? invoke_named("reshape", {x.tensor, std::vector<int64_t>{-1}}) : x.tensor;
    Tensor y = freight::cast(invoke_named(largest ? "argmax" : "argmin", {t, int64_t{a}, keepdims}), DType::i64);
    if (flat && keepdims) y = invoke_named("reshape", {y, std::vector<int64_t>(static_cast<size_t>(rank), 1)});
    return wrap(y);
  }
  const View v = flat ? reshaped(x.view, Shape{x.view.numel()}) : x.view;
  View y = position_of(largest ? Extreme::largest : Extreme::smallest, v, a);
  if (flat) return wrap(reshaped(y, keepdims ? Shape::filled(rank, 1) : Shape{}));
  return wrap(keepdims ? std::move(y) : drop_axes(y, {a}));
}

nb::object sort_array(nb::handle h, int64_t axis, bool descending, bool stable, bool positions) {
  PyArray& x = array_of(h, positions ? "argsort" : "sort");
  const int a = checked_axis(axis, x.shape().rank());
  if (!x.on_host()) {
    const std::vector<ArgumentValue> values{x.tensor, int64_t{a}, std::string(descending ? "descending" : "ascending")};
    return wrap(positions ? freight::cast(invoke_named("argsort", values), DType::i64) : invoke_named("sort", values));
  }
  const SortOptions options{descending, stable};
  return wrap(positions ? argsort(x.view, a, options) : sort(x.view, a, options));
}

nb::object astype(nb::handle h, nb::handle dtype, bool always) {
  PyArray& x = array_of(h, "astype");
  const DType to = dtype_of(dtype).value_or(x.dtype());
  if (to == x.dtype() && !always) return nb::borrow(h);
  if (!x.on_host()) return wrap(freight::cast(x.tensor, to));
  return wrap(cast(x.view, to));
}

nb::object reshape(nb::handle h, nb::handle shape, nb::handle copies) {
  PyArray& x = array_of(h, "reshape");
  std::vector<int64_t> sizes = integers_of(shape, "shape");
  const int64_t count = x.shape().numel();
  int64_t known = 1;
  int unknown = -1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1 && unknown < 0) {
      unknown = static_cast<int>(i);
    } else if (sizes[i] < 0) {
      raise<ValueError>("can only specify one unknown dimension, and no other negative ones");
    } else {
      known *= sizes[i];
    }
  }
  if (unknown >= 0) {
    if (known == 0 || count % known)
      raise<ValueError>("cannot reshape array of size ", count, " into shape ", nb::repr(shape).c_str());
    sizes[static_cast<size_t>(unknown)] = count / known;
  }
  const Shape to = checked_shape(sizes, x.dtype());
  if (to.numel() != count)
    raise<ValueError>("cannot reshape array of size ", count, " into shape ", nb::repr(shape).c_str());
  if (!x.on_host()) return wrap_view(x, invoke_named("reshape", {x.tensor, sizes}));
  if (!copies.is_none() && nb::cast<bool>(copies)) return wrap(reshaped_view(copy(x.view), to));
  if (copies.is_none()) return wrap(reshaped(x.view, to));
  View y = reshaped_view(x.view, to);
  if (!y.block) raise<ValueError>("reshape: this layout needs a copy, and copy=False forbids it");
  return wrap(std::move(y));
}

nb::object permute_dims(nb::handle h, nb::handle axes) {
  PyArray& x = array_of(h, "permute_dims");
  const std::vector<int> order = axes_of(axes, x.shape().rank());
  if (static_cast<int>(order.size()) != x.shape().rank()) raise<ValueError>("axes don't match array");
  if (!x.on_host()) return wrap_view(x, invoke_named("permute", {x.tensor, wide(order)}));
  return wrap(permuted(x.view, order));
}

// None reverses all axes.
nb::object transposed(nb::handle h, bool matrix) {
  PyArray& x = array_of(h, "transpose");
  const int rank = x.shape().rank();
  if (matrix && rank < 2)
    raise<ValueError>("matrix_transpose: needs at least two axes, got shape ", to_string(x.shape()));
  std::vector<int> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  if (matrix) {
    std::swap(order[order.size() - 1], order[order.size() - 2]);
  } else {
    std::reverse(order.begin(), order.end());
  }
  if (!x.on_host()) return wrap_view(x, invoke_named("permute", {x.tensor, wide(order)}));
  return wrap(permuted(x.view, order));
}

nb::object broadcast_to(nb::handle h, nb::handle shape) {
  PyArray& x = array_of(h, "broadcast_to");
  const std::vector<int64_t> sizes = integers_of(shape, "shape");
  if (!x.on_host()) return wrap_view(x, invoke_named("broadcast_to", {x.tensor, sizes}));
  return wrap(broadcast(x.view, checked_shape(sizes, x.view.dtype)));
}

nb::object diagonal(nb::handle h, int64_t offset) {
  PyArray& x = array_of(h, "diagonal");
  if (!x.on_host()) return wrap_view(x, invoke_named("diagonal", {x.tensor, offset}));
  return wrap(diagonal_view(x.view, offset));
}

nb::object concat(nb::handle arrays, nb::handle axis) {
  std::vector<PyArray*> parts;
  bool traced = false;
  for (nb::handle h : nb::borrow<nb::sequence>(arrays)) {
    parts.push_back(&array_of(h, "concat"));
    traced = traced || !parts.back()->on_host();
  }
  if (parts.empty()) raise<ValueError>("need at least one array to concatenate");
  DType dtype = parts[0]->dtype();
  for (const PyArray* p : parts) dtype = promoted(dtype, p->dtype());
  const int a = axis.is_none() ? 0 : checked_axis(integer_of(axis, "axis"), parts[0]->shape().rank());
  if (traced) {
    std::vector<Tensor> tensors;
    for (const PyArray* p : parts) {
      Tensor t = freight::cast(tensor_of(*p), dtype);
      tensors.push_back(axis.is_none() ? invoke_named("reshape", {t, std::vector<int64_t>{-1}}) : t);
    }
    return wrap(invoke_named("concat", {tensors, int64_t{a}}));
  }
  std::vector<View> views;
  for (const PyArray* p : parts) views.push_back(axis.is_none() ? reshaped(p->view, Shape{p->view.numel()}) : p->view);
  Shape shape = views[0].shape;
  shape[a] = 0;
  for (const View& v : views) {
    Shape other = v.shape;
    if (other.rank() == shape.rank()) other[a] = 0;
    Shape rest = shape;
    rest[a] = 0;
    if (other != rest) {
      raise<ValueError>(
          "all the input array dimensions except for the concatenation axis must match exactly: got shapes ",
          to_string(views[0].shape), " and ", to_string(v.shape));
    }
    shape[a] += v.shape[a];
  }
  View y(dtype, shape);
  int64_t at = 0;
  for (const View& v : views) {
    assign(sliced(y, a, at, 1, v.shape[a]), v);
    at += v.shape[a];
  }
  return wrap(std::move(y));
}

nb::object where_array(nb::handle condition, nb::handle left, nb::handle right) {
  PyArray& c = array_of(condition, "where");
  if (c.dtype() != DType::boolean) raise<TypeError>("where: the condition must be bool, got ", python_name(c.dtype()));
  PyArray *a = array_or_null(left), *b = array_or_null(right);
  const Scalar sa = a ? Scalar{} : scalar_of(left), sb = b ? Scalar{} : scalar_of(right);
  if ((!a && sa.kind == Scalar::Kind::none) || (!b && sb.kind == Scalar::Kind::none)) {
    raise<TypeError>("where: expected arrays or Python numbers, got ", nb::str(left.type()).c_str(), " and ",
                     nb::str(right.type()).c_str());
  }
  const DType dtype = a && b ? promoted(a->dtype(), b->dtype())
                      : a    ? joined_type(a->dtype(), sb)
                      : b    ? joined_type(b->dtype(), sa)
                             : promoted(usual_type(sa), usual_type(sb));
  if (!c.on_host() || (a && !a->on_host()) || (b && !b->on_host())) {
    const auto in = [&](PyArray* p, const Scalar& s) {
      return p ? freight::cast(tensor_of(*p), dtype) : Tensor(to_array(scalar_view(s, dtype)));
    };
    return wrap(invoke_named("where", {tensor_of(c), in(a, sa), in(b, sb)}));
  }
  const auto in = [&](PyArray* p, const Scalar& s) {
    return !p ? scalar_view(s, dtype) : p->view.dtype == dtype ? p->view : cast(p->view, dtype);
  };
  return wrap(where(c.view, in(a, sa), in(b, sb)));
}

// Nested lists of numbers: extents, then the numbers in order.
void measure(nb::handle h, std::vector<int64_t>& shape) {
  while (PyList_Check(h.ptr()) || PyTuple_Check(h.ptr())) {
    const auto n = static_cast<int64_t>(PySequence_Size(h.ptr()));
    shape.push_back(n);
    if (shape.size() > Shape::kMaxRank) raise<ValueError>("an array has at most ", Shape::kMaxRank, " axes");
    if (n == 0) return;
    h = PyList_Check(h.ptr()) ? PyList_GetItem(h.ptr(), 0) : PyTuple_GetItem(h.ptr(), 0);
  }
}

void collect(nb::handle h, const std::vector<int64_t>& shape, size_t axis, std::vector<Scalar>& out) {
  const bool is_list = PyList_Check(h.ptr()) || PyTuple_Check(h.ptr());
  if (axis == shape.size()) {
    if (is_list) raise<ValueError>("setting an array element with a sequence: the nested lists differ in depth");
    Scalar s = scalar_of(h);
    if (s.kind == Scalar::Kind::none) {
      const nb::object n = nb::steal(PyNumber_Index(h.ptr()));
      if (n.is_valid()) {
        s = scalar_of(n);
      } else {
        PyErr_Clear();
        raise<TypeError>("asarray: expected numbers, got ", nb::str(h.type()).c_str());
      }
    }
    out.push_back(s);
    return;
  }
  if (!is_list || static_cast<int64_t>(PySequence_Size(h.ptr())) != shape[axis]) {
    raise<ValueError>("setting an array element with a sequence: the nested lists have an inhomogeneous shape after ",
                      axis, " dimensions");
  }
  for (Py_ssize_t i = 0; i < shape[axis]; ++i) {
    collect(PyList_Check(h.ptr()) ? PyList_GetItem(h.ptr(), i) : PyTuple_GetItem(h.ptr(), i), shape, axis + 1, out);
  }
}

nb::object from_nested(nb::handle object, nb::handle dtype) {
  std::vector<int64_t> sizes;
  measure(object, sizes);
  std::vector<Scalar> values;
  collect(object, sizes, 0, values);
  std::optional<DType> type = dtype_of(dtype);
  if (!type) {
    if (values.empty()) type = DType::f32;
    for (const Scalar& s : values) {
      if (!type) {
        type = usual_type(s);
      } else if (const DType next = usual_type(s);
                 (next == DType::u64 && *type == DType::i64) || (next == DType::i64 && *type == DType::u64)) {
        type = DType::u64;
      } else {
        type = promoted(*type, next);
      }
    }
  }
  View v(*type, checked_shape(sizes, *type));
  char* at = v.data;
  for (const Scalar& s : values) {
    store(s, *type, at);
    at += v.item_size();
  }
  return wrap(std::move(v));
}

nb::object empty(nb::handle shape, nb::handle dtype) {
  const DType type = dtype_of(dtype).value_or(DType::f32);
  const Shape s = checked_shape(integers_of(shape, "shape"), type);
  return wrap(View(type, s));
}

nb::object full(nb::handle shape, nb::handle value, nb::handle dtype) {
  Scalar s = scalar_of(value);
  std::optional<DType> type = dtype_of(dtype);
  if (s.kind == Scalar::Kind::none) {
    PyArray& a = array_of(value, "full");
    if (a.shape().rank() != 0) raise<ValueError>("full: the value must be a number or an array without axes");
    const DType to = type.value_or(a.dtype());
    View y(to, checked_shape(integers_of(shape, "shape"), to));
    assign(y, host(a));
    return wrap(std::move(y));
  }
  const DType to = type.value_or(usual_type(s));
  View y(to, checked_shape(integers_of(shape, "shape"), to));
  const View one = scalar_view(s, to);
  const bool zero = std::all_of(one.data, one.data + one.item_size(), [](char c) { return c == 0; });
  if (zero) {
    std::memset(y.data, 0, static_cast<size_t>(y.numel()) * y.item_size());
  } else {
    assign(y, one);
  }
  return wrap(std::move(y));
}

nb::object arange(nb::handle start, nb::handle stop, nb::handle step, nb::handle dtype) {
  const Scalar a = scalar_of(start), b = scalar_of(stop), d = scalar_of(step);
  for (const Scalar* s : {&a, &b, &d}) {
    if (s->kind == Scalar::Kind::none || s->kind == Scalar::Kind::complex)
      raise<TypeError>("arange: start, stop and step must be real Python numbers");
  }
  const bool floats =
      a.kind == Scalar::Kind::floating || b.kind == Scalar::Kind::floating || d.kind == Scalar::Kind::floating;
  const DType type = dtype_of(dtype).value_or(floats ? DType::f32 : DType::i64);
  if (d.value == 0.0) raise<ValueError>("arange: step must not be zero");
  int64_t n = 0;
  if (floats) {
    const double count = std::ceil((b.value.real() - a.value.real()) / d.value.real());
    if (!(count < 9e18)) raise<ValueError>("arange: cannot compute length");
    n = count > 0 ? static_cast<int64_t>(count) : 0;
  } else {
    const __int128 distance = static_cast<__int128>(b.integer) - a.integer, by = d.integer;
    const __int128 count = (by > 0 ? distance + by - 1 : distance + by + 1) / by;
    n = count > 0 ? static_cast<int64_t>(count) : 0;
  }
  View y(type, checked_shape({n}, type));
  dispatch(type, [&]<class T>(T) {
    auto* p = reinterpret_cast<T*>(y.data);
    if constexpr (std::is_integral_v<T>) {
      if (!floats) {
        for (int64_t i = 0; i < n; ++i) p[i] = static_cast<T>(a.integer + i * d.integer);
        return;
      }
    }
    for (int64_t i = 0; i < n; ++i) p[i] = element_cast<T>(a.value.real() + static_cast<double>(i) * d.value.real());
  });
  return wrap(std::move(y));
}

nb::object unique_array(nb::handle h) {
  const Unique u = unique(host(array_of(h, "unique")));
  return nb::make_tuple(wrap(u.values), wrap(u.indices), wrap(u.inverse), wrap(u.counts));
}

nb::object nonzero_array(nb::handle h) {
  PyArray& x = array_of(h, "nonzero");
  if (x.shape().rank() == 0) raise<ValueError>("nonzero: an array without axes has no positions");
  nb::list out;
  for (View& v : nonzero(host(x))) out.append(wrap(std::move(v)));
  return nb::tuple(out);
}

nb::object searchsorted_array(nb::handle sorted, nb::handle values, bool right, nb::handle sorter) {
  PyArray &a = array_of(sorted, "searchsorted"), &b = array_of(values, "searchsorted");
  if (a.shape().rank() != 1)
    raise<ValueError>("searchsorted: the sorted array must have one axis, got shape ", to_string(a.shape()));
  const DType type = promoted(a.dtype(), b.dtype());
  if (!a.on_host() || !b.on_host()) {
    return wrap(freight::cast(
        invoke_named("searchsorted", {freight::cast(tensor_of(a), type), freight::cast(tensor_of(b), type),
                                      std::string(right ? "right" : "left")}),
        DType::i64));
  }
  View order;
  if (!sorter.is_none()) {
    const View& given = host(array_of(sorter, "searchsorted"));
    if (!is_integer(given.dtype) || given.rank() != 1 || given.shape[0] != a.view.shape[0])
      raise<ValueError>("searchsorted: sorter must be integers, as many as there are sorted elements");
    order = cast(given, DType::i64);
  }
  return wrap(searchsorted(cast(a.view, type), cast(b.view, type), right, order));
}

nb::object part(nb::handle h, int which) {
  PyArray& x = array_of(h, which ? "imag" : "real");
  if (!is_complex(x.dtype())) {
    if (which == 0) return nb::borrow(h);
    if (!x.on_host()) return wrap(freight::cast(invoke_named("zeros", {x.tensor.shape().vector()}), x.dtype()));
    View zeros(x.view.dtype, x.view.shape);
    std::memset(zeros.data, 0, static_cast<size_t>(zeros.numel()) * zeros.item_size());
    return wrap(std::move(zeros));
  }
  return wrap(part_of_complex(x.view, which));
}

nb::object to_list(const View& x, const char* at, int axis) {
  if (axis == x.rank()) return element_object(x, at);
  nb::list out;
  for (int64_t i = 0; i < x.shape[axis]; ++i) {
    out.append(to_list(x, at + i * x.strides[axis] * static_cast<int64_t>(x.item_size()), axis + 1));
  }
  return out;
}

// The only element.
nb::object item(PyArray& x, const char* what) {
  const View& v = host(x);
  if (v.numel() != 1)
    raise<TypeError>(what, ": only arrays with one element can be converted to a Python number: got shape ",
                     to_string(v.shape));
  return element_object(v, v.data);
}

}  // namespace

nb::object scalar_only(PyArray& x, const char* what) {
  if (x.shape().rank() != 0 && x.shape().numel() != 1)
    raise<TypeError>(what, ": only arrays with one element can be converted to a Python number: got shape ",
                     to_string(x.shape()));
  return item(x, what);
}

bool truth(PyArray& x) {
  if (x.shape().numel() != 1) {
    raise<ValueError>("The truth value of an array with ", x.shape().numel(),
                      " elements is ambiguous. Use freight.any(x) or freight.all(x)");
  }
  const nb::object o = item(x, "bool");
  return PyObject_IsTrue(o.ptr()) == 1;
}

void bind_array(nb::module_& m) {
  nb::class_<PyDType> dtype(m, "dtype", "An element type: freight.float32 and the others.");
  dtype.def_prop_ro("name", [](const PyDType& d) { return python_name(d.type); })
      .def_prop_ro("itemsize", [](const PyDType& d) { return size_of(d.type); })
      .def("__repr__", [](const PyDType& d) { return cat("freight.", python_name(d.type)); })
      .def("__str__", [](const PyDType& d) { return python_name(d.type); });
  types().dtype = dtype;
  for (int i = 0; i < kDTypeCount; ++i) {
    const nb::object made = nb::cast(PyDType{static_cast<DType>(i)});
    types().dtypes[i] = made;
    m.attr(python_name(static_cast<DType>(i))) = made;
  }

  std::vector<PyType_Slot> slots = operator_slots();
  add_buffer_slots(slots);
  slots.push_back({0, nullptr});
  nb::class_<PyArray> array(m, "Array", nb::type_slots(slots.data()), nb::is_weak_referenceable(),
                            "An n-dimensional array; made by asarray, zeros and the other functions.");
  types().array = array;
  array
      .def_prop_ro(
          "dtype", [](const PyArray& x) { return dtype_object(x.dtype()); }, "the element type")
      .def_prop_ro(
          "shape", [](const PyArray& x) { return tuple_of(x.shape()); }, "the sizes of the axes")
      .def_prop_ro(
          "ndim", [](const PyArray& x) { return x.shape().rank(); }, "the number of axes")
      .def_prop_ro(
          "size", [](const PyArray& x) { return x.shape().numel(); }, "the number of elements")
      .def_prop_ro(
          "itemsize", [](const PyArray& x) { return size_of(x.dtype()); }, "bytes of an element")
      .def_prop_ro(
          "nbytes", [](const PyArray& x) { return x.shape().numel() * static_cast<int64_t>(size_of(x.dtype())); },
          "bytes of all elements")
      .def_prop_ro(
          "strides",
          [](const PyArray& x) {
            Strides s = host(x).strides;
            for (int64_t& v : s) v *= static_cast<int64_t>(size_of(x.dtype()));
            return tuple_of(s);
          },
          "bytes between neighbors along each axis")
      .def_prop_ro(
          "device", [](const PyArray& x) { return x.on_host() ? std::string("cpu") : x.tensor.device(); },
          "where it is: \"cpu\", \"cuda:0\"")
      .def_prop_ro(
          "T", [](nb::handle x) { return transposed(x, false); }, "the axes in reverse order, a view")
      .def_prop_ro(
          "mT", [](nb::handle x) { return transposed(x, true); }, "the last two axes swapped, a view")
      .def_prop_ro(
          "real", [](nb::handle x) { return part(x, 0); }, "the real part, a view")
      .def_prop_ro(
          "imag", [](nb::handle x) { return part(x, 1); }, "the imaginary part, a view")
      .def_prop_ro("_on_host", [](const PyArray& x) { return x.on_host(); })
      .def_prop_ro("_address", [](const PyArray& x) { return reinterpret_cast<uintptr_t>(host(x).data); })
      .def("_share_memory",
           [](const PyArray& x, const PyArray& y) {
             return x.on_host() && y.on_host() && may_share_memory(x.view, y.view);
           })
      .def(
          "item", [](PyArray& x) { return item(x, "item"); }, "the only element as a Python number")
      .def(
          "tolist",
          [](PyArray& x) {
            const View v = host(x);
            return to_list(v, v.data, 0);
          },
          "nested lists of Python numbers")
      .def("__complex__", [](PyArray& x) {
        const nb::object o = scalar_only(x, "complex");
        const double re = PyComplex_RealAsDouble(o.ptr()), im = PyComplex_ImagAsDouble(o.ptr());
        return nb::steal(PyComplex_FromDoubles(re, im));
      });
}

void bind_functions(nb::module_& m) {
  nb::module_ e = m.def_submodule("elementwise");
  for (const Elementwise& f : elementwise_functions()) {
    if (f.operands == 1) {
      e.def(f.name, [&f](nb::handle x) { return unary(f, x); });
    } else {
      e.def(f.name, [&f](nb::handle a, nb::handle b) { return binary(f, a, b, false); });
    }
  }
  m.def("reduce", reduce_array, nb::arg("how"), nb::arg("x"), nb::arg("axis").none(), nb::arg("keepdims"),
        nb::arg("dtype").none());
  m.def("running", running_array, nb::arg("how"), nb::arg("x"), nb::arg("axis"), nb::arg("dtype").none(),
        nb::arg("include_initial"));
  m.def("position_of", extreme_array, nb::arg("largest"), nb::arg("x"), nb::arg("axis").none(), nb::arg("keepdims"));
  m.def("sort", sort_array);
  m.def("astype", astype, nb::arg("x"), nb::arg("dtype").none(), nb::arg("always"));
  m.def("promoted", [](nb::handle a, nb::handle b) { return dtype_object(promoted(*dtype_of(a), *dtype_of(b))); });
  m.def("joined",
        [](nb::handle a, nb::handle scalar) { return dtype_object(joined_type(*dtype_of(a), scalar_of(scalar))); });
  m.def("as_dtype", [](nb::handle a) { return dtype_object(*dtype_of(a)); });
  m.def("reshape", reshape, nb::arg("x"), nb::arg("shape"), nb::arg("copy").none());
  m.def("permute_dims", permute_dims);
  m.def("transposed", transposed);
  m.def("broadcast_to", broadcast_to);
  m.def("diagonal", diagonal);
  m.def("concat", concat, nb::arg("arrays"), nb::arg("axis").none());
  m.def("where", where_array);
  m.def("from_nested", from_nested, nb::arg("object"), nb::arg("dtype").none());
  m.def("empty", empty, nb::arg("shape"), nb::arg("dtype").none());
  m.def("full", full, nb::arg("shape"), nb::arg("value"), nb::arg("dtype").none());
  m.def("arange", arange, nb::arg("start"), nb::arg("stop"), nb::arg("step"), nb::arg("dtype").none());
  m.def("unique", unique_array);
  m.def("nonzero", nonzero_array);
  m.def("searchsorted", searchsorted_array, nb::arg("sorted"), nb::arg("values"), nb::arg("right"),
        nb::arg("sorter").none());
  m.def("part", part);
  m.def("elementwise_operands", [](const std::string& name) { return elementwise_function(name).operands; });
  m.def("reinterpreted", [](nb::handle h, nb::handle dtype) {
    View v = host(array_of(h, "view"));
    const DType to = *dtype_of(dtype);
    if (size_of(to) != v.item_size())
      raise<TypeError>("view: ", python_name(v.dtype), " and ", python_name(to), " differ in size");
    v.dtype = to;
    return wrap(std::move(v));
  });
  m.def("broadcast_shapes", [](const std::vector<std::vector<int64_t>>& shapes) {
    Shape out;
    for (const auto& s : shapes) out = broadcast_of(out, Shape(s));
    return tuple_of(out);
  });
}

}  // namespace freight::python
