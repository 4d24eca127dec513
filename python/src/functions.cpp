// The array class and the functions on views that Python's part of the package is built from. Each gives views of the
// same memory where the standard allows it, and uses the library's function of the same meaning for tensors.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

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
  static const char* const kNames[] = {"sum", "prod", "max", "min", "any", "all", "mean"};
  const char* name = kNames[how];
  PyArray& x = array_of(h, name);
  const std::vector<int> axes = axes_of(axis, x.shape().rank());
  const auto reduction = static_cast<Reduction>(how);
  if (!x.on_host()) return traced("reduced")(name, h, axis, keepdims, dtype);
  DType result = x.dtype();
  const bool adds = reduction == Reduction::sum || reduction == Reduction::prod;
  if (adds) result = summed_type(result, dtype_of(dtype));
  // Wider types of a kind are accumulated in one.
  const bool widens = info(result).kind == info(x.dtype()).kind && size_of(result) > size_of(x.dtype());
  const bool converts = adds && dtype_of(dtype) && result != x.view.dtype && !widens;
  View y = reduce(reduction, converts ? cast(x.view, result) : x.view, axes, result);
  return wrap(keepdims ? std::move(y) : drop_axes(y, axes));
}

// Arrays of the host.
nb::object deviations_of_array(nb::handle h, nb::handle axis, bool keepdims) {
  const View& x = array_of(h, "var").view;
  const std::vector<int> axes = axes_of(axis, x.rank());
  View y = squared_deviations(x, axes);
  return wrap(keepdims ? std::move(y) : drop_axes(y, axes));
}

nb::object running_array(int how, nb::handle h, int64_t axis, nb::handle dtype, bool include_initial) {
  const View& v = array_of(h, how == 0 ? "cumulative_sum" : "cumulative_prod").view;
  const int a = checked_axis(axis, v.rank());
  const DType result = summed_type(v.dtype, dtype_of(dtype));
  return wrap(running(how == 0 ? Running::sum : Running::prod, v.dtype == result ? v : cast(v, result), a, result,
                      include_initial));
}

nb::object extreme_array(bool largest, nb::handle h, int64_t axis, bool keepdims) {
  const View& v = array_of(h, largest ? "argmax" : "argmin").view;
  const int a = checked_axis(axis, v.rank());
  View y = position_of(largest ? Extreme::largest : Extreme::smallest, v, a);
  return wrap(keepdims ? std::move(y) : drop_axes(y, {a}));
}

nb::object sort_array(nb::handle h, int64_t axis, bool descending, bool positions) {
  PyArray& x = array_of(h, positions ? "argsort" : "sort");
  const int a = checked_axis(axis, x.shape().rank());
  const auto by = descending ? cpu::SortOrder::descending : cpu::SortOrder::ascending;
  return wrap(positions ? argsort(x.view, a, by) : sort(x.view, a, by));
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
  if (!x.on_host())
    return wrap_view(h, invoke_named("reshape", {x.tensor, sizes}), "reshape", nb::make_tuple(sizes, nb::none()));
  if (!copies.is_none() && nb::cast<bool>(copies)) return wrap(reshaped_view(copy(x.view), to));
  if (copies.is_none()) return wrap(reshaped(x.view, to));
  View y = reshaped_view(x.view, to);
  if (!y.block) raise<ValueError>("reshape: this layout needs a copy, and copy=False forbids it");
  return wrap(std::move(y));
}

nb::object permuted_array(nb::handle h, const std::vector<int>& order) {
  PyArray& x = array_of(h, "permute_dims");
  if (static_cast<int>(order.size()) != x.shape().rank()) raise<ValueError>("axes don't match array");
  if (!x.on_host())
    return wrap_view(h, invoke_named("permute", {x.tensor, wide(order)}), "permute_dims", nb::make_tuple(order));
  return wrap(permuted(x.view, order));
}

nb::object permute_dims(nb::handle h, nb::handle axes) {
  return permuted_array(h, axes_of(axes, array_of(h, "permute_dims").shape().rank()));
}

nb::object transposed(nb::handle h) {
  std::vector<int> order(static_cast<size_t>(array_of(h, "transpose").shape().rank()));
  std::iota(order.rbegin(), order.rend(), 0);
  return permuted_array(h, order);
}

nb::object broadcast_to(nb::handle h, nb::handle shape) {
  PyArray& x = array_of(h, "broadcast_to");
  const std::vector<int64_t> sizes = integers_of(shape, "shape");
  if (!x.on_host())
    return wrap_view(h, invoke_named("broadcast_to", {x.tensor, sizes}), "broadcast_to", nb::make_tuple(sizes));
  return wrap(broadcast(x.view, checked_shape(sizes, x.view.dtype)));
}

nb::object diagonal(nb::handle h, int64_t offset) {
  PyArray& x = array_of(h, "diagonal");
  if (!x.on_host())
    return wrap_view(h, invoke_named("diagonal", {x.tensor, offset}), "diagonal", nb::make_tuple(offset));
  return wrap(diagonal_view(x.view, offset));
}

// Arrays of the host.
nb::object concat(nb::handle arrays, int64_t axis) {
  std::vector<View> views;
  for (nb::handle h : nb::borrow<nb::sequence>(arrays)) views.push_back(array_of(h, "concat").view);
  DType dtype = views[0].dtype;
  for (const View& v : views) dtype = promoted(dtype, v.dtype);
  const int a = checked_axis(axis, views[0].rank());
  Shape shape = views[0].shape;
  shape[a] = 0;
  for (const View& v : views) {
    Shape other = v.shape;
    if (other.rank() == shape.rank()) other[a] = shape[a];
    if (other != shape) {
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
  nb::object made_c, made_a, made_b;
  PyArray& c = array_of(condition, "where", &made_c);
  if (c.dtype() != DType::boolean) raise<TypeError>("where: the condition must be bool, got ", python_name(c.dtype()));
  PyArray *a = array_or_converted(left, made_a), *b = array_or_converted(right, made_b);
  const Scalar sa = a ? Scalar{} : scalar_of(left), sb = b ? Scalar{} : scalar_of(right);
  if ((!a && sa.kind == Scalar::Kind::none) || (!b && sb.kind == Scalar::Kind::none)) {
    raise<TypeError>("where: expected arrays or Python numbers, got ", nb::str(left.type()).c_str(), " and ",
                     nb::str(right.type()).c_str());
  }
  const DType dtype = a && b ? promoted(a->dtype(), b->dtype())
                      : a    ? joined_type(a->dtype(), sb)
                      : b    ? joined_type(b->dtype(), sa)
                             : promoted(usual_type(sa), usual_type(sb));
  if (!c.on_host() || (a && !a->on_host()) || (b && !b->on_host()))
    return traced("chosen")(dtype_object(dtype), made_c ? made_c : condition, made_a ? made_a : left,
                            made_b ? made_b : right);
  const auto in = [&](PyArray* p, const Scalar& s) {
    return !p ? scalar_view(s, dtype) : p->view.dtype == dtype ? p->view : cast(p->view, dtype);
  };
  return wrap(where(c.view, in(a, sa), in(b, sb)));
}

// Python numbers in row-major order; without `dtype` in the type that holds all.
nb::object from_list(nb::handle numbers, nb::handle shape, nb::handle dtype) {
  std::vector<Scalar> values;
  for (nb::handle h : nb::borrow<nb::list>(numbers)) {
    values.push_back(scalar_of(h));
    if (values.back().kind != Scalar::Kind::none) continue;
    if (PyList_Check(h.ptr()) || PyTuple_Check(h.ptr()))
      raise<ValueError>("setting an array element with a sequence: the nested lists differ in depth");
    const nb::object n = nb::steal(PyNumber_Index(h.ptr()));
    if (!n.is_valid()) {
      PyErr_Clear();
      raise<TypeError>("asarray: expected numbers, got ", nb::str(h.type()).c_str());
    }
    values.back() = scalar_of(n);
  }
  std::optional<DType> type = dtype_of(dtype);
  if (!type) {
    type = values.empty() ? DType::f32 : usual_type(values[0]);
    for (const Scalar& s : values) {
      const DType next = usual_type(s);
      const bool both = is_integer(next) && is_integer(*type) && next != *type;
      type = both ? DType::u64 : promoted(*type, next);
    }
  }
  View v(*type, checked_shape(integers_of(shape, "shape"), *type));
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
  const Scalar s = scalar_of(value);
  if (s.kind == Scalar::Kind::none) raise<TypeError>("full: expected a number, got ", nb::repr(value).c_str());
  const std::optional<DType> type = dtype_of(dtype);
  const DType to = type ? *type : usual_type(s);
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

// start, start + step, ..., n of them.
nb::object arange(int64_t n, nb::handle start, nb::handle step, nb::handle dtype) {
  const Scalar a = scalar_of(start), d = scalar_of(step);
  const bool floats = a.kind == Scalar::Kind::floating || d.kind == Scalar::Kind::floating;
  const DType type = *dtype_of(dtype);
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

// Arrays of the host of one element type; `sorter` is int64.
nb::object searchsorted_array(nb::handle sorted, nb::handle values, bool right, nb::handle sorter) {
  const View order = sorter.is_none() ? View() : array_of(sorter, "searchsorted").view;
  return wrap(searchsorted(array_of(sorted, "searchsorted").view, array_of(values, "searchsorted").view, right, order));
}

nb::object to_list(const View& x, const char* at, int axis) {
  if (axis == x.rank()) return element_object(x, at);
  nb::list out;
  for (int64_t i = 0; i < x.shape[axis]; ++i) {
    out.append(to_list(x, at + i * x.strides[axis] * static_cast<int64_t>(x.item_size()), axis + 1));
  }
  return out;
}

}  // namespace

nb::object scalar_only(const PyArray& x, const char* what) {
  const View& v = host(x);
  if (v.numel() != 1)
    raise<TypeError>(what, ": only arrays with one element can be converted to a Python number: got shape ",
                     to_string(v.shape));
  return element_object(v, v.data);
}

bool truth(PyArray& x) {
  if (x.shape().numel() != 1) {
    raise<ValueError>("The truth value of an array with ", x.shape().numel(),
                      " elements is ambiguous. Use freight.any(x) or freight.all(x)");
  }
  const nb::object o = scalar_only(x, "bool");
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
      .def_prop_ro("T", transposed, "the axes in reverse order, a view")
      .def_prop_ro("_on_host", [](const PyArray& x) { return x.on_host(); })
      .def_prop_ro("_number", [](PyArray& x) { return x.view.block->number * (x.view.block.use_count() > 1 ? -1 : 1); })
      .def_prop_ro("_address", [](const PyArray& x) { return reinterpret_cast<uintptr_t>(host(x).data); })
      .def("_take", [](PyArray& x, const PyArray& y) { x.view = y.view, x.tensor = y.tensor; })  // the elements of y
      .def("_share_memory",
           [](const PyArray& x, const PyArray& y) {
             return x.on_host() && y.on_host() && may_share_memory(x.view, y.view);
           })
      .def(
          "item", [](const PyArray& x) { return scalar_only(x, "item"); }, "the only element as a Python number")
      .def(
          "tolist",
          [](PyArray& x) {
            const View v = host(x);
            return to_list(v, v.data, 0);
          },
          "nested lists of Python numbers");
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
  m.def("squared_deviations", deviations_of_array, nb::arg("x"), nb::arg("axis").none(), nb::arg("keepdims"));
  m.def("running", running_array, nb::arg("how"), nb::arg("x"), nb::arg("axis"), nb::arg("dtype").none(),
        nb::arg("include_initial"));
  m.def("position_of", extreme_array);
  m.def("sort", sort_array);
  m.def("astype", astype, nb::arg("x"), nb::arg("dtype").none(), nb::arg("always"));
  m.def("promoted", [](nb::handle a, nb::handle b) { return dtype_object(promoted(*dtype_of(a), *dtype_of(b))); });
  m.def("joined",
        [](nb::handle a, nb::handle scalar) { return dtype_object(joined_type(*dtype_of(a), scalar_of(scalar))); });
  m.def("as_dtype", [](nb::handle a) { return dtype_object(*dtype_of(a)); });
  m.def("reshape", reshape, nb::arg("x"), nb::arg("shape"), nb::arg("copy").none());
  m.def("permute_dims", permute_dims);
  m.def("broadcast_to", broadcast_to);
  m.def("diagonal", diagonal);
  m.def("concat", concat);
  m.def("where", where_array);
  m.def("from_list", from_list, nb::arg("numbers"), nb::arg("shape"), nb::arg("dtype").none());
  m.def("empty", empty, nb::arg("shape"), nb::arg("dtype").none());
  m.def("full", full, nb::arg("shape"), nb::arg("value"), nb::arg("dtype").none());
  m.def("arange", arange);
  m.def("unique", unique_array);
  m.def("nonzero", nonzero_array);
  m.def("searchsorted", searchsorted_array, nb::arg("sorted"), nb::arg("values"), nb::arg("right"),
        nb::arg("sorter").none());
  m.def("part", [](nb::handle x, int which) { return wrap(part_of_complex(array_of(x, "real").view, which)); });
  m.def("elementwise_operands", [](const std::string& name) { return elementwise_function(name).operands; });
  m.def("reinterpreted", [](nb::handle h, nb::handle dtype) {
    View v = host(array_of(h, "view"));
    const DType to = *dtype_of(dtype);
    const int64_t bytes = v.numel() * static_cast<int64_t>(v.item_size()), size = static_cast<int64_t>(size_of(to));
    if (bytes % size) raise<ValueError>("view: ", bytes, " bytes are no elements of ", python_name(to));
    if (size != static_cast<int64_t>(v.item_size())) {
      v = reshaped(v, Shape{v.numel()});
      v.shape[0] = bytes / size;
    }
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
