// Layers over sequences: parameter names and shapes of PyTorch, what a token may see, padding that reaches the layers
// behind an Embedding, tables of which plain SGD touches the used rows only.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "freight/base/error.h"
#include "freight/freight.h"
#include "freight/ir/graph.h"

namespace freight::nn {
namespace {

class Sequences : public ::testing::Test {
 protected:
  const DeviceScope on_{"cpu"};
  void SetUp() override { seed(0); }
};

std::vector<std::string> described(const Module& m) {
  std::vector<std::string> out;
  for (const NamedVariable& v : m.state_dict()) out.push_back(v.name + " " + to_string(v.variable.shape()));
  return out;
}

TEST_F(Sequences, ParametersAreThoseOfPyTorch) {
  EXPECT_EQ(described(MultiheadAttention(8, 2)),
            (std::vector<std::string>{"in_proj_weight [24,8]", "in_proj_bias [24]", "out_proj.weight [8,8]",
                                      "out_proj.bias [8]"}));
  EXPECT_EQ(
      described(LSTM(3, 5, {.layers = 2, .bidirectional = true})),
      (std::vector<std::string>{"weight_ih_l0 [20,3]", "weight_hh_l0 [20,5]", "bias_ih_l0 [20]", "bias_hh_l0 [20]",
                                "weight_ih_l0_reverse [20,3]", "weight_hh_l0_reverse [20,5]", "bias_ih_l0_reverse [20]",
                                "bias_hh_l0_reverse [20]", "weight_ih_l1 [20,10]", "weight_hh_l1 [20,5]",
                                "bias_ih_l1 [20]", "bias_hh_l1 [20]", "weight_ih_l1_reverse [20,10]",
                                "weight_hh_l1_reverse [20,5]", "bias_ih_l1_reverse [20]", "bias_hh_l1_reverse [20]"}));
  EXPECT_EQ(GRU(3, 5).parameter_count(), 15 * 3 + 15 * 5 + 30);
}

TEST_F(Sequences, ResultsHaveTheShapesOfTheLayers) {
  const Tensor x = random_normal({2, 7, 3});
  EXPECT_EQ(LSTM(3, 5)(x).shape(), (Shape{2, 7, 5}));
  EXPECT_EQ(GRU(3, 5, {.layers = 2, .bidirectional = true})(x).shape(), (Shape{2, 7, 10}));
  EXPECT_EQ(LSTM(3, 5, {.bidirectional = true, .last = true})(x).shape(), (Shape{2, 10}));
  EXPECT_EQ(TransformerBlock(3, 3)(x).shape(), (Shape{2, 7, 3}));
  EXPECT_EQ(PositionEmbedding(9, 3)(x).shape(), (Shape{2, 7, 3}));
  EXPECT_THROW(LSTM(4, 5)(x), Error);
  EXPECT_THROW(PositionEmbedding(6, 3)(x), Error);
  EXPECT_THROW(MultiheadAttention(3, 2), Error);
  EXPECT_THROW(GRU(3, 0), Error);
}

TEST_F(Sequences, ACausalBlockSeesNoLaterToken) {
  TransformerBlock block(8, 2, {.causal = true});
  const Array x = Tensor(random_normal({1, 6, 8})).array();
  Array changed = x.clone();
  for (int64_t i = 4 * 8; i < 6 * 8; ++i) changed.data<float>()[i] += 1;
  const std::vector<float> a = block(Tensor(x)).to_vector<float>(), b = block(Tensor(changed)).to_vector<float>();
  for (size_t i = 0; i < 4 * 8; ++i) EXPECT_EQ(a[i], b[i]) << i;
  EXPECT_NE(a[4 * 8], b[4 * 8]);
}

// Tokens behind the last real one change nothing, whatever layers follow the embedding.
TEST_F(Sequences, PaddingDoesNotReachTheLastState) {
  const auto last = [](Sequential& net, const std::vector<int>& tokens) {
    return net(Tensor(Array::of<int>(tokens, {1, static_cast<int64_t>(tokens.size())}))).to_vector<float>();
  };
  Sequential lstm(Embedding(9, 4, {.padding_idx = 0}), LSTM(4, 3, {.layers = 2, .bidirectional = true, .last = true}));
  Sequential gru(Embedding(9, 4, {.padding_idx = 0}), GRU(4, 3, {.bidirectional = true, .last = true}));
  Sequential mixed(Embedding(9, 4, {.padding_idx = 0}), MultiheadAttention(4, 2), LSTM(4, 3, {.last = true}));
  for (Sequential* net : {&lstm, &gru, &mixed}) {
    const std::vector<float> plain = last(*net, {3, 8, 2}), padded = last(*net, {3, 8, 2, 0, 0});
    ASSERT_EQ(plain.size(), padded.size());
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(plain[i], padded[i], 1e-6) << i;
    const std::vector<float> inner = last(*net, {3, 0, 2});  // padding in the middle is a token like any other
    EXPECT_NE(inner[0], plain[0]);
  }
}

// The equations of torch.nn.LSTM and torch.nn.GRU, one number at a time, in double.
std::vector<double> by_the_equations(const Module& layer, bool gru, const Array& x, int64_t hidden) {
  std::map<std::string, std::vector<double>> p;
  for (const NamedVariable& v : layer.state_dict()) p[v.name] = v.variable.array().to_vector<double>();
  const std::vector<double> in = x.to_vector<double>();
  const int64_t n = x.shape()[0], steps = x.shape()[1], width = x.shape()[2];
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  std::vector<double> out;
  for (int64_t sample = 0; sample < n; ++sample) {
    std::vector<double> h(static_cast<size_t>(hidden)), c = h;
    for (int64_t t = 0; t < steps; ++t) {
      const auto part = [&](const char* kind, int64_t row, const std::vector<double>& v, size_t from, int64_t count) {
        double sum = p[std::string("bias_") + kind][static_cast<size_t>(row)];
        const std::vector<double>& w = p[std::string("weight_") + kind];
        for (int64_t k = 0; k < count; ++k) {
          sum += w[static_cast<size_t>(row * count + k)] * v[from + static_cast<size_t>(k)];
        }
        return sum;
      };
      const std::vector<double> before = h;
      for (int64_t j = 0; j < hidden; ++j) {
        const auto a = [&](int64_t gate) {
          return part("ih_l0", gate * hidden + j, in, static_cast<size_t>((sample * steps + t) * width), width);
        };
        const auto b = [&](int64_t gate) { return part("hh_l0", gate * hidden + j, before, 0, hidden); };
        const size_t at = static_cast<size_t>(j);
        if (gru) {
          const double r = sigmoid(a(0) + b(0)), z = sigmoid(a(1) + b(1)), fresh = std::tanh(a(2) + r * b(2));
          h[at] = (1 - z) * fresh + z * before[at];
        } else {
          c[at] = sigmoid(a(1) + b(1)) * c[at] + sigmoid(a(0) + b(0)) * std::tanh(a(2) + b(2));
          h[at] = sigmoid(a(3) + b(3)) * std::tanh(c[at]);
        }
      }
      out.insert(out.end(), h.begin(), h.end());
    }
  }
  return out;
}

TEST_F(Sequences, StatesAreThoseOfPyTorchsEquations) {
  const Array x = Tensor(random_normal({2, 6, 3})).array();
  const auto check = [&](Module& layer, bool gru) {
    const std::vector<double> want = by_the_equations(layer, gru, x, 4);
    const std::vector<double> got = layer(Tensor(x)).to_vector<double>();
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << (gru ? "GRU " : "LSTM ") << i;
  };
  LSTM lstm(3, 4);
  GRU gru(3, 4);
  check(lstm, false);
  check(gru, true);
}

// The backward direction is the forward one on the reversed sequence.
TEST_F(Sequences, TheBackwardDirectionReadsFromTheEnd) {
  LSTM both(3, 4, {.bidirectional = true}), alone(3, 4);
  for (size_t i = 0; i < 4; ++i) {
    alone.state_dict()[i].variable.set(both.state_dict()[4 + i].variable.array());
  }
  const Array x = Tensor(random_normal({1, 5, 3})).array();
  Array turned = x.clone();
  for (int64_t t = 0; t < 5; ++t) {
    for (int64_t k = 0; k < 3; ++k) turned.data<float>()[t * 3 + k] = x.data<float>()[(4 - t) * 3 + k];
  }
  const std::vector<float> a = both(Tensor(x)).to_vector<float>(), b = alone(Tensor(turned)).to_vector<float>();
  for (size_t t = 0; t < 5; ++t) {
    for (size_t k = 0; k < 4; ++k) EXPECT_NEAR(a[t * 8 + 4 + k], b[(4 - t) * 4 + k], 1e-6);
  }
}

// The gates that keep the states are open for between one and 99 steps, those of an LSTM's inputs closed as far.
TEST_F(Sequences, StatesLastAsLongAsTheMemorySays) {
  constexpr int64_t kHidden = 400;
  const LSTM lstm(3, kHidden, {.memory = 100});
  const GRU gru(3, kHidden, {.memory = 100});
  const auto biases = [](const Module& m) {  // bias_ih_l0
    const Array a = m.state_dict()[2].variable.array();
    return std::vector<float>(a.data<float>(), a.data<float>() + a.numel());
  };
  const std::vector<float> f = biases(lstm), z = biases(gru);
  const double bound = 1 / std::sqrt(static_cast<double>(kHidden));
  double mean = 0;
  for (size_t i = 0; i < kHidden; ++i) {
    mean += std::exp(f[kHidden + i]) / kHidden;
    EXPECT_GE(f[kHidden + i], 0);
    EXPECT_LE(f[kHidden + i], std::log(99.0) + 1e-6);
    EXPECT_EQ(f[i], -f[kHidden + i]);
    EXPECT_LE(std::fabs(f[2 * kHidden + i]), bound);
    EXPECT_LE(std::fabs(z[i]), bound);
    EXPECT_GE(z[kHidden + i], 0);
    EXPECT_LE(z[kHidden + i], std::log(99.0) + 1e-6);
  }
  EXPECT_NEAR(mean, 50, 6);
  EXPECT_THROW(LSTM(3, 4, {.memory = -1}), Error);
  // A state that nothing is added to fades to its part of 1 - 1 / (1 + steps) in a step.
  LSTM one(1, 1, {.memory = 100});
  for (const NamedVariable& v : one.state_dict()) {
    if (v.name != "bias_ih_l0") v.variable.set(Array(DType::f32, v.variable.shape()));
  }
  const std::vector<float> gates = biases(one);
  const double keep = 1 / (1 + std::exp(-gates[1])), in = 1 - keep, out = 1 / (1 + std::exp(-gates[3]));
  const std::vector<float> h = one(Tensor(Array(DType::f32, {1, 2, 1}))).to_vector<float>();
  const double c = in * std::tanh(static_cast<double>(gates[2]));
  EXPECT_NEAR(h[0], out * std::tanh(c), 1e-6);
  EXPECT_NEAR(h[1], out * std::tanh(keep * c + c), 1e-6);
}

TEST_F(Sequences, ATextNetLearnsWhereAWordStands) {  // padded samples, gradients through time, sparse tables
  Sequential net(Embedding(6, 8, {.padding_idx = 0}), LSTM(8, 16, {.last = true}), Linear(16, 2));
  optim::Adam opt(net.parameters(), {.lr = 0.02});
  // Class 1 where the last word is 5, whatever stands before.
  const Array x = Array::of<int>({1, 5, 0, 0, 5, 1, 0, 0, 2, 3, 5, 0, 5, 3, 2, 0, 4, 4, 4, 5, 5, 5, 5, 4}, {6, 4});
  const Array y = Array::of<int64_t>({1, 0, 1, 0, 1, 0}, {6});
  auto step = compile([&](const Tensor& in, const Tensor& target) {
    const Tensor loss = cross_entropy(net(in), target);
    opt.step(loss);
    return loss;
  });
  const double first = step(x, y).item<double>();
  for (int i = 0; i < 60; ++i) step(x, y);
  EXPECT_LT(step(x, y).item<double>(), 0.1 * first);
}

TEST_F(Sequences, DropoutBetweenLayersIsForTrainingOnly) {
  LSTM layer(4, 3, {.layers = 2, .dropout = 0.5});
  const Array x = Tensor(random_normal({2, 5, 4})).array();
  const auto out = [&] { return layer(Tensor(x)).to_vector<float>(); };
  EXPECT_NE(out(), out());
  layer.eval();
  EXPECT_EQ(out(), out());
}

// A table of 50 rows of which a step uses three.
std::vector<float> after_a_step(const optim::SGDOptions& options, bool& sparse) {
  seed(3);
  Sequential net(Embedding(50, 4), Flatten(), Linear(12, 2));
  optim::SGD opt(net.parameters(), options);
  const Array tokens = Array::of<int>({7, 31, 7}, {1, 3}), target = Array::of<int64_t>({1}, {1});
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = cross_entropy(net(x), y);
    opt.step(loss);
    return loss;
  });
  sparse = false;
  for (const Node& n : step.graph(tokens, target).nodes) sparse = sparse || n.op == Op::sgd_rows;
  step(tokens, target);
  return net.state_dict()[0].variable.array().to_vector<float>();
}

TEST_F(Sequences, PlainSgdTouchesTheUsedRowsOfATableAndAgreesWithTheDenseUpdate) {
  bool sparse = false;
  const std::vector<float> rows = after_a_step({.lr = 0.5}, sparse);
  EXPECT_TRUE(sparse);
  const std::vector<float> dense = after_a_step({.lr = 0.5, .clip_grad_norm = 1e6}, sparse);  // scales the gradient
  EXPECT_FALSE(sparse);
  const std::vector<float> before = after_a_step({.lr = 0}, sparse);
  after_a_step({.lr = 0.5, .momentum = 0.9}, sparse);
  EXPECT_FALSE(sparse);
  ASSERT_EQ(rows.size(), 200u);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_NEAR(rows[i], dense[i], 1e-6) << i;
    const bool used = i / 4 == 7 || i / 4 == 31;
    EXPECT_EQ(rows[i] == before[i], !used) << i;
  }
}

}  // namespace
}  // namespace freight::nn
