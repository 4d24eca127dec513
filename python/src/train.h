// Modules and training behind freight.nn, freight.optim and fit: variables, the library's layers by their declarations
// and modules whose forward is written in Python (train_module.cpp), optimizers (train_optim.cpp), and runs of the
// library's trainer (train_run.cpp), and data sets (train_data.cpp). The Python side is in freight/_module.py,
// _optim.py and _fit.py.
#pragma once
#include <memory>

#include "array.h"
#include "freight/nn/module.h"
#include "freight/optim/optimizer.h"
#include "freight/trace/variable.h"

namespace freight::python {

// freight._core.Variable.
struct PyVariable {
  Variable variable;
};
// freight._core.Node: a module of the library. A module of Python has one, too, and its forward calls Python.
struct PyNode {
  std::shared_ptr<nn::Module> module;
};

Variable& variable_of(nb::handle h);
nn::Module& module_of(nb::handle node);
// The elements of a list of arrays, tensors among them; None is an undefined tensor.
std::vector<Tensor> tensors_of(nb::handle list, const char* function);
// One array, or a tuple of those that are defined.
nb::object wrap_results(std::vector<Tensor> results);

// The library's optimizer of a freight._core.Optimizer.
std::shared_ptr<optim::Optimizer> optimizer_of(nb::handle h);

void bind_modules(nb::module_& m);
void bind_optimizers(nb::module_& m);
void bind_runs(nb::module_& m);
void bind_datasets(nb::module_& m);

}  // namespace freight::python
