// GraphModule: a module whose forward is a traced graph, as text. A network whose forward is code, in Python or in a
// class that nobody has declared, has a spec form as one: it is stored, served and exported as a network of layers is.
// The text is that of docs/graph-text.md, with sizes of N, the batch's. models::as_graph (models/models.h) makes one of
// a model.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "freight/ir/graph.h"
#include "freight/nn/layer_type.h"
#include "freight/nn/module.h"

namespace freight::nn {

struct GraphModuleOptions {
  std::string graph;           // of evaluation
  std::string training_graph;  // of training; empty: `graph`
  std::string buffers;         // the states that are not trained, by name, separated by blanks
  bool trainable = true;       // false: training could not be traced, and all parameters are frozen
};

// Runs a graph for a batch x (N, ...), the graph's first input. Its states are the module's variables, updates are
// assigned; an input "rng" i64[2] is the state behind random ops. Batches may have any size. Samples must have the
// shape that the graph was traced with.
class GraphModule : public Module {
 public:
  using Fields = GraphModuleOptions;
  // Throws Error(data) for a text that is no such graph, and Error(usage) for graphs with other states.
  explicit GraphModule(const Fields& fields);
  // With these variables, those of the graph in their order, in place of new ones.
  GraphModule(const Fields& fields, const std::vector<NamedVariable>& variables);

  const Fields& fields() const { return fields_; }
  // The first result.
  Tensor forward(const Tensor& x) override;
  std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs) override;  // all results
  // The graph of the present mode for a batch.
  std::shared_ptr<const Graph> graph(int64_t batch) const;

 private:
  struct Last;
  Fields fields_;
  std::shared_ptr<Last> last_;  // the graph of the last call
};

// How the names of states begin that trace_module adds to those of the module: arrays that its forward reads besides.
inline constexpr const char* kReadByForward = "freight.";
// The forward of a module that takes one input, traced for `sample` (a type without the axis of samples) in evaluation
// and in training. The variables are shared, and the module keeps its mode. Where training cannot be traced, the result
// is not trainable, and `untrained` says why. Throws Error(usage) that says why for a forward that computes something
// else for another size of the batch, or in Python what it raises.
std::shared_ptr<GraphModule> trace_module(Module& net, const Type& sample, std::string* untrained = nullptr);

}  // namespace freight::nn
