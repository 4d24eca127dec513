// Models of rows as ONNX graphs: trees as TreeEnsembleRegressor of ai.onnx.ml, sums of products as plain operators. The
// input "features" is f32 (N, columns), in the order of the model's columns. See onnx_rows.cpp.
#pragma once
#include <string>
#include <vector>

#include "freight/deploy/onnx_proto_internal.h"
#include "freight/store/bundle.h"

namespace freight::deploy::onnx {

// By column: what is subtracted from a number before it becomes f32, since f32 would not tell the numbers apart.
std::vector<double> origins_of(const store::Bundle& bundle);
// Cells f64 (N, columns) as that input.
Array features_of(const store::Bundle& bundle, const Array& rows);
// Throws Error(usage) for a model without such a form. Gives remarks for a user.
std::vector<std::string> write_rows(const store::Bundle& bundle, Model& model);

}  // namespace freight::deploy::onnx
