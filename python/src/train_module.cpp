// Modules: the library's layers, made and listed by their declarations (nn/layer_type.h), and modules whose forward is
// written in Python; and the variables of both.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "freight/nn/attention.h"
#include "freight/nn/container.h"
#include "freight/nn/layer_type.h"
#include "freight/nn/recurrent.h"
#include "freight/trace/tracer.h"
#include "train.h"

namespace freight::python {

Variable& variable_of(nb::handle h) { return nb::cast<PyVariable&>(h).variable; }
nn::Module& module_of(nb::handle node) { return *nb::cast<PyNode&>(node).module; }

std::vector<Tensor> tensors_of(nb::handle list, const char* function) {
  std::vector<Tensor> out;
  for (nb::handle h : nb::borrow<nb::sequence>(list))
    out.push_back(h.is_none() ? Tensor() : tensor_of(array_of(h, function)));
  return out;
}

nb::object wrap_results(std::vector<Tensor> results) {
  if (results.size() == 1) return wrap(std::move(results[0]));
  nb::list all;
  for (Tensor& t : results) {
    if (t.defined()) all.append(wrap(std::move(t)));
  }
  return nb::tuple(all);
}

namespace {

// A parameter or a buffer that belongs to a module of Python. It is a module of its own, whose only variable has the
// module's path, so that the tree above it can be built anew when a program replaces something.
class Held : public nn::Module {
 public:
  Held(const View& value, bool trained) {
    const freight::Shape shape = value.shape;
    variable = trained ? parameter("", shape, Init{}) : own("", Variable("", {value.dtype, shape}));
    variable.set(to_array(value));
  }
  Tensor forward(const Tensor&) override { fail(ErrorKind::usage, "nn.Parameter", "is no layer"); }
  Variable variable;
};

// Adds the arrays of what forward returned, nested in tuples, lists and dicts.
void add_results(nb::handle y, std::vector<Tensor>& results) {
  if (PyDict_Check(y.ptr())) {
    for (auto [name, value] : nb::borrow<nb::dict>(y)) add_results(value, results);
  } else if (PyTuple_Check(y.ptr()) || PyList_Check(y.ptr())) {
    for (nb::handle h : nb::borrow<nb::sequence>(y)) add_results(h, results);
  } else {
    results.push_back(y.is_none() ? Tensor() : tensor_of(array_of(y, "forward")));
  }
}

// A module of Python. It does not own the Python object, which holds it.
class Written : public nn::Module {
 public:
  explicit Written(nb::handle module) : reference_(nb::steal(PyWeakref_NewRef(module.ptr(), nullptr))) {
    if (!reference_.is_valid()) throw nb::python_error();
  }
  ~Written() override {
    const nb::gil_scoped_acquire lock;  // runs end without it
    reference_.reset();
  }
  void hold(const std::string& name, const std::shared_ptr<nn::Module>& child) { adopt(name, child); }
  Tensor forward(const Tensor& x) override { return forward_all({x})[0]; }
  std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs) override {
    const nb::gil_scoped_acquire lock;
    const PartsApart apart;
    nb::list arguments;
    for (const Tensor& t : inputs) arguments.append(t.defined() ? wrap(t) : nb::none());
    const nb::object y = self().attr("forward")(*nb::tuple(arguments));
    std::vector<Tensor> results;
    add_results(y, results);
    if (results.empty()) raise<ValueError>("forward: expected an array, or several, got ", nb::repr(y).c_str());
    return results;
  }
  // A call from Python, with whatever forward takes and returns.
  nb::object invoke(const nb::args& arguments, const nb::kwargs& keywords) {
    const Call call(*this, python_line());
    call.done({}, {});  // steps that are being compiled depend on the module
    const PartsApart apart;
    return self().attr("forward")(*arguments, **keywords);
  }

 private:
  nb::object self() const {
    nb::object module = nb::steal(PyObject_CallNoArgs(reference_.ptr()));
    if (module.is_none()) raise<ValueError>("a module of Python was deleted while it was in use");
    return module;
  }
  nb::object reference_;
};

nb::object value_object(const nn::Setting& s) {
  using Kind = nn::Setting::Kind;
  switch (s.kind) {
    case Kind::integer: return nb::int_(s.integer);
    case Kind::number: return nb::float_(s.number);
    case Kind::flag: return nb::bool_(s.flag);
    case Kind::text: return nb::str(s.text.c_str());
    case Kind::extents:
      if (s.extents.uniform) return nb::int_(s.extents.values[0]);
      return tuple_of(Shape(s.extents.values));
    default: break;
  }
  nb::list children;
  for (const nn::Child& c : s.children) children.append(nb::make_tuple(c.name, PyNode{c.module}));
  return children;
}

// The declarations of all layers, which the generator of freight._layers reads.
nb::list layer_types() {
  static const char* const kKinds[] = {"integer", "number", "flag", "text", "extents", "layer", "layers"};
  nb::list all;
  for (const nn::LayerType* type : nn::layer_types()) {
    nb::dict d;
    d["name"] = type->name();
    d["doc"] = type->doc();
    nb::list fields;
    for (const nn::Field& f : type->fields()) {
      nb::dict field;
      field["key"] = f.key();
      field["doc"] = f.doc;
      field["kind"] = kKinds[static_cast<size_t>(f.usual.kind)];
      field["required"] = f.presence != nn::Field::Presence::optional;
      field["default"] = value_object(f.usual);
      field["choices"] = f.choices;
      fields.append(field);
    }
    d["fields"] = fields;
    all.append(d);
  }
  return all;
}

void set_value(nn::Setting& s, nb::handle h, const std::string& what) {
  using Kind = nn::Setting::Kind;
  const char* const name = what.c_str();
  switch (s.kind) {
    case Kind::integer: s.integer = integer_of(h, name); return;
    case Kind::number: {
      const Scalar number = scalar_of(h);
      if (number.kind != Scalar::Kind::integer && number.kind != Scalar::Kind::floating)
        raise<TypeError>(what, ": expected a number, got ", nb::repr(h).c_str());
      s.number = number.value.real();
      return;
    }
    case Kind::flag:
      if (!PyBool_Check(h.ptr())) raise<TypeError>(what, ": expected True or False, got ", nb::repr(h).c_str());
      s.flag = h.ptr() == Py_True;
      return;
    case Kind::text:
      if (!nb::isinstance<nb::str>(h)) raise<TypeError>(what, ": expected a string, got ", nb::repr(h).c_str());
      s.text = text_of(h);
      return;
    case Kind::extents:
      if (PyTuple_Check(h.ptr()) || PyList_Check(h.ptr())) {
        s.extents = Extents(freight::Shape(integers_of(h, name)));
      } else {
        s.extents = Extents(integer_of(h, name));
      }
      return;
    default: break;
  }
  s.children.clear();
  for (nb::handle pair : nb::borrow<nb::sequence>(h)) {
    s.children.push_back({nb::cast<std::string>(pair[0]), nb::cast<PyNode&>(pair[1]).module});
  }
}

// A layer of a declared type; `settings` has those that are given, by key.
PyNode make_layer(const std::string& name, const nb::dict& settings) {
  const nn::LayerType* type = nn::find_layer_type(name);
  if (!type) raise<ValueError>("there is no layer ", name);
  std::vector<nn::Setting> values;
  for (const nn::Field& f : type->fields()) {
    nn::Setting s = f.usual;
    const nb::str key(f.key().c_str());
    if (settings.contains(key)) {
      set_value(s, settings[key], cat(name, ", ", f.key()));
      const auto& c = f.choices;
      if (!c.empty() && std::find(c.begin(), c.end(), s.text) == c.end())
        raise<ValueError>(name, ", ", f.key(), ": expected one of ", join(c, ", "), ", got ", s.text);
    }
    values.push_back(std::move(s));
  }
  return {type->make(values)};
}

// Type and settings of a layer, of which the children are nodes; an empty type for classes without a declaration.
nb::tuple config_of(const PyNode& node) {
  const nn::Config config = node.module->config();
  nb::dict settings;
  for (const nn::Setting& s : config.settings) settings[nb::str(s.key.c_str())] = value_object(s);
  return nb::make_tuple(config.type, settings);
}

Written& written(nb::handle node) {
  auto* w = dynamic_cast<Written*>(&module_of(node));
  if (!w) raise<TypeError>("the node is a layer of the library");
  return *w;
}

PyNode make_written(nb::handle module, nb::handle children, bool training) {
  auto node = std::make_shared<Written>(module);
  if (!training) node->eval();  // the children have their own modes
  for (nb::handle pair : nb::borrow<nb::sequence>(children))
    node->hold(nb::cast<std::string>(pair[0]), nb::cast<PyNode&>(pair[1]).module);
  return {node};
}

// (name, variable, whether it is a parameter) of all below.
nb::list state_of(const PyNode& node) {
  nb::list all;
  for (const nn::NamedVariable& v : node.module->state_dict())
    all.append(nb::make_tuple(v.name, PyVariable{v.variable}, v.variable.role() == Variable::Role::parameter));
  return all;
}

// Variables get their paths below this node as names.
void name_variables(const PyNode& node) {
  std::vector<const void*> named;
  for (const nn::NamedVariable& v : node.module->state_dict()) {
    const void* const impl = v.variable.impl().get();
    if (std::find(named.begin(), named.end(), impl) != named.end()) continue;
    v.variable.set_name(v.name);
    named.push_back(impl);
  }
}

nb::object call_node(const PyNode& node, nb::handle inputs) {
  return wrap_results(node.module->call(TensorList(tensors_of(inputs, "module")), python_line()));
}

// (output, h) or (output, h, c); h, c and lengths may be None.
nb::object call_recurrent(const PyNode& node, nb::handle x, nb::handle h, nb::handle c, nb::handle lengths) {
  auto& net = dynamic_cast<nn::Recurrent&>(*node.module);
  const std::vector<Tensor> in = tensors_of(nb::make_tuple(x, h, c, lengths), "recurrent");
  const nn::RecurrentOutput y = net(In(in[0], python_line()), {.state = {in[1], in[2]}, .lengths = in[3]});
  return wrap_results({y.output, y.state.h, y.state.c});
}

// (output, weights) where these are wanted, else the output.
nb::object call_attention(const PyNode& node, nb::handle query, nb::handle key, nb::handle value, nb::handle padding,
                          nb::handle mask, bool causal, bool weights, bool average) {
  auto& net = dynamic_cast<nn::MultiheadAttention&>(*node.module);
  const std::vector<Tensor> in = tensors_of(nb::make_tuple(query, key, value, padding, mask), "attention");
  const nn::AttentionOutput y = net(In(in[0], python_line()), in[1], in[2],
                                    {.key_padding_mask = in[3],
                                     .attn_mask = in[4],
                                     .is_causal = causal,
                                     .need_weights = weights,
                                     .average_attn_weights = average});
  return weights ? wrap_results({y.output, y.weights}) : wrap(y.output);
}

// Sets the values of all names, or of those that both have; returns the names that one side alone has.
nb::tuple load_state(const PyNode& node, nb::handle entries, bool strict) {
  std::vector<nn::NamedArray> values;
  for (nb::handle pair : nb::borrow<nb::sequence>(entries))
    values.push_back(
        {nb::cast<std::string>(pair[0]), to_array(contiguous(host(array_of(nb::object(pair[1]), "load_state_dict"))))});
  const nn::LoadResult r = node.module->load_state_dict(values, nn::LoadOptions{.strict = strict});
  return nb::make_tuple(r.missing, r.unexpected);
}

nb::object elements(const Variable& v) { return wrap(copy(from_array(v.array()))); }

}  // namespace

void bind_modules(nb::module_& m) {
  nb::class_<PyVariable>(m, "Variable")
      .def_prop_rw(
          "trainable", [](const PyVariable& v) { return v.variable.trainable(); },
          [](const PyVariable& v, bool on) { v.variable.set_trainable(on); })
      .def_prop_ro("name", [](const PyVariable& v) { return v.variable.name(); })
      .def_prop_ro("shape", [](const PyVariable& v) { return tuple_of(Shape(v.variable.shape())); })
      .def_prop_ro("dtype", [](const PyVariable& v) { return dtype_object(v.variable.type().dtype); })
      .def_prop_ro("device", [](const PyVariable& v) { return v.variable.device(); })
      .def_prop_ro("identity", [](const PyVariable& v) { return reinterpret_cast<uintptr_t>(v.variable.impl().get()); })
      .def("value", [](const PyVariable& v) { return wrap(v.variable.value()); })
      .def("elements", [](const PyVariable& v) { return elements(v.variable); })
      .def("copy_of_elements",
           [](const PyVariable& v) {
             nb::object x = nb::cast(elements(v.variable));
             nb::inst_ptr<PyArray>(x)->of_parameter = true;
             return x;
           })
      .def("set", [](const PyVariable& v, nb::handle x) { v.variable.set(to_array(host(array_of(x, "set")))); })
      .def("assign", [](const PyVariable& v, nb::handle x) { v.variable.assign(tensor_of(array_of(x, "assign"))); })
      .def("tie", [](const PyVariable& v, const PyVariable& other) {
        Variable member = v.variable.as_member();
        member = other.variable;
      });
  nb::class_<Readings>(m, "Readings")
      .def(nb::init<>())
      .def("read", [](Readings& r, const PyVariable& v) { return wrap(r.read(v.variable)); })
      .def("end", &Readings::end);
  nb::class_<PyNode>(m, "Node")
      .def_prop_rw(
          "training", [](const PyNode& n) { return n.module->training(); },
          [](const PyNode& n, bool on) { on ? n.module->train() : n.module->eval(); })
      .def_prop_ro("identity", [](const PyNode& n) { return reinterpret_cast<uintptr_t>(n.module.get()); })
      .def_prop_ro("variable", [](const PyNode& n) { return PyVariable{dynamic_cast<Held&>(*n.module).variable}; })
      .def("state", state_of)
      .def("config", config_of)
      .def("name_variables", name_variables)
      .def("changed", [](const PyNode& n) { n.module->on_output([](auto&&...) {}).remove(); })  // retraces steps
      .def("to_device", [](const PyNode& n, const std::string& device) { n.module->to_device(device); })
      .def("call", call_node)
      .def("call_recurrent", call_recurrent, nb::arg("x"), nb::arg("h").none(), nb::arg("c").none(),
           nb::arg("lengths").none())
      .def("call_attention", call_attention, nb::arg("query"), nb::arg("key"), nb::arg("value"),
           nb::arg("padding").none(), nb::arg("mask").none(), nb::arg("causal"), nb::arg("weights"), nb::arg("average"))
      .def("invoke", [](nb::handle self, const nb::args& arguments, const nb::kwargs& keywords) {
        return written(self).invoke(arguments, keywords);
      });
  m.def("layer_types", layer_types);
  m.def("make_layer", make_layer);
  m.def("make_written", make_written);
  m.def("make_held", [](nb::handle value, bool trained) {
    return PyNode{std::make_shared<Held>(contiguous(array_of(value, "nn.Parameter").view), trained)};
  });
  m.def("make_sequential", [](nb::handle children) {
    auto node = std::make_shared<nn::Sequential>();
    for (nb::handle pair : nb::borrow<nb::sequence>(children))
      node->append(nb::cast<std::string>(pair[0]), nb::cast<PyNode&>(pair[1]).module);
    return PyNode{node};
  });
  m.def("load_state", load_state);
  m.def("evaluate_pending", [] { freight::eval(); });
}

}  // namespace freight::python
