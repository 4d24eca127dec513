// See mlp_model.h.
#include "freight/tables/mlp_model.h"

#include <algorithm>
#include <cmath>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/trace/compile.h"
#include "freight/trace/device.h"

namespace freight::tables {

namespace {

constexpr int64_t kMlpBlockRows = 64;
constexpr const char* kMlpMade = "mlp";                    // the entry of metadata
constexpr const char* kMlpWeights = "mlp.net.";            // in front of the weights' names
constexpr int64_t kMostUnits = 8192, kMostMlpLayers = 64;  // of stored sizes

}  // namespace

std::unique_ptr<MlpNet> make_mlp(const MlpColumns& columns, const MlpMade& made) {
  const DeviceScope cpu("cpu");
  return std::make_unique<MlpNet>(columns, made.sizes, MlpNet::outputs_for(made.target.classes));
}

std::vector<nn::NamedVariable> mlp_weights(const MlpNet& net) {
  std::vector<nn::NamedVariable> all = net.state_dict();
  std::erase_if(all, [](const nn::NamedVariable& v) { return v.variable.role() != Variable::Role::parameter; });
  return all;
}

MlpAnswers::MlpAnswers(MlpNet& net, const MlpColumns& columns, const MlpTarget& target, Weights weights)
    : columns_(columns), target_(target) {
  auto answer = [&net, classes = target.classes](const Tensor& numbers, const Tensor& words) {
    return mlp_answers(net(numbers, words), classes);
  };
  const CompileOptions options{.backend = "cpu", .deterministic = true, .frozen = weights == Weights::frozen};
  auto compiled = std::make_shared<Compiled<decltype(answer)>>(answer, options);
  block_ = [compiled](const MlpColumns::Encoded& block) { return (*compiled)(block.numbers, block.words).array(); };
}

Array MlpAnswers::operator()(const Array& rows) const {
  const int64_t n = rows.shape()[0], k = target_.outputs();
  Array out(DType::f32, {n, k});
  for (int64_t begin = 0; begin < n; begin += kMlpBlockRows) {
    const int64_t end = std::min(n, begin + kMlpBlockRows);
    const Array outputs = block_(columns_.encode(rows, begin, end, kMlpBlockRows));
    const auto* const from = outputs.data<float>();
    auto* const to = out.data<float>() + begin * k;
    for (int64_t i = 0; i < (end - begin) * k; ++i) {
      to[i] = target_.classes == 0 ? static_cast<float>(target_.mean + target_.scale * static_cast<double>(from[i]))
                                   : from[i];
    }
  }
  return out;
}

MlpModel::MlpModel(MlpColumns columns, const MlpMade& made, const std::vector<nn::NamedArray>& weights)
    : columns_(std::move(columns)),
      made_(made),
      net_(make_mlp(columns_, made)),
      answers_(*net_, columns_, made.target, MlpAnswers::Weights::frozen) {
  nn::load_values(mlp_weights(*net_), weights, {.source = "mlp"});
}

std::vector<std::string> MlpModel::lines() const {
  const MlpSizes& s = made_.sizes;
  std::vector<std::string> lines = {cat(s.members, " networks that share ", s.layers, " layers of ", s.width,
                                        " units (TabM), the mean of their predictions"),
                                    cat(columns_.numbers(), " columns of numbers in up to ", columns_.bins(), " bins, ",
                                        columns_.words(), " of words; each becomes ", s.embedding, " numbers")};
  if (made_.kept < made_.epochs) lines.push_back(cat("the weights of epoch ", made_.kept, " of ", made_.epochs));
  return lines;
}

void MlpModel::write(io::SafeTensors& file) const {
  columns_.write(file);
  for (const nn::NamedArray& w : nn::values_of(mlp_weights(*net_))) {
    file.tensors.emplace_back(cat(kMlpWeights, w.name), w.array);
  }
  const MlpSizes& s = made_.sizes;
  file.metadata[kMlpMade] =
      nlohmann::ordered_json{{"members", s.members},     {"width", s.width},          {"layers", s.layers},
                             {"embedding", s.embedding}, {"mean", made_.target.mean}, {"scale", made_.target.scale},
                             {"epochs", made_.epochs},   {"kept", made_.kept}}
          .dump();
}

namespace {

double weights_of_mlp(const MlpColumns& columns, const MlpMade& made) {
  const MlpSizes& s = made.sizes;
  const auto of = [](int64_t n) { return static_cast<double>(n); };
  const double k = of(s.members), h = of(s.width), d = of(s.embedding);
  const double in = (of(columns.numbers()) + of(columns.words())) * d;
  const double outputs = of(MlpNet::outputs_for(made.target.classes));
  return of(columns.numbers()) * (of(columns.bins()) + 3) * d + of(columns.words() > 0 ? columns.embeddings() : 0) * d +
         k * in + (in + 1) * h + of(s.layers - 1) * (h + 1) * h + k * (h + 1) * outputs;
}

MlpMade read_mlp_made(const io::SafeTensors& file, const std::string& path) {
  const auto entry = file.metadata.find(kMlpMade);
  if (entry == file.metadata.end()) fail(ErrorKind::checkpoint, path, "its metadata has no entry ", kMlpMade);
  MlpMade made;
  try {
    const auto j =
        io::parse_json<nlohmann::json>(entry->second, cat(path, ": metadata: ", kMlpMade), ErrorKind::checkpoint);
    const auto size = [&](const char* name, int64_t most) {
      const auto v = j.at(name).get<int64_t>();
      if (v < 1 || v > most) {
        fail(ErrorKind::checkpoint, path, "metadata: ", kMlpMade, ": ", name, ": expected 1 to ", most, ", got ", v);
      }
      return v;
    };
    made.sizes = {.members = size("members", kMostUnits),
                  .width = size("width", kMostUnits),
                  .layers = size("layers", kMostMlpLayers),
                  .embedding = size("embedding", kMostUnits)};
    made.epochs = j.at("epochs").get<int64_t>();
    made.kept = j.at("kept").get<int64_t>();
    made.target.mean = j.at("mean").get<double>();
    made.target.scale = j.at("scale").get<double>();
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorKind::checkpoint, path, "metadata: ", kMlpMade, ": ", io::json_fault(e));
  }
  if (!std::isfinite(made.target.mean) || !(made.target.scale > 0) || !std::isfinite(made.target.scale)) {
    fail(ErrorKind::checkpoint, path, "metadata: ", kMlpMade,
         ": mean and scale must be finite, the latter above 0: got ", made.target.mean, " and ", made.target.scale);
  }
  return made;
}

}  // namespace

std::shared_ptr<const store::RowModel> read_mlp(const io::SafeTensors& file, const std::string& path,
                                                const store::RowShape& shape) {
  MlpMade made = read_mlp_made(file, path);
  made.target.classes = static_cast<int64_t>(shape.classes.size());
  MlpColumns columns(shape, file, path);
  if (columns.numbers() + columns.words() == 0) fail(ErrorKind::checkpoint, path, "its network reads no column");
  // The net is made with all its weights, so that the file must hold about as many before it is. Which one is missing
  // is predicted below.
  constexpr double kFewWeights = 1 << 20;
  double held = 0;
  for (const auto& [name, array] : file.tensors) held += static_cast<double>(array.numel());
  if (const double need = weights_of_mlp(columns, made); need > kFewWeights + 2 * held) {
    fail(ErrorKind::checkpoint, path, "metadata: ", kMlpMade, ": a network of these sizes has ", need,
         " weights, and the file holds ", held);
  }
  std::vector<nn::NamedArray> weights;
  for (const nn::NamedVariable& v : mlp_weights(*make_mlp(columns, made))) {
    const std::string name = cat(kMlpWeights, v.name);
    const Array* const found = file.find(name);
    if (!found || found->dtype() != DType::f32 || found->shape() != v.variable.shape()) {
      fail(ErrorKind::checkpoint, path, "the tensor ", name, " is missing, or not ", v.variable.type());
    }
    const auto* const values = found->data<float>();
    if (!std::all_of(values, values + found->numel(), [](float x) { return std::isfinite(x); })) {
      fail(ErrorKind::checkpoint, path, "the tensor ", name, " contains NaN or infinity");
    }
    weights.push_back({v.name, *found});
  }
  return std::make_shared<MlpModel>(std::move(columns), made, weights);
}

}  // namespace freight::tables
