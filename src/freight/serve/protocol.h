// The Open Inference Protocol (KServe V2, REST) as bytes: the body of an infer request with its binary tensor extension
// becomes tensors, and tensors become the body of a response. These are pure functions without sockets and models;
// model.h knows what a model accepts, routes.h the paths and statuses.
// https://github.com/kserve/open-inference-protocol, extension_binary_data.md and extension_classification.md of Triton
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "freight/base/array.h"
#include "freight/io/file.h"

namespace freight::serve {

// The datatypes of inputs and outputs of Freight's models; the 64-bit types are for columns of tables.
enum class DataType { fp32, fp64, uint8, int32, int64, bytes };
// The name of a type: "FP32", "FP64", "UINT8", "INT32", "INT64", "BYTES".
const char* to_string(DataType type);

struct NamedTensor {
  std::string name;
  DataType type = DataType::fp32;
  Shape shape = {};
  Array values = {};                    // has the shape `shape`; undefined for bytes
  std::vector<std::string> texts = {};  // for bytes: shape.numel() texts
};

struct WantedOutput {
  std::string name;
  bool binary = false;
  // Return the k most probable as texts "value:index:class" instead of all values; 0: values.
  int64_t classification = 0;
};

struct InferRequest {
  std::string id;                     // "": not set
  std::vector<NamedTensor> inputs;    // at least one
  std::vector<WantedOutput> outputs;  // empty: all outputs of the model
  bool binary_outputs = false;        // for outputs that are not listed
};

// `json_size` is the value of the header Inference-Header-Content-Length: the bytes of JSON, after which binary tensors
// follow; without it the whole body is JSON. Throws Error(usage) that begins with `name`. Its memory is bounded by the
// body's size times a small factor, however nested or wide the JSON is.
InferRequest parse_infer(io::ByteView body, std::optional<size_t> json_size, const std::string& name);

struct InferResponse {
  std::string body;
  std::optional<size_t> json_size;  // set if binary tensors follow
};
struct Output {
  NamedTensor tensor;
  bool binary = false;
};
InferResponse write_infer(const std::string& model, const std::string& id, const std::vector<Output>& outputs);

// {"error": text}, the body of every refusal.
std::string error_json(const std::string& text);

}  // namespace freight::serve
