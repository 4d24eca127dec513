// Every net of the registry against PyTorch and torchvision: outputs in evaluation and in training, the loss, the
// gradient of every parameter and the statistics, from equal weights. The expected numbers are made by torch_zoo.py
// (read there what "gated" means); `noise` and `weight` repeat its formulas.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "freight/freight.h"
#include "freight/io/weights_file.h"
#include "freight/models/loss.h"
#include "freight/store/bundle.h"
#include "tests/support/folders.h"
#include "tests/support/torch_python.h"

namespace freight {
namespace {

using nlohmann::json;

const json& expected() {
  static const json j = json::parse(std::ifstream(source_dir() + "/tests/peers/torch_zoo.json"));
  return j;
}

uint32_t key_of(const std::string& name) {
  uint32_t key = 0x811C9DC5;
  for (const char c : name) key = (key ^ static_cast<uint8_t>(c)) * 0x01000193;
  return key;
}
double noise(uint32_t key, int64_t i) {
  uint32_t h = static_cast<uint32_t>(i) * 0x9E3779B1 + key;
  h ^= h >> 16;
  h *= 0x85EBCA6B;
  h ^= h >> 13;
  h *= 0xC2B2AE35;
  h ^= h >> 16;
  return (h >> 8) * 0x1p-23 - 1;
}

constexpr int64_t kChunk = 1 << 16;

// center + scale * noise of that name.
Array noisy(const std::string& name, const Shape& shape, double centre, double scale) {
  Array a(DType::f32, shape);
  auto* out = a.data<float>();
  const uint32_t key = key_of(name);
  const int64_t n = a.numel();
  parallel_for((n + kChunk - 1) / kChunk, [&](int64_t chunk) {
    for (int64_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i)
      out[i] = static_cast<float>(centre + scale * noise(key, i));
  });
  return a;
}

// Numbers below `vocabulary`, padding among them.
Array tokens(const std::string& name, const Shape& shape, double vocabulary) {
  Array a(DType::i32, shape);
  for (int64_t i = 0; i < a.numel(); ++i) {
    a.data<int32_t>()[i] = static_cast<int32_t>((noise(key_of(name), i) + 1) / 2 * vocabulary);
  }
  return a;
}

enum class Fill { plain, gated };

// True if the parameter is of the last BatchNorm before the sum of a residual block.
bool last_of_branch(const std::string& name, const std::set<std::string>& names) {
  const std::string block = name.substr(0, name.find(".bn"));
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (has(".bn3.") || (has(".bn2.") && !names.contains(block + ".bn3.weight"))) return true;
  static const std::regex kLast(R"(features\.\d+\.conv\.[23]\..*|.*\.f\.c\.1\..*)"),
      kInside(R"((.*\.block\.)(\d)\.1\..*)");
  if (std::regex_match(name, kLast)) return true;
  std::smatch inside;
  if (!std::regex_match(name, inside, kInside)) return false;
  const std::string next = cat(inside[1].str(), std::stoi(inside[2]) + 1, ".");
  const auto at = names.lower_bound(next);
  return at == names.end() || !starts_with(*at, next);
}

Array weight(const std::string& name, const Shape& shape, const std::set<std::string>& names, Fill kind) {
  const bool norm = names.contains(name.substr(0, name.rfind('.')) + ".running_var");
  const bool branch_end = last_of_branch(name, names);
  const bool gated = kind == Fill::gated;
  if (ends_with(name, "layer_scale")) return noisy(name, shape, 0.1, 0.02);
  if (shape.rank() > 1) {
    const double fan_in = static_cast<double>(shape.numel()) / static_cast<double>(shape[0]);
    return noisy(name, shape, 0, std::sqrt(6 / fan_in));
  }
  if (ends_with(name, "running_var")) return noisy(name, shape, 1, 0.2);
  if (ends_with(name, "weight")) {
    const double damp = gated && branch_end ? 0.1 : 1;
    return noisy(name, shape, damp, 0.2 * damp);
  }
  return noisy(name, shape, gated && norm && !branch_end && ends_with(name, "bias") ? 4 : 0, 0.1);
}

void fill(const nn::Module& net, Fill kind) {
  const auto state = net.state_dict();
  std::set<std::string> names;
  for (const nn::NamedVariable& v : state) names.insert(v.name);
  for (const nn::NamedVariable& v : state) {
    // Gating changes the BatchNorms only; the large weights are made once.
    if (kind == Fill::plain || v.variable.shape().rank() == 1)
      v.variable.set(weight(v.name, v.variable.shape(), names, kind));
  }
}

// Norm of the gradient, and its product with the direction of that name.
std::pair<double, double> digest(const std::string& name, const Array& gradient) {
  const uint32_t key = key_of("direction of " + name);
  const int64_t n = gradient.numel(), chunks = (n + kChunk - 1) / kChunk;
  std::vector<std::pair<double, double>> parts(static_cast<size_t>(chunks));
  const auto* g = gradient.data<float>();
  parallel_for(chunks, [&](int64_t chunk) {
    auto& [square, product] = parts[static_cast<size_t>(chunk)];
    for (int64_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i) {
      const double v = static_cast<double>(g[i]);
      square += v * v;
      product += v * noise(key, i);
    }
  });
  double square = 0, product = 0;
  for (const auto& [s, p] : parts) square += s, product += p;
  return {std::sqrt(square), product};
}

void without_dropout(json& spec) {
  const std::string type = spec.is_object() ? spec.value("type", "") : "";
  if (type == "Dropout" || type == "StochasticDepth") spec["p"] = 0;
  for (json& inner : spec) {
    if (inner.is_structured()) without_dropout(inner);
  }
}

// The named net for that input and ten outputs, Dropout off.
models::Model make(const std::string& name, const json& want) {
  models::Options options{.classes = 10, .input = Shape(want["input"].get<std::vector<int64_t>>())};
  options.vocabulary = want.value("vocabulary", int64_t{0});
  json spec = json::parse(models::to_spec(models::create(name, options)));
  without_dropout(spec);
  return models::from_spec(spec.dump(), name);
}

void expect_close(const Array& got, const json& want, const char* what) {
  const auto values = got.to_vector<double>();
  ASSERT_EQ(values.size(), want.size()) << what;
  double error = 0, size = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double w = want[i].get<double>();
    error += (values[i] - w) * (values[i] - w);
    size += w * w;
  }
  EXPECT_LE(std::sqrt(error), 1e-4 * std::sqrt(size)) << what;
}

class Zoo : public ::testing::TestWithParam<std::string> {};

TEST_P(Zoo, OutputsAndGradientsAreThoseOfPyTorch) {
  const DeviceScope on("cpu");
  const std::string name = GetParam();
  ASSERT_TRUE(expected().contains(name)) << "torch_zoo.py does not know it";
  const json& want = expected()[name];
  const models::Model model = make(name, want);
  nn::Module& net = *model.net;
  const auto n = want["batch"].get<int64_t>();
  const std::string x_name = cat("x", want["salt"].get<int64_t>());
  Array x = noisy(x_name, model.batch_type(n).shape, 0, std::sqrt(3.0));
  if (model.reads_tokens()) x = tokens(x_name, x.shape(), want["vocabulary"].get<double>());
  Array y(DType::i64, {n});
  for (int64_t i = 0; i < n; ++i) y.data<int64_t>()[i] = (3 * i + 1) % 10;
  if (model.loss == models::Loss::mse) y = noisy("y", {n, 10}, 0, 1);
  if (model.language_model()) y = tokens("xy", x.shape(), want["vocabulary"].get<double>());

  const CompileOptions options{.deterministic = true};
  auto forward = compile([&](const Tensor& in) { return net(in); }, options);
  fill(net, Fill::plain);
  net.eval();
  expect_close(forward(x).array(), want["evaluation"], "evaluation");

  fill(net, Fill::gated);
  net.train();
  const std::vector<Variable> parameters = net.parameters();
  std::map<std::string, std::pair<double, double>> gradients;
  {
    auto step = compile(
        [&](const std::vector<Tensor>& in) {
          const auto [outputs, loss] = models::score(model, in[0], in[1]);
          std::vector<Tensor> all = grad(loss, parameters);
          all.insert(all.end(), {outputs, loss});
          return all;
        },
        options);
    const std::vector<Tensor> got = step(std::vector<Tensor>{x, y});
    expect_close(got[parameters.size()].array(), want["training"], "training");
    EXPECT_NEAR(got.back().item<double>(), want["loss"].get<double>(), 1e-4 * want["loss"].get<double>());
    for (size_t i = 0; i < parameters.size(); ++i)
      gradients[parameters[i].name()] = digest(parameters[i].name(), got[i].array());
  }
  ASSERT_EQ(gradients.size(), want["gradients"].size());
  double largest = 0;
  for (const auto& [key, g] : want["gradients"].items()) largest = std::max(largest, g[0].get<double>());
  for (const auto& [key, g] : want["gradients"].items()) {
    SCOPED_TRACE(key);
    ASSERT_TRUE(gradients.contains(key)) << "torchvision's parameter is missing";
    const auto [norm, product] = gradients[key];
    const double want_norm = g[0].get<double>();
    if (want_norm < 1e-5 * largest) {  // zero but for rounding: a bias before a BatchNorm
      EXPECT_LT(norm, 1e-4 * largest);
      continue;
    }
    const double tolerance = 1e-4 * (want_norm + 1e-3 * largest);
    EXPECT_NEAR(norm, want_norm, tolerance);
    EXPECT_NEAR(product, g[1].get<double>(), tolerance);
  }
  net.eval();
  expect_close(forward(x).array(), want["after"], "evaluation after the step");
}

class Followed : public ::testing::TestWithParam<const char*> {};

TEST_P(Followed, AHundredStepsGiveTheLossesOfPyTorch) {
  const DeviceScope on("cpu");
  const json& want = expected()[GetParam()];
  const auto n = want["followed"][0].get<int64_t>();
  const models::Model model = make(GetParam(), want);
  fill(*model.net, Fill::plain);
  fill(*model.net, Fill::gated);
  model.net->train();
  optim::SGD sgd(model.net->parameters(), {.lr = want["followed"][1].get<double>(), .momentum = 0.9});
  auto step = compile(
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = cross_entropy((*model.net)(x), y);
        sgd.step(loss);
        return loss;
      },
      CompileOptions{.deterministic = true});
  ASSERT_EQ(want["losses"].size(), 100U);
  for (int64_t s = 0; s < 100; ++s) {
    const Shape shape = model.batch_type(n).shape;
    const std::string name = cat("x.", s);
    const Array x = model.reads_tokens() ? tokens(name, shape, want["vocabulary"].get<double>())
                                         : noisy(name, shape, 0, std::sqrt(3.0));
    Array y(DType::i64, {n});
    for (int64_t i = 0; i < n; ++i) y.data<int64_t>()[i] = (3 * i + s) % 10;
    ASSERT_NEAR(step(x, y).item<double>(), want["losses"][static_cast<size_t>(s)].get<double>(), 1e-3) << "step " << s;
  }
}
INSTANTIATE_TEST_SUITE_P(Nets, Followed, ::testing::Values("lenet", "resnet20", "lstm_text"),
                         [](const auto& tested) { return std::string(tested.param); });

std::vector<std::string> torch_nets() {
  std::vector<std::string> names;
  for (const models::Entry& e : models::registry()) {
    const std::string name = e.name;
    if (name != "mlp" && name != "mlp_wide" && name != "convnet") names.push_back(name);
  }
  return names;  // the three others are trained against PyTorch in peers_test.cpp
}
INSTANTIATE_TEST_SUITE_P(Nets, Zoo, ::testing::ValuesIn(torch_nets()), [](const auto& tested) { return tested.param; });

// PyTorch trains here and now, from weights of its own that torch.save wrote. FREIGHT_LONG=1 (./test --long) takes all
// networks, which is a quarter of an hour.
const std::set<std::string> kTrainedAlways{"lenet", "resnet18", "mobilenet_v3_small", "squeezenet1_1", "gru_text"};
class TrainedFromFile : public ::testing::TestWithParam<std::string> {};

TEST_P(TrainedFromFile, AHundredStepsGiveTheLossesOfPyTorch) {
  const std::string python = testing::torch_python(), name = GetParam();
  if (python.empty()) GTEST_SKIP() << testing::kWithoutTorch;
  if (!std::getenv("FREIGHT_LONG") && !kTrainedAlways.contains(name)) GTEST_SKIP() << "FREIGHT_LONG=1 trains it";
  const DeviceScope on("cpu");
  const testing::TemporaryDir dir;
  const std::string command =
      cat("'", python, "' -W ignore '", source_dir(), "/tests/peers/torch_zoo.py' --train '", dir.path(), "' ", name);
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  const json want = json::parse(std::ifstream(dir / "losses.json"));
  const io::SafeTensors batches = io::load_weights_file(dir / "batches.pth");
  models::Model model = make(name, expected()[name]);
  store::load_weights(model, dir / "start.pth");
  model.net->train();
  optim::SGD sgd(model.net->parameters(), {.lr = want["rate"].get<double>(), .momentum = 0.9});
  auto step = compile(
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = models::score(model, x, y).loss;
        sgd.step(loss);
        return loss;
      },
      CompileOptions{.deterministic = true});
  const size_t calm = want["losses"].size();  // fewer than 100 where rounding makes PyTorch's own losses differ
  ASSERT_GE(calm, 2U);
  double worst = 0;
  for (size_t s = 0; s < calm; ++s) {
    const Array x = batches.find(cat("x", s))->cast(model.input.dtype);
    const double loss = step(x, *batches.find(cat("y", s))).item<double>();
    worst = std::max(worst, std::fabs(loss - want["losses"][s].get<double>()));
    ASSERT_LT(worst, 1e-3) << "step " << s << " of " << name;
  }
  EXPECT_NE(want["losses"].front(), want["losses"].back());
  std::printf("%s: losses %.4f to %.4f, off by %.1e at most in %zu steps\n", name.c_str(),
              want["losses"].front().get<double>(), want["losses"].back().get<double>(), worst, calm);
}
INSTANTIATE_TEST_SUITE_P(Nets, TrainedFromFile, ::testing::ValuesIn(torch_nets()),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace freight
