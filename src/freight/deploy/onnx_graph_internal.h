// A graph of Freight as ONNX nodes. onnx_graph.cpp has one row per op that can be written; composites without a row are
// written through their definition.
#pragma once
#include <string>
#include <vector>

#include "freight/deploy/onnx_extents_internal.h"
#include "freight/deploy/onnx_proto_internal.h"

namespace freight::deploy::onnx {

// Inference graphs as write_graph wants them: composites that ONNX lacks decomposed, then simplified.
freight::Graph prepared(const freight::Graph& graph);

// Adds the family's graph to `model`: its first input leaf is the file's input, any others become initializers with the
// elements of `captured`; states become initializers of their names with the elements of `states` (in the order of the
// leaves). Axes that vary are called N and T. Throws Error(usage) naming op and layer where ONNX has no form of it.
void write_graph(const Family& family, const std::vector<Array>& captured, const std::vector<Array>& states,
                 const std::string& output, Model& model);

}  // namespace freight::deploy::onnx
