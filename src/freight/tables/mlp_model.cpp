// See mlp_model.h.
#include "freight/tables/mlp_model.h"

#include <algorithm>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/trace/compile.h"
#include "freight/trace/device.h"

namespace freight::tables {

namespace {

constexpr int64_t kMlpBlockRows = 64;
constexpr const char* kMlpMade = "mlp";             // the entry of metadata
constexpr const char* kMlpTensors = "mlp.net.";     // in front of the names of the network's variables
constexpr const char* kMlpFeatures = "mlp.input.";  // in front of TreeColumns' names

std::vector<nn::NamedVariable> mlp_variables(const nn::Module& net) {
  std::vector<nn::NamedVariable> all = net.state_dict();
  for (nn::NamedVariable& v : all) v.name.insert(0, kMlpTensors);
  return all;
}

}  // namespace

std::vector<nn::NamedArray> mlp_state(const nn::Module& net) { return nn::values_of(mlp_variables(net)); }

MlpModel::MlpModel(MlpColumns columns, int64_t bins, int64_t classes, const std::vector<nn::NamedArray>& state,
                   const std::string& source)
    : columns_(std::move(columns)), classes_(classes) {
  const DeviceScope cpu("cpu");
  net_ = std::make_shared<MlpNet>(columns_, bins, classes);
  nn::load_values(mlp_variables(*net_), state, {.source = source});
  auto predict = [net = net_](const Tensor& x) { return net->predictions((*net)(x)); };
  auto compiled = std::make_shared<Compiled<decltype(predict)>>(
      predict, CompileOptions{.backend = "cpu", .deterministic = true, .frozen = true});
  block_ = [compiled](const Array& x) { return (*compiled)(x).array(); };
}

Array MlpModel::run(const Array& rows) const {
  const int64_t n = rows.shape()[0], k = outputs();
  Array out(DType::f32, {n, k});
  for (int64_t begin = 0; begin < n; begin += kMlpBlockRows) {
    const int64_t end = std::min(n, begin + kMlpBlockRows);
    const Array block = block_(columns_.encode(rows, begin, end, kMlpBlockRows));
    std::copy_n(block.data<float>(), (end - begin) * k, out.data<float>() + begin * k);
  }
  return out;
}

std::vector<std::string> MlpModel::lines() const {
  std::vector<std::string> lines = {
      cat(MlpNet::kMembers, " networks that share ", MlpNet::kLayers, " layers of ", MlpNet::kWidth,
          " units (TabM), the mean of their predictions"),
      cat(columns_.numbers().size(), " numeric columns in up to ", net_->bins(), " bins, ", columns_.words().size(),
          " of categories; each becomes ", MlpNet::kEmbedding, " numbers")};
  if (kept < epochs) lines.push_back(cat("the weights of epoch ", kept, " of ", epochs));
  return lines;
}

void MlpModel::write(io::SafeTensors& file) const {
  columns_.features().write(file, kMlpFeatures);
  for (const nn::NamedArray& v : mlp_state(*net_)) file.tensors.emplace_back(v.name, v.array);
  file.metadata[kMlpMade] = nlohmann::ordered_json{{"epochs", epochs}, {"kept", kept}}.dump();
}

std::shared_ptr<const store::RowModel> read_mlp(const io::SafeTensors& file, const std::string& path,
                                                const store::RowShape& shape) {
  const auto entry = file.metadata.find(kMlpMade);
  if (entry == file.metadata.end()) fail(ErrorKind::checkpoint, path, "its metadata has no entry ", kMlpMade);
  MlpColumns columns(shape.columns, TreeColumns(shape.columns, file, path, kMlpFeatures));
  std::vector<nn::NamedArray> state;
  int64_t bins = 1;
  for (const auto& [name, array] : file.tensors) {
    if (starts_with(name, kMlpTensors)) state.push_back({name, array});
    if (name == cat(kMlpTensors, "bin_start") && array.shape().rank() == 3) bins = array.shape()[2];
  }
  auto model =
      std::make_shared<MlpModel>(std::move(columns), bins, static_cast<int64_t>(shape.classes.size()), state, path);
  try {
    const auto made =
        io::parse_json<nlohmann::json>(entry->second, cat(path, ": metadata: ", kMlpMade), ErrorKind::checkpoint);
    model->epochs = made.at("epochs").get<int64_t>();
    model->kept = made.at("kept").get<int64_t>();
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorKind::checkpoint, path, "metadata: ", kMlpMade, ": ", io::json_fault(e));
  }
  return model;
}

}  // namespace freight::tables
