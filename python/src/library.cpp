// The library behind the package: its functions by their signatures, traced and compiled functions, gradients, plans
// and settings of the process.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <omp.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "array.h"
#include "freight/backend/cpu/lapack.h"
#include "freight/base/python_packages.h"
#include "freight/base/threads.h"
#include "freight/base/version.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/options.h"
#include "freight/ops/random.h"
#include "freight/ops/shape.h"
#include "freight/run/context.h"
#include "freight/run/plan.h"
#include "freight/run/prepared_op.h"
#include "freight/trace/compile.h"
#include "freight/trace/device.h"
#include "freight/trace/tracer.h"
#include "ranks.h"

namespace freight::python {

SourceLine python_line() {
  nb::object frame = nb::steal(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  if (frame.is_valid()) frame.inc_ref();
  while (frame.is_valid() && !frame.is_none()) {
    const nb::object globals = nb::getattr(frame, "f_globals");
    const nb::object module = nb::steal(PyObject_CallMethod(globals.ptr(), "get", "ss", "__name__", ""));
    const std::string name = text_of(module);
    if (name != "freight" && name.rfind("freight.", 0) != 0) {
      static std::set<std::string> files;
      const std::string file = text_of(nb::getattr(nb::getattr(frame, "f_code"), "co_filename"));
      const nb::object line = nb::getattr(frame, "f_lineno");
      return {files.insert(file).first->c_str(), line.is_none() ? 0 : nb::cast<unsigned>(line)};
    }
    frame = nb::getattr(frame, "f_back");
  }
  return {};
}

namespace {

using Kind = Parameter::Kind;

nb::object usual_of(const Parameter& p) {
  return std::visit(
      [](const auto& v) -> nb::object {
        using V = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<V, int64_t>) return nb::int_(v);
        if constexpr (std::is_same_v<V, double>) return nb::float_(v);
        if constexpr (std::is_same_v<V, bool>) return nb::bool_(v);
        if constexpr (std::is_same_v<V, std::string>) return nb::str(v.c_str());
        if constexpr (std::is_same_v<V, DType>) return dtype_object(v);
        if constexpr (std::is_same_v<V, std::vector<int64_t>>) {
          if (!v.empty()) return nb::cast(v);
        }
        return nb::none();
      },
      p.usual);
}

// Every public function as Python's objects: what the generator of the package reads.
nb::list signatures() {
  nb::list all;
  for (const Signature& s : public_functions()) {
    nb::dict f;
    f["name"] = s.name;
    f["doc"] = s.doc;
    f["header"] = s.header;
    f["results"] = s.results;
    nb::list parameters;
    for (const Parameter& p : s.parameters) {
      nb::dict d;
      d["name"] = p.name;
      d["kind"] = name(p.kind);
      d["takes_number"] = p.kind == Kind::tensor && p.type == "In";
      d["required"] = p.required;
      d["default"] = usual_of(p);
      d["choices"] = p.choices;
      parameters.append(d);
    }
    f["parameters"] = parameters;
    all.append(f);
  }
  return all;
}

struct Call {
  bool traced = false;   // an operand is a tensor: so are the results
  bool has_i32 = false;  // an operand is
};

ArgumentValue value_of(const Parameter& p, nb::handle h, Call& call, const char* function) {
  if (h.is_none()) return NotGiven{};
  const auto tensor = [&](nb::handle t) {
    nb::object made;
    PyArray& a = array_of(t, function, &made);
    call.has_i32 = call.has_i32 || a.dtype() == DType::i32;
    return call.traced ? tensor_of(a) : borrowed_tensor(a);
  };
  switch (p.kind) {
    case Kind::tensor: {
      if (array_or_null(h)) return tensor(h);
      const Scalar s = scalar_of(h);
      if (s.kind == Scalar::Kind::integer && !s.beyond_i64) return s.integer;
      if (s.kind == Scalar::Kind::boolean) return Tensor(to_array(scalar_view(s, DType::boolean)));
      if (s.kind == Scalar::Kind::floating) return s.value.real();
      return tensor(h);
    }
    case Kind::tensors: {
      std::vector<Tensor> list;
      for (nb::handle item : nb::borrow<nb::sequence>(h)) list.push_back(tensor(item));
      return list;
    }
    case Kind::integer: return integer_of(h, p.name.c_str());
    case Kind::integers: return integers_of(h, p.name.c_str());
    case Kind::axes:
    case Kind::extents:
      if (nb::isinstance<nb::tuple>(h) || nb::isinstance<nb::list>(h)) return integers_of(h, p.name.c_str());
      return integer_of(h, p.name.c_str());
    case Kind::number: {
      const Scalar s = scalar_of(h);
      if (s.kind == Scalar::Kind::integer && !s.beyond_i64) return s.integer;
      if (s.kind == Scalar::Kind::floating) return s.value.real();
      raise<TypeError>(function, ": ", p.name, ": expected a number, got ", nb::repr(h).c_str());
    }
    case Kind::flag:
      if (!PyBool_Check(h.ptr()))
        raise<TypeError>(function, ": ", p.name, ": expected True or False, got ", nb::repr(h).c_str());
      return h.ptr() == Py_True;
    case Kind::dtype: return *dtype_of(h);
    case Kind::choice:
    case Kind::text:
      if (!nb::isinstance<nb::str>(h))
        raise<TypeError>(function, ": ", p.name, ": expected a string, got ", nb::repr(h).c_str());
      return text_of(h);
  }
  return NotGiven{};
}

nb::object results_of(std::vector<Tensor> results, bool traced, bool list) {
  std::vector<nb::object> all;
  for (Tensor& t : results) all.push_back(traced ? wrap(std::move(t)) : wrap(from_array(t.array())));
  if (all.size() == 1 && !list) return all[0];
  nb::list out;
  for (nb::object& o : all) out.append(o);
  return nb::tuple(out);
}

// Calls function `index` of signatures() with values in its order.
nb::object call_function(size_t index, nb::handle values) {
  const Signature& s = public_functions().at(index);
  Call call{has_traced(values)};
  std::vector<ArgumentValue> arguments;
  size_t i = 0;
  for (nb::handle h : nb::borrow<nb::sequence>(values)) {
    if (i == s.parameters.size()) raise<TypeError>(s.name, ": too many arguments");
    arguments.push_back(value_of(s.parameters[i++], h, call, s.name.c_str()));
  }
  std::vector<Tensor> results = invoke(s, arguments, python_line());
  for (Tensor& t : results) {  // indices are i64 in Python
    if (t.dtype() == DType::i32 && !call.has_i32) t = freight::cast(t, DType::i64);
  }
  return results_of(std::move(results), call.traced || trace::compiling(), s.results.empty());
}

// Compiled calls run without the interpreter's lock, and a child that is forked meanwhile would wait for locks of
// theirs forever: a fork waits until they are done, and new ones wait for it.
std::atomic<int> g_running, g_forks;
thread_local int t_running = 0;  // a traced function may fork

class Running {
 public:
  Running() {
    ++g_running;
    while (++t_running == 1 && g_forks > 0) {
      --t_running;
      --g_running;
      pause();
      ++g_running;
    }
  }
  ~Running() {
    --t_running;
    --g_running;
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  static void pause() { std::this_thread::sleep_for(std::chrono::microseconds(50)); }
};

void before_fork() {
  const nb::gil_scoped_release unlocked;  // traced functions need it
  ++g_forks;
  while (g_running > t_running) Running::pause();
}

void after_fork(bool in_child) {
  if (in_child) g_running = t_running;
  g_forks = in_child ? 0 : g_forks - 1;
}

// A function of Python that is traced once per signature of its arrays, planned and replayed.
class Compiled {
 public:
  Compiled(nb::object function, const std::string& device, bool deterministic, nb::handle compute)
      : function_(std::move(function)), compiled_([&] {
          CompileOptions options;
          options.backend = device;
          options.deterministic = deterministic;
          options.compute = *dtype_of(compute);
          return options;
        }()) {}

  nb::object call(nb::handle arrays) {
    Arguments in(arrays);
    Body body{&function_, {}};
    std::vector<Tensor> results;
    run(body, [&] {
      const CompiledFunction::Results out = compiled_.call(in.request(body), Context{.collectives = current_sums()});
      results.assign(out.list.begin(), out.list.end());
      if (!in.traced) {
        for (const Tensor& t : results) t.array();
      }
    });
    return results_of(std::move(results), in.traced, true);
  }

  nb::object plan(nb::handle arrays) {
    Arguments in(arrays);
    Body body{&function_, {}};
    std::shared_ptr<const Plan> p;
    run(body, [&] { p = compiled_.plan(in.request(body)); });
    nb::dict out;
    out["text"] = print(*p);
    out["arena_bytes"] = p->arena_bytes();
    const Cost cost = p->total_cost();
    out["flops"] = cost.flops;
    out["bytes"] = cost.bytes;
    nb::list steps;
    for (const PlanStep& step : p->steps()) steps.append(describe(*p, step));
    out["steps"] = steps;
    return out;
  }

 private:
  struct Body {
    const nb::object* function;
    std::exception_ptr error;  // of Python
  };
  struct Arguments {
    explicit Arguments(nb::handle list) {
      const Py_ssize_t n = PyList_Size(list.ptr());
      arrays.reserve(static_cast<size_t>(n));  // arguments point to them
      arguments.reserve(static_cast<size_t>(n));
      for (Py_ssize_t i = 0; i < n; ++i) {
        const PyArray& a = array_of(PyList_GetItem(list.ptr(), i), "jit");
        traced = traced || !a.on_host();
        if (a.on_host()) {
          arguments.emplace_back(arrays.emplace_back(to_array(a.view)));
        } else {
          arguments.emplace_back(a.tensor);
        }
      }
    }
    CompiledFunction::Request request(Body& body) const { return {arguments, {}, trace_body, &body}; }
    std::vector<Array> arrays;
    std::vector<Argument> arguments;
    bool traced = false;
  };

  static freight::detail::TensorList trace_body(void* context, const freight::detail::TensorList& in) {
    Body& body = *static_cast<Body*>(context);
    const nb::gil_scoped_acquire lock;
    try {
      nb::list inputs;
      for (const Tensor& t : in.tensors) inputs.append(wrap(t));
      const nb::object results = (*body.function)(inputs);
      freight::detail::TensorList out;
      for (nb::handle h : nb::borrow<nb::sequence>(results)) out.tensors.push_back(tensor_of(array_of(h, "jit")));
      return out;
    } catch (nb::python_error&) {
      body.error = std::current_exception();
    }
    throw std::runtime_error("the traced function raised an exception");
  }

  template <class F>
  static void run(Body& body, F&& f) {
    std::exception_ptr failure;
    std::optional<Running> running;  // until the thread has the interpreter's lock again
    {
      const nb::gil_scoped_release unlocked;
      running.emplace();
      try {
        f();
      } catch (...) {
        failure = std::current_exception();
      }
    }
    if (body.error) std::rethrow_exception(body.error);
    if (failure) std::rethrow_exception(failure);
  }

  nb::object function_;
  CompiledFunction compiled_;
};

// True if a value has the structure that _flatten of freight/_transforms.py described; appends its arrays to `leaves`.
bool collect(PyObject* structure, PyObject* value, nb::list& leaves) {
  if (structure == types().array.ptr()) {
    if (!array_or_null(value)) return false;
    leaves.append(nb::handle(value));
    return true;
  }
  PyObject *kind = PyTuple_GetItem(structure, 0), *content = PyTuple_GetItem(structure, 1);
  if (reinterpret_cast<PyObject*>(Py_TYPE(value)) != kind) return false;
  if (PyTuple_Size(structure) == 3)  // a value that is no array
    return content == value || PyObject_RichCompareBool(content, value, Py_EQ) == 1;
  const Py_ssize_t n = PyTuple_Size(content);
  if (PyDict_CheckExact(value)) {
    PyObject *key = nullptr, *item = nullptr;
    Py_ssize_t at = 0, i = 0;
    if (PyDict_Size(value) != n) return false;
    for (; PyDict_Next(value, &at, &key, &item); ++i) {
      PyObject* entry = PyTuple_GetItem(content, i);
      PyObject* name = PyTuple_GetItem(entry, 0);
      if (name != key && PyObject_RichCompareBool(name, key, Py_EQ) != 1) return false;
      if (!collect(PyTuple_GetItem(entry, 1), item, leaves)) return false;
    }
    return true;
  }
  const bool list = PyList_Check(value);
  if ((list ? PyList_Size(value) : PyTuple_Size(value)) != n) return false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = list ? PyList_GetItem(value, i) : PyTuple_GetItem(value, i);
    if (!collect(PyTuple_GetItem(content, i), item, leaves)) return false;
  }
  return true;
}

// The array x, with f applied to its gradient on the way back.
nb::object changed_gradient(nb::handle x, nb::object f) {
  // Traces may go on any thread.
  const std::shared_ptr<nb::object> held(new nb::object(std::move(f)), [](nb::object* o) {
    if (!Py_IsInitialized()) return;
    const nb::gil_scoped_acquire lock;
    delete o;
  });
  return wrap(on_gradient(tensor_of(array_of(x, "custom_gradient")), [held](const Tensor& gradient) {
    const nb::gil_scoped_acquire lock;  // the trainer runs without it
    const nb::object changed = (*held)(wrap(gradient));
    return tensor_of(array_of(changed, "custom_gradient"));
  }));
}

// The elements of y, whose gradient goes to the number `to`.
nb::object led_gradient(nb::handle y, nb::handle to) {
  const Tensor t = tensor_of(array_of(y, "custom_gradient"));
  const Tensor number = freight::cast(tensor_of(array_of(to, "custom_gradient")), t.dtype());
  const Tensor all = trace::constant(1, {DType::boolean, t.shape()});
  return wrap(where(all, stop_gradient(t), broadcast_to(number, t.shape())));
}

// An array that the loss does not use has None.
nb::list gradients(nb::handle loss, nb::handle arrays) {
  PyArray& l = array_of(loss, "grad");
  if (l.on_host()) raise<ValueError>("grad: the loss does not depend on the arguments");
  if (l.shape().numel() != 1)
    raise<ValueError>("grad: the function must return a scalar, got shape ", to_string(l.shape()));
  if (!is_floating(l.dtype())) raise<TypeError>("grad: the loss must be floating, got ", python_name(l.dtype()));
  std::vector<Tensor> by;
  for (nb::handle h : nb::borrow<nb::sequence>(arrays)) by.push_back(tensor_of(array_of(h, "grad")));
  Tensor scalar = l.tensor;
  if (scalar.rank() != 0) scalar = invoke_named("reshape", {scalar, std::vector<int64_t>{}});
  nb::list out;
  std::vector<size_t> unused;
  for (Tensor& g : freight::grad(scalar, by, {.allow_unused = true, .unused = &unused})) out.append(wrap(std::move(g)));
  for (const size_t i : unused) out[i] = nb::none();
  return out;
}

// f32: uniform in [0, 1), or normal; drawn by the key (seed, position), or by the default generator.
nb::object random(bool is_uniform, nb::handle shape, nb::handle key) {
  const Frame frame(python_line());
  const Shape s = checked_shape(integers_of(shape, "shape"), DType::f32);
  std::vector<Tensor> y;
  bool traced = trace::compiling();
  if (key.is_none()) {
    y.push_back(is_uniform ? random_uniform(s) : random_normal(s));
  } else {
    const PyArray& k = array_of(key, "random");
    traced = traced || !k.on_host();
    y = trace::add(is_uniform ? Op::random_uniform : Op::random_normal, RandomAttrs{s}, {tensor_of(k)});
  }
  return results_of(std::move(y), traced, false);
}

nb::tuple config() {
  const PreparedOpStats s = prepared_op_stats();
  return nb::make_tuple(version(), thread_count(), cpu::lapack_text(), current_device(), s.hits, s.misses, s.evictions,
                        s.size, s.held_bytes);
}

}  // namespace

void bind_library(nb::module_& m) {
  m.def("signatures", signatures);
  m.def("call_function", call_function);
  nb::class_<Compiled>(m, "Compiled")
      .def(nb::init<nb::object, const std::string&, bool, nb::handle>())
      .def("call", &Compiled::call)
      .def("plan", &Compiled::plan);
  m.def("collect", [](nb::handle structure, nb::handle value, nb::list leaves) {
    const bool same = collect(structure.ptr(), value.ptr(), leaves);
    PyErr_Clear();  // of values that cannot be compared
    return same;
  });
  m.def("gradients", gradients);
  m.def("changed_gradient", changed_gradient);
  m.def("led_gradient", led_gradient);
  m.def("as_leaf", [](nb::handle h) { return wrap(tensor_of(array_of(h, "grad"))); });
  m.def("as_new", [](nb::handle h) { return wrap(as_new(array_of(h, "grad").tensor)); });
  m.def("to_host", [](nb::handle h) -> nb::object {
    PyArray& a = array_of(h, "to");
    return a.on_host() ? nb::borrow(h) : wrap(host(a));
  });
  m.def("to_device", [](nb::handle h, const std::string& device) -> nb::object {
    PyArray& a = array_of(h, "to");
    if (a.on_host()) return wrap(Tensor(to_array(a.view), device));
    return wrap(a.tensor.to_device(device));
  });
  m.def("before_fork", before_fork);
  m.def("after_fork", after_fork);
  m.def("compiling", [] { return trace::compiling(); });
  m.def("set_threads", [](int count) {
    if (count < 1) raise<ValueError>("set_threads: expected at least 1, got ", count);
    omp_set_num_threads(count);
  });
  m.def("set_python_packages", set_python_packages);
  m.def("seed", [](uint64_t value) { seed(value); });
  m.def("config", config);
  m.def("random", random, nb::arg("uniform"), nb::arg("shape"), nb::arg("key").none());
}

}  // namespace freight::python
