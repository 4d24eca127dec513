// A summary has one row per layer of a model with shapes, parameters and FLOPs, read from the traced graph.
#pragma once
#include <string>
#include <vector>

#include "freight/models/models.h"

namespace freight::models {

struct LayerRow {
  std::string path;  // "layer1.0.conv1"; "" where the net is one layer
  std::string type;  // "Conv2d"; of a traced graph the op that works most
  Type in, out;
  int64_t parameters = 0;  // trained numbers of the layer itself
  double flops = 0;        // forward, for the whole batch
};

struct Summary {
  std::string name;
  Type input, output;
  std::vector<LayerRow> layers;      // modules with weights of their own or without children, in order of execution
  int64_t parameters = 0;            // of the whole net
  int64_t auxiliary_parameters = 0;  // those of them in auxiliary heads, which evaluation does not run
  int64_t state_numbers = 0;         // untrained: running statistics
  double flops = 0;                  // forward, for the whole batch, evaluation form
};

// Traces the net in evaluation form for a batch; runs nothing and allocates no weights.
Summary summarize(const Model& model, int64_t batch = 1);
// A table for terminals.
std::string to_text(const Summary& summary);
// {"name", "input", "output", "parameters", "auxiliary_parameters", "state_numbers", "flops", "layers": [{"path",
// "type", "in", "out", "parameters", "flops"}]}
std::string to_json(const Summary& summary);

}  // namespace freight::models
