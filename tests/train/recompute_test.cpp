// Training with recomputed activations: the same losses and weights, to the bit, in less memory.
#include <gtest/gtest.h>

#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/nn/nn.h"
#include "freight/train/step.h"

namespace freight::train {
namespace {

struct Net {
  const char* name;
  const char* input;  // and its element type
  std::string layers;
  bool deep;  // so much that recomputing saves a good part
};
std::ostream& operator<<(std::ostream& out, const Net& n) { return out << n.name; }

std::string times(int n, const std::string& layers) { return n == 0 ? "" : layers + times(n - 1, layers); }

std::vector<Net> nets() {
  const char* const images = "[1, 12, 12]";
  const char* const tokens = R"([24], "input_dtype": "i32")";
  const std::string dense = R"({"type": "Linear", "out": 64}, {"type": "Tanh"}, )";
  const std::string conv = R"({"type": "Conv2d", "out": 8, "kernel": 3, "padding": 1, "bias": false},)";
  const std::string block = R"({"type": "Residual", "activation": {"type": "ReLU"}, "main": [)" + conv +
                            R"({"type": "BatchNorm2d"}, {"type": "ReLU"}, )" + conv + R"({"type": "BatchNorm2d"}]}, )";
  const std::string drop = R"({"type": "GELU"}, {"type": "Dropout", "p": 0.3}, )";
  return {
      {"mlp", images, R"({"type": "Flatten"}, )" + times(4, dense) + R"({"type": "Linear", "out": 10})", false},
      {"conv_batch_norm", images, conv + times(6, block) + R"({"type": "MaxPool2d", "kernel": 2}, {"type": "Flatten"},
                                   {"type": "Linear", "out": 10})",
       true},
      {"dropout", images, times(3, conv + drop) + R"({"type": "Flatten"}, {"type": "Linear", "out": 10})", false},
      {"transformer", tokens,
       R"({"type": "Embedding", "rows": 20, "width": 16}, {"type": "PositionEmbedding", "length": 24, "width": 16}, )" +
           times(6, R"({"type": "TransformerBlock", "width": 16, "heads": 2, "causal": true, "dropout": 0.1}, )") +
           R"({"type": "LayerNorm", "shape": 16}, {"type": "Linear", "in": 16, "out": 20})",
       true},
      {"lstm", tokens,
       // Wide enough that values and not the kernels' workspaces, which the passes do not see, make the peak.
       R"({"type": "Embedding", "rows": 20, "width": 48, "padding_idx": 0},
          {"type": "LSTM", "in": 48, "hidden": 48, "last": true}, {"type": "Linear", "in": 48, "out": 4})",
       false},
  };
}

struct Trained {
  std::vector<double> losses;
  std::vector<float> weights;
  TrainStep::Summary summary;
};

// Four steps of Adam on one batch.
Trained trained(const Net& net, const std::string& device, Recompute mode) {
  const DeviceScope on(device);
  seed(3);
  const models::Model model = models::from_spec(cat(R"({"format": "freight-model-1", "name": ")", net.name,
                                                    R"(", "input": )", net.input, R"(, "net": [)", net.layers, "]}"));
  model.net->train();
  optim::Adam adam(model.net->parameters(), {.lr = 0.01});
  TrainStep step(model, adam, nullptr, {}, {.backend = device, .deterministic = true, .recompute = mode});
  const Type type = model.batch_type(16);
  Array x(type.dtype, type.shape), y(DType::i64, {16});
  PhiloxStream random(7, 0, 0);
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (model.reads_tokens()) {
      x.data<int32_t>()[i] = static_cast<int32_t>(1 + random.below(19));
    } else {
      x.data<float>()[i] = random.normal();
    }
  }
  for (int64_t i = 0; i < 16; ++i) y.data<int64_t>()[i] = i % 4;
  if (model.language_model()) y = x;
  Trained t;
  for (int i = 0; i < 4; ++i) t.losses.push_back(step.run(x, y).loss);
  for (const nn::NamedVariable& v : model.net->state_dict()) {
    const std::vector<float> more = v.variable.array().to_vector<float>();
    t.weights.insert(t.weights.end(), more.begin(), more.end());
  }
  t.summary = step.summary(type, {y.dtype(), y.shape()});
  return t;
}

class RecomputeTest : public testing::TestWithParam<std::tuple<Net, std::string>> {};

TEST_P(RecomputeTest, TrainsToTheSameBitsInLessMemory) {
  const auto& [net, device] = GetParam();
  const Trained none = trained(net, device, Recompute::none);
  EXPECT_LT(none.losses.back(), none.losses.front());
  for (const Recompute mode : {Recompute::automatic, Recompute::all}) {
    SCOPED_TRACE(mode == Recompute::all ? "all" : "auto");
    const Trained t = trained(net, device, mode);
    EXPECT_EQ(t.losses, none.losses);
    EXPECT_EQ(t.weights, none.weights);
    EXPECT_LE(static_cast<double>(t.summary.arena_bytes), 1.01 * static_cast<double>(none.summary.arena_bytes));
    // Without fusion ("ref") temporaries inside the norms make the peak, not what backward keeps.
    if (!net.deep || device == "ref") continue;
    EXPECT_LT(static_cast<double>(t.summary.arena_bytes),
              (mode == Recompute::all ? 0.6 : 0.8) * static_cast<double>(none.summary.arena_bytes));
    EXPECT_GT(t.summary.plan_steps, none.summary.plan_steps);
    const double price = t.summary.flops / none.summary.flops;
    EXPECT_LT(price, mode == Recompute::all ? 1.4 : 1.1);
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, RecomputeTest,
                         testing::Combine(testing::ValuesIn(nets()), testing::Values("ref", "cpu")),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param).name) + "_" + std::get<1>(param.param);
                         });

}  // namespace
}  // namespace freight::train
