// The part of the ONNX file format (IR version 8, opset 17) that Freight writes: plain structs, and their protobuf wire
// form. Knows nothing of graphs of Freight; onnx_graph.cpp fills it. Source: onnx.proto of ONNX 1.12.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "freight/base/array.h"

namespace freight::deploy::onnx {

inline constexpr int64_t kIrVersion = 8, kOpset = 17;
// Trees have operators of their own.
inline constexpr const char* kTreesDomain = "ai.onnx.ml";
inline constexpr int64_t kTreesOpset = 3;
// Protobuf refuses messages of 2 GiB and more.
inline constexpr size_t kMaxBytes = (size_t{1} << 31) - 1;

struct Attribute {
  std::string name;
  std::variant<int64_t, float, std::vector<int64_t>, std::string, std::vector<float>, std::vector<std::string>> value;
};

struct Node {
  std::string op, name;
  std::vector<std::string> inputs, outputs;
  std::vector<Attribute> attributes;
  std::string domain = {};  // "": the usual operators
};

struct Initializer {
  std::string name;
  Array array;  // shared, not copied
};

struct Extent {
  int64_t value = 0;
  std::string name = {};  // instead of the value where it is not fixed: "N"
};

struct ValueInfo {
  std::string name;
  DType dtype = DType::f32;
  std::vector<Extent> shape;
};

struct Model {
  std::string name, producer_version;
  std::vector<Node> nodes;  // in the order of execution
  std::vector<Initializer> initializers;
  std::vector<ValueInfo> inputs, outputs;
  std::map<std::string, std::string> metadata;
  bool trees = false;  // nodes of kTreesDomain are among them
};

// ONNX's number of an element type (TensorProto.DataType).
int64_t data_type(DType dtype);

// Written aside, synced and renamed. Throws Error(capacity) for a file of 2 GiB or more, Error(runtime) that names the
// path where it cannot be written.
void save(const std::string& path, const Model& model);

}  // namespace freight::deploy::onnx
