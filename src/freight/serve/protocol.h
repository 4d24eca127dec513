// The Open Inference Protocol (KServe V2, REST) as bytes: the body of an infer request with its binary tensor extension
// becomes tensors, and tensors become the body of an answer. Pure functions: no sockets, no models; what a model takes
// is model.h's, paths and statuses are routes.h's.
// https://github.com/kserve/open-inference-protocol, extension_binary_data.md and extension_classification.md of Triton
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "freight/base/array.h"
#include "freight/io/file.h"

namespace freight::serve {

// Datatypes that a model of Freight may take or give; the 64-bit ones are for columns of tables.
enum class DataType { fp32, fp64, uint8, int32, int64, bytes };
// "FP32", "FP64", "UINT8", "INT32", "INT64", "BYTES".
const char* to_string(DataType type);

struct NamedTensor {
  std::string name;
  DataType type = DataType::fp32;
  Shape shape = {};
  Array values = {};                    // of `shape`; undefined for bytes
  std::vector<std::string> texts = {};  // of bytes: shape.numel() of them
};

struct WantedOutput {
  std::string name;
  bool binary = false;
  int64_t classification = 0;  // the k best as texts "value:index:class" instead of all values; 0: values
};

struct InferRequest {
  std::string id;                     // "": none
  std::vector<NamedTensor> inputs;    // at least one
  std::vector<WantedOutput> outputs;  // empty: all that the model has
  bool binary_outputs = false;        // of outputs that are not listed
};

// `json_size` is what the header Inference-Header-Content-Length says: so many bytes of JSON, then the binary tensors;
// without it all is JSON. Throws Error(usage) that begins with `name`. What it allocates is bounded by the body's size
// times a small factor, however nested or wide its JSON is.
InferRequest parse_infer(io::ByteView body, std::optional<size_t> json_size, const std::string& name);

struct InferAnswer {
  std::string body;
  std::optional<size_t> json_size;  // where binary tensors follow
};
struct Output {
  NamedTensor tensor;
  bool binary = false;
};
InferAnswer write_infer(const std::string& model, const std::string& id, const std::vector<Output>& outputs);

// {"error": text}, for every refusal.
std::string error_json(const std::string& text);

}  // namespace freight::serve
