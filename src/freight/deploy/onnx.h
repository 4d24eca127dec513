// ONNX export: a stored model as an ONNX file (opset 17, IR version 8) for any batch size, with which ONNX Runtime and
// others answer as deploy::Predictor does. docs/deploy.md says what the file looks like.
#pragma once
#include <string>
#include <vector>

#include "freight/store/bundle.h"

namespace freight::deploy {

// Settings of export_onnx.
struct OnnxOptions {
  bool softmax = true;         // probabilities; else logits. Without meaning for a model that regresses
  bool preprocessing = false;  // of images: the file takes u8 pixels of the model's size instead of normalized floats
};

// The written file: its inputs and outputs, and remarks.
struct OnnxSummary {
  std::string input, output;            // "pixels u8 (N, 3, 224, 224)"
  std::vector<std::string> notes;       // what a user should know
  bool any_length = false;              // of text: T is free
  int64_t nodes = 0, weight_bytes = 0;  // of the graph; of all weights
};

// Writes `path` whole or not at all. A model of rows has the input "features", f32 (N, columns): numbers, words by
// their numbers among the column's levels (-1: none of them), NaN for a missing cell. A net's: input of shape (N, ...):
// "input" f32, normalized as training did; "pixels" u8 with `preprocessing`; "tokens" i32 (N, T) for texts, padded with
// 0, with T free where the net allows it, else the longest of the model's lengths. Output: "probabilities", "logits" or
// "values"; further results of a graph are "output_2" and so on, or left out with a note where ONNX has no form of one.
// Throws Error(usage) for preprocessing of anything but images, and naming op and layer, or the learner, where ONNX has
// no form of it; Error(capacity) for weights of 2 GiB.
OnnxSummary export_onnx(const store::Bundle& bundle, const std::string& path, const OnnxOptions& options = {});

}  // namespace freight::deploy
