// Real models that others trained, read from their safetensors files: a digit net gives the results that lie beside it,
// a voice detector those that NumPy computes (silero.py says why).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "freight/data/idx.h"
#include "freight/deploy/convert.h"
#include "freight/freight.h"
#include "freight/io/npy.h"
#include "freight/io/safetensors.h"
#include "tests/support/files.h"
#include "tests/support/folders.h"

namespace freight {
namespace {

using freight::testing::real_data;

constexpr const char* kBurn = R"({"format": "freight-model-1", "input": [1, 28, 28], "net": [
  {"name": "conv1", "type": "Conv2d", "out": 8, "kernel": 3}, {"type": "ReLU"},
  {"name": "conv2", "type": "Conv2d", "out": 16, "kernel": 3}, {"type": "ReLU"},
  {"name": "conv3", "type": "Conv2d", "out": 24, "kernel": 3}, {"type": "ReLU"},
  {"name": "norm1", "type": "BatchNorm2d"}, {"type": "Flatten"},
  {"name": "fc1", "type": "Linear", "out": 32}, {"type": "ReLU"},
  {"name": "fc2", "type": "Linear", "out": 10}, {"name": "norm2", "type": "BatchNorm1d"}]})";

class RealModels : public ::testing::TestWithParam<const char*> {  // backends
 protected:
  const DeviceScope on_{GetParam()};
  void SetUp() override {
    root_ = real_data("models/burn-mnist.safetensors");
    if (root_.empty()) GTEST_SKIP() << "the real model files are not here (set FREIGHT_DATA)";
  }
  static void expect_near(const Array& got, const std::vector<float>& want) {
    const std::vector<float> values = got.to_vector<float>();
    ASSERT_EQ(values.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(values[i], want[i], 1e-4 * (1 + std::fabs(want[i]))) << i;
  }
  std::string root_;
};

TEST_P(RealModels, ADigitNetFromBurnGivesTheLogitsBesideIt) {
  constexpr int64_t kImages = 100;
  const store::Bundle bundle =
      deploy::import_weights(models::from_spec(kBurn), root_ + "/models/burn-mnist.safetensors", {});
  bundle.model.net->eval();
  const Array images = data::load_idx(root_ + "/mnist/t10k-images-idx3-ubyte.gz");
  Array x(DType::f32, {kImages, 1, 28, 28});
  for (int64_t i = 0; i < x.numel(); ++i) {
    x.data<float>()[i] = (static_cast<float>(images.data<uint8_t>()[i]) / 255 - 0.1307f) / 0.3081f;
  }
  const Array want = io::load_npy(root_ + "/models/expected/burn-mnist_bn-logits_t10k_first100.npy");
  expect_near((*bundle.model.net)(Tensor(x)).array(), want.to_vector<float>());
}

// Chunks of a recording are samples of a batch up to the recurrent layer, and there its steps.
TEST_P(RealModels, SilerosVoiceDetectorGivesTheProbabilitiesOfItsEquations) {
  const auto expected = nlohmann::json::parse(std::ifstream(source_dir() + "/tests/peers/silero.json"));
  const io::SafeTensors file = io::load_safetensors(root_ + "/models/silero_vad_16k.safetensors");
  const auto array = [&](const std::string& name) {
    const Array* found = file.find(name);
    if (!found) fail(ErrorKind::data, name, "is missing");
    return *found;
  };
  const auto weight = [&](const std::string& name) { return Tensor(array(name)); };
  constexpr int64_t kChunks = 8, kChunk = 512, kContext = 64, kLength = kContext + kChunk + kContext;
  const Array wav = io::load_npz(root_ + "/models/expected/silero_vad_16k_op15_synthetic.npz").at("wav");
  Array samples(DType::f32, {kChunks, 1, kLength});
  for (int64_t c = 0; c < kChunks; ++c) {
    float* to = samples.data<float>() + c * kLength;
    for (int64_t i = 0; i < kContext + kChunk; ++i) {  // the end of the chunk before comes first
      const int64_t at = c * kChunk + i - kContext;
      to[i] = at < 0 ? 0 : wav.data<float>()[at];
    }
    for (int64_t i = 0; i < kContext; ++i) to[kContext + kChunk + i] = to[kContext + kChunk - 2 - i];  // mirrored
  }
  const Tensor spectrum = conv1d(samples, weight("stft_conv.weight"), ConvOptions{.stride = 128});  // (N, 2 * 129, 4)
  const Tensor real = narrow(spectrum, 1, 0, 129), imaginary = narrow(spectrum, 1, 129, 129);
  Tensor x = sqrt(real * real + imaginary * imaginary);
  const std::vector<int64_t> strides = {1, 2, 2, 1};
  for (size_t i = 0; i < strides.size(); ++i) {
    const std::string name = cat("conv", i + 1);
    x = relu(
        conv1d(x, weight(name + ".weight"), weight(name + ".bias"), ConvOptions{.stride = strides[i], .padding = 1}));
  }
  nn::LSTM lstm(128, 128);
  std::vector<nn::NamedArray> cell;
  for (const char* name : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}) {
    cell.push_back({cat(name, "_l0"), array(cat("lstm_cell.", name))});
  }
  lstm.load_state_dict(cell);
  const Tensor states = reshape(lstm(reshape(x, {1, kChunks, 128})), {kChunks, 128, 1});
  const Tensor speech = sigmoid(conv1d(relu(states), weight("final_conv.weight"), weight("final_conv.bias")));
  expect_near(speech.array(), expected["probabilities"].get<std::vector<float>>());
  expect_near(narrow(select(reshape(states, {kChunks, 128}), 0, kChunks - 1), 0, 0, 16).array(),
              expected["state"].get<std::vector<float>>());
}
INSTANTIATE_TEST_SUITE_P(Backends, RealModels, ::testing::Values("ref", "cpu"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace freight
