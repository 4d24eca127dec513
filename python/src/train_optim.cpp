// Optimizers by name, with their settings as data, and learning-rate schedules.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <functional>
#include <variant>

#include "freight/optim/muon.h"
#include "freight/optim/optimizer.h"
#include "freight/optim/schedule.h"
#include "train.h"

namespace freight::python {

namespace {

// The settings of an optimizer that Python names; a member of each kind, and the value that it has where none is given.
template <class Options>
struct Member {
  const char* name;
  std::variant<double Options::*, bool Options::*, int Options::*> at;
};

// An optimizer as data: its name, one line, and functions that list its settings and make it.
struct OptimizerType {
  const char* name;
  const char* doc;
  std::function<nb::dict()> settings;
  std::function<std::unique_ptr<optim::Optimizer>(const optim::ParameterGroups&, const nb::dict&)> make;
};

// `own` are the settings that the optimizer has besides those of all. With weight_decay among them they are all of
// PyTorch's, in its order, so that positions mean the same.
template <class O, class Options>
OptimizerType optimizer_type(const char* name, const char* doc, const std::vector<Member<Options>>& own,
                             Options usual = {}) {
  std::vector<Member<Options>> members = {{"lr", &Options::lr}};
  members.insert(members.end(), own.begin(), own.end());
  const auto add = [&](const Member<Options>& m) {
    const bool has = std::any_of(own.begin(), own.end(), [&](const auto& o) { return o.name == std::string(m.name); });
    if (!has) members.push_back(m);
  };
  add({"weight_decay", &Options::weight_decay});
  add({"clip_grad_norm", &Options::clip_grad_norm});
  add({"decay_norm_bias", &Options::decay_norm_bias});
  add({"maximize", &Options::maximize});
  const auto settings = [members, usual] {
    nb::dict all;
    for (const Member<Options>& m : members)
      all[m.name] = std::visit([&](auto at) -> nb::object { return nb::cast(usual.*at); }, m.at);
    return all;
  };
  const auto make = [members, usual, name](const optim::ParameterGroups& groups, const nb::dict& given) {
    Options options = usual;
    for (const Member<Options>& m : members) {
      if (!given.contains(m.name)) continue;
      const nb::object value = given[m.name];
      if (!std::visit([&](auto at) { return nb::try_cast(value, options.*at); }, m.at))
        raise<TypeError>(name, ": ", m.name, ": got ", nb::repr(value).c_str());
    }
    return std::unique_ptr<optim::Optimizer>(std::make_unique<O>(groups, options));
  };
  return {name, doc, settings, make};
}

const std::vector<OptimizerType>& optimizer_types() {
  using optim::AdagradOptions, optim::AdamOptions, optim::LionOptions, optim::MuonOptions, optim::NAdamOptions,
      optim::RMSpropOptions, optim::SGDOptions;
  const std::vector<Member<AdamOptions>> adam = {{"beta1", &AdamOptions::beta1},
                                                 {"beta2", &AdamOptions::beta2},
                                                 {"eps", &AdamOptions::eps},
                                                 {"weight_decay", &AdamOptions::weight_decay},
                                                 {"amsgrad", &AdamOptions::amsgrad}};
  AdamOptions decoupled;
  decoupled.weight_decay = 0.01;  // PyTorch's
  static const std::vector<OptimizerType> all = {
      optimizer_type<optim::SGD, SGDOptions>("SGD", "Stochastic gradient descent, with momentum",
                                             {{"momentum", &SGDOptions::momentum},
                                              {"dampening", &SGDOptions::dampening},
                                              {"weight_decay", &SGDOptions::weight_decay},
                                              {"nesterov", &SGDOptions::nesterov}}),
      optimizer_type<optim::Adam>("Adam", "Kingma and Ba 2015; weight decay is added to the gradient", adam),
      optimizer_type<optim::AdamW>("AdamW", "Loshchilov and Hutter 2019: the decay acts on the weights", adam,
                                   decoupled),
      optimizer_type<optim::Lion, LionOptions>("Lion", "Chen et al. 2023: steps of one size; decoupled weight decay",
                                               {{"beta1", &LionOptions::beta1}, {"beta2", &LionOptions::beta2}}),
      optimizer_type<optim::RMSprop, RMSpropOptions>(
          "RMSprop", "Tieleman and Hinton 2012: gradients divided by the root of their mean square",
          {{"alpha", &RMSpropOptions::alpha},
           {"eps", &RMSpropOptions::eps},
           {"weight_decay", &RMSpropOptions::weight_decay},
           {"momentum", &RMSpropOptions::momentum},
           {"centered", &RMSpropOptions::centered}}),
      optimizer_type<optim::Muon, MuonOptions>(
          "Muon", "Jordan et al. 2024: orthogonalized momentum for matrices, AdamW for the rest",
          {{"momentum", &MuonOptions::momentum},
           {"nesterov", &MuonOptions::nesterov},
           {"iterations", &MuonOptions::iterations},
           {"adam_lr_ratio", &MuonOptions::adam_lr_ratio}}),
      optimizer_type<optim::Adagrad, AdagradOptions>(
          "Adagrad", "Duchi et al. 2011: gradients divided by the root of the sum of their squares",
          {{"lr_decay", &AdagradOptions::lr_decay},
           {"weight_decay", &AdagradOptions::weight_decay},
           {"initial_accumulator_value", &AdagradOptions::initial_accumulator_value},
           {"eps", &AdagradOptions::eps}}),
      optimizer_type<optim::NAdam, NAdamOptions>("NAdam", "Dozat 2016: Adam with Nesterov momentum",
                                                 {{"beta1", &NAdamOptions::beta1},
                                                  {"beta2", &NAdamOptions::beta2},
                                                  {"eps", &NAdamOptions::eps},
                                                  {"weight_decay", &NAdamOptions::weight_decay},
                                                  {"momentum_decay", &NAdamOptions::momentum_decay},
                                                  {"decoupled_weight_decay", &NAdamOptions::decoupled_weight_decay}}),
  };
  return all;
}

struct PyOptimizer {
  std::shared_ptr<optim::Optimizer> optimizer;
};

// Groups are dicts: "params" has variables, "lr" and "weight_decay" may be missing.
optim::ParameterGroups groups_of(nb::handle list) {
  std::vector<optim::ParameterGroup> groups;
  for (nb::handle h : nb::borrow<nb::sequence>(list)) {
    const auto d = nb::borrow<nb::dict>(h);
    optim::ParameterGroup group;
    for (nb::handle v : nb::borrow<nb::sequence>(d["params"])) group.parameters.push_back(variable_of(v));
    if (d.contains("lr")) group.lr = nb::cast<double>(d["lr"]);
    if (d.contains("weight_decay")) group.weight_decay = nb::cast<double>(d["weight_decay"]);
    if (d.contains("name")) group.name = nb::cast<std::string>(d["name"]);
    groups.push_back(std::move(group));
  }
  return groups;
}

PyOptimizer make_optimizer(const std::string& name, nb::handle groups, const nb::dict& settings) {
  for (const OptimizerType& type : optimizer_types()) {
    if (type.name == name) return {type.make(groups_of(groups), settings)};
  }
  raise<ValueError>("there is no optimizer ", name);
}

nb::list optimizer_list() {
  nb::list all;
  for (const OptimizerType& type : optimizer_types()) all.append(nb::make_tuple(type.name, type.doc, type.settings()));
  return all;
}

struct PySchedule {
  optim::Schedule schedule;
};

}  // namespace

std::shared_ptr<optim::Optimizer> optimizer_of(nb::handle h) { return nb::cast<const PyOptimizer&>(h).optimizer; }

void bind_optimizers(nb::module_& m) {
  using optim::Schedule;
  nb::class_<PyOptimizer>(m, "Optimizer")
      .def_prop_rw(
          "lr", [](const PyOptimizer& o) { return o.optimizer->lr(); },
          [](const PyOptimizer& o, double lr) { o.optimizer->set_lr(lr); })
      .def("group_lr", [](const PyOptimizer& o, const std::string& group) { return o.optimizer->lr(group); })
      .def("set_group_lr",
           [](const PyOptimizer& o, const std::string& group, double lr) { o.optimizer->set_lr(group, lr); })
      .def("groups", [](const PyOptimizer& o) { return o.optimizer->groups(); })
      .def("apply",
           [](const PyOptimizer& o, nb::handle gradients) { o.optimizer->apply(tensors_of(gradients, "update")); })
      .def("state",
           [](const PyOptimizer& o) {
             nb::dict all;
             for (const nn::NamedVariable& v : o.optimizer->state_dict())
               all[nb::str(v.name.c_str())] = wrap(copy(from_array(v.variable.array())));
             return all;
           })
      .def("load_state", [](const PyOptimizer& o, const nb::dict& state) {
        std::vector<nn::NamedArray> entries;
        for (auto [name, value] : state)
          entries.push_back({text_of(name), to_array(contiguous(host(array_of(value, "load_state_dict"))))});
        o.optimizer->load_state_dict(entries);
      });
  m.def("optimizers", optimizer_list);
  m.def("make_optimizer", make_optimizer);
  nb::class_<PySchedule>(m, "Schedule").def("at", [](const PySchedule& s, int64_t i) { return s.schedule.at(i); });
  // Schedules by name, with their numbers in the order of the library's functions.
  m.def("schedule", [](const std::string& name, const std::vector<double>& n, const std::vector<int64_t>& milestones) {
    const auto whole = [&](size_t i) { return static_cast<int64_t>(n[i]); };
    return PySchedule{name == "step"         ? Schedule::step(n[0], whole(1), n[2])
                      : name == "multi_step" ? Schedule::multi_step(n[0], milestones, n[1])
                      : name == "cosine"     ? Schedule::cosine(n[0], whole(1), n[2])
                      : name == "linear"     ? Schedule::linear(n[0], whole(1), n[2])
                      : name == "one_cycle"  ? Schedule::one_cycle(n[0], whole(1), {n[2], n[3], n[4]})
                                             : Schedule::constant(n[0])};
  });
}

}  // namespace freight::python
