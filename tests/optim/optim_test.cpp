// Optimizers and averaging: what PyTorch comparisons (tests/peers) do not cover. Options, errors, EMA, state.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "freight/freight.h"
#include "tests/support/error_of.h"

namespace freight::optim {
namespace {

using freight::testing::message_of;

class OptimTest : public ::testing::Test {
 protected:
  const DeviceScope on_{"ref"};
  void SetUp() override { seed(0); }
};

Variable parameter(const std::string& name, const Shape& shape, double value) {
  return Variable(name, {DType::f32, shape}, {Init::Kind::constant, value, 0}, Variable::Role::parameter);
}
float first(const Variable& v) { return v.array().data<float>()[0]; }

TEST_F(OptimTest, DecayCanSpareNormsAndBiases) {
  const Variable w = parameter("w", {2, 2}, 1), b = parameter("b", {2}, 1);
  SGD opt({w, b}, {.lr = 1, .weight_decay = 0.5, .decay_norm_bias = false});
  auto step = compile([&] { opt.apply({zeros({2, 2}), zeros({2})}); });
  step();
  EXPECT_EQ(first(w), 0.5f);
  EXPECT_EQ(first(b), 1.0f);
}

TEST_F(OptimTest, TheRateIsReadAnewEachStep) {
  const Variable w = parameter("w", {1}, 0);
  SGD opt({w}, {.lr = 1});
  auto step = compile([&] { opt.apply({ones({1})}); });
  step();
  opt.set_lr(0.25);
  step();
  EXPECT_EQ(first(w), -1.25f);
  EXPECT_EQ(opt.lr(), 0.25);
  EXPECT_EQ(step.traces(), 1u);
}

TEST_F(OptimTest, BadSettingsAreRefused) {
  const Variable w = parameter("w", {1}, 0);
  EXPECT_THROW(SGD({w}, {.lr = NAN}), Error);
  EXPECT_THROW(SGD({w}, {.lr = -1}), Error);
  EXPECT_THROW(SGD({w}, {.nesterov = true}), Error);
  EXPECT_THROW(Adam({w}, {.beta1 = 1}), Error);
  EXPECT_THROW(Adam({w}, {.eps = -1}), Error);
  EXPECT_THROW(AdamW({w}, {.eps = NAN}), Error);
  EXPECT_THROW(clip_grad_norm({w.value()}, -1), Error);  // it would turn the gradients round
  EXPECT_THROW(clip_grad_norm({w.value()}, NAN), Error);
  EXPECT_THROW(SGD({}, {.lr = 1}), Error);
  SGD opt({w}, {.lr = 1});
  EXPECT_THROW(opt.set_lr(INFINITY), Error);
  EXPECT_THROW(Schedule::constant(NAN), Error);
  EXPECT_THROW(Schedule::cosine(1, 0), Error);
  EXPECT_THROW(Schedule::cosine(1, 10).at(-1), Error);
}

TEST_F(OptimTest, StateHasTheNamesOfTheParameters) {
  nn::Sequential net;
  net.append("fc", nn::Linear(2, 3));
  Adam adam(net.parameters(), {});
  std::vector<std::string> names;
  for (const auto& s : adam.state_dict()) names.push_back(s.name);
  EXPECT_EQ(names, (std::vector<std::string>{"step", "m.fc.weight", "m.fc.bias", "v.fc.weight", "v.fc.bias", "lr"}));
  EXPECT_EQ(adam.states().size(), 5u);
  EXPECT_EQ(SGD(net.parameters(), {}).states().size(), 0u);
}

TEST_F(OptimTest, LionStepsBySignAndKeepsTheSlowAverage) {
  const Variable w = parameter("w", {3}, 1);
  Lion opt({w}, {.lr = 0.1, .beta1 = 0.9, .beta2 = 0.5, .weight_decay = 0.5});
  auto step = compile([&](const Tensor& g) { opt.apply({g}); });
  step(Array::of<float>({4, -0.01f, 0}, {3}));
  // u = sign(0.1 g); w <- w - lr (u + wd w)
  std::vector<float> got = w.array().to_vector<float>();
  EXPECT_FLOAT_EQ(got[0], 1 - 0.1f * (1 + 0.5f));
  EXPECT_FLOAT_EQ(got[1], 1 - 0.1f * (-1 + 0.5f));
  EXPECT_FLOAT_EQ(got[2], 1 - 0.1f * 0.5f);
  // m = 0.5 g = (2, -0.005, 0): a small gradient against it does not turn the sign of 0.9 m + 0.1 g.
  step(Array::of<float>({-4, 0.01f, 0}, {3}));
  EXPECT_LT(w.array().to_vector<float>()[0], got[0] - 0.1f);
}

// PyTorch 2.15's torch.optim.RMSprop, on the same gradients.
TEST_F(OptimTest, RMSpropDividesByTheRootOfTheMeanSquare) {
  const std::vector<std::vector<float>> gradients = {{4, -0.01f, 0.5f}, {-2, 0.02f, 0.25f}, {1, 0.03f, -1}};
  struct Row {
    RMSpropOptions options;
    std::vector<float> expected;
  };
  const Row rows[] = {{{.lr = 0.1}, {0.2289091f, 0.3011686f, 0.4257267f}},
                      {{.lr = 0.1, .alpha = 0.9, .eps = 1e-3, .momentum = 0.5, .centered = true, .weight_decay = 0.1},
                       {0.5492722f, -0.0880547f, 0.4336167f}}};
  for (const Row& row : rows) {
    const Variable w = parameter("w", {3}, 1);
    RMSprop opt({w}, row.options);
    auto step = compile([&](const Tensor& g) { opt.apply({g}); });
    for (const std::vector<float>& g : gradients) step(Array::of<float>(g, {3}));
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(w.array().to_vector<float>()[i], row.expected[i], 1e-6) << i;
  }
  EXPECT_THROW(RMSprop({parameter("w", {1}, 1)}, {.alpha = 1}), Error);
}

TEST_F(OptimTest, OrthogonalisedMatricesHaveSingularValuesNearOne) {
  for (const Shape& shape : {Shape{4, 9}, Shape{9, 4}, Shape{6, 6}}) {
    Array g(DType::f32, shape);
    PhiloxStream rng(1, 0, 0);
    for (int64_t i = 0; i < g.numel(); ++i) g.data<float>()[i] = rng.normal();
    SCOPED_TRACE(cat(shape));
    const bool tall = shape[0] > shape[1];
    auto gram = compile([&](const Tensor& x) {
      const Tensor o = orthogonalised(x, 5);
      return tall ? matmul(transpose(o), o) : matmul(o, transpose(o));
    });
    const std::vector<float> p = gram(g).array().to_vector<float>();
    const auto n = static_cast<size_t>(std::min(shape[0], shape[1]));
    double trace = 0;
    for (size_t i = 0; i < n; ++i) {
      trace += static_cast<double>(p[i * n + i]);
      for (size_t j = 0; j < n; ++j) {
        if (i == j) continue;
        EXPECT_LT(std::fabs(p[i * n + j]), 0.35) << i << " " << j;
      }
    }
    EXPECT_NEAR(trace / static_cast<double>(n), 1.0, 0.3);  // squares of values in 0.7 to 1.2
  }
}

TEST_F(OptimTest, MuonTakesHiddenMatricesAndLeavesTheRestToAdamW) {
  nn::Sequential net;
  net.append("tokens", nn::Embedding(5, 4));
  net.append("positions", nn::PositionEmbedding(3, 4));
  net.append("hidden", nn::Linear(4, 6));
  net.append("norm", nn::LayerNorm(6));
  net.append("head", nn::Linear(6, 2));
  const std::vector<Variable> matrices = hidden_matrices(net);
  ASSERT_EQ(matrices.size(), 1u);
  EXPECT_EQ(matrices[0].name(), "hidden.weight");
  const std::unique_ptr<Optimizer> muon = create("muon", net, {.lr = 0.02});
  EXPECT_EQ(muon->parameters().size(), net.parameters().size());
  std::vector<std::string> names;
  for (const auto& s : muon->state_dict()) names.push_back(s.name);
  EXPECT_EQ(names.front(), "step");
  EXPECT_EQ(names[1], "momentum.hidden.weight");
  EXPECT_NE(std::find(names.begin(), names.end(), "v.head.weight"), names.end());
  EXPECT_EQ(std::find(names.begin(), names.end(), "v.hidden.weight"), names.end());
  EXPECT_THROW(Muon({net.parameters().back()}, {}, {}), Error);
}

TEST_F(OptimTest, EveryNamedOptimizerLowersALoss) {
  for (const std::string& name : names()) {
    seed(1);
    nn::Sequential net(nn::Linear(3, 8), nn::Tanh(), nn::Linear(8, 1));
    const auto opt = create(name, net, {.lr = name == "sgd" || name == "adagrad" ? 0.1 : 0.02});
    const Array x = Array::of<float>({1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}, {4, 3}),
                y = Array::of<float>({1, -1, 2, 0}, {4, 1});
    auto step = compile([&](const Tensor& in, const Tensor& want) {
      const Tensor loss = mean(square(net(in) - want));
      opt->step(loss);
      return loss;
    });
    const double first = step(x, y).item<double>();
    double last = first;
    for (int i = 0; i < 150; ++i) last = step(x, y).item<double>();
    EXPECT_LT(last, 0.05 * first) << name;
  }
  nn::Sequential net(nn::Linear(1, 1));
  try {
    create("lino", net, {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("did you mean lion?"), std::string::npos) << e.what();
  }
}

TEST_F(OptimTest, AnUndefinedGradientLeavesAParameterAloneAsInPyTorch) {
  nn::Linear net(2, 1);
  const std::vector<float> bias = net.parameters()[1].array().to_vector<float>();
  AdamW opt(net.parameters(), {.lr = 0.1, .weight_decay = 0.5, .clip_grad_norm = 1});
  for (int i = 0; i < 2; ++i) opt.apply({ones({1, 2}), Tensor()});
  EXPECT_EQ(net.parameters()[1].array().to_vector<float>(), bias);
  opt.apply({ones({1, 2}), ones({1})});  // its first step has the moments' correction of one
  EXPECT_NEAR(net.parameters()[1].array().to_vector<float>()[0], bias[0] * (1 - 0.05F) - 0.1F, 1e-6);
}

// torch.optim.SGD([p], lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.1), whose first gradient is not damped.
TEST_F(OptimTest, DampeningBeginsWithTheSecondStep) {
  const Variable p("p", {DType::f32, {2}});
  p.set(Array::of<float>({1, -2}, {2}));
  SGD opt({p}, {.lr = 0.1, .momentum = 0.9, .dampening = 0.5, .weight_decay = 0.1});
  const std::vector<std::vector<double>> want = {{0.95, -1.88}, {0.88025, -1.7126}, {0.79307375, -1.503377}};
  for (const std::vector<double>& w : want) {
    opt.apply({Tensor::of<float>({0.4F, -1.0F})});
    EXPECT_NEAR(p.array().to_vector<float>()[0], w[0], 1e-6);
    EXPECT_NEAR(p.array().to_vector<float>()[1], w[1], 1e-6);
  }
}

TEST_F(OptimTest, AParameterWithoutGradientIsNamed) {
  nn::Sequential used(nn::Linear(2, 2)), unused;
  unused.append("lost", nn::Linear(2, 2));
  auto all = used.parameters();
  for (const Variable& p : unused.parameters()) all.push_back(p);
  SGD opt(all, {});
  auto step = compile([&](const Tensor& x) { opt.step(mean(used(x))); });
  try {
    step(zeros({1, 2}));
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("'lost.weight'"), std::string::npos) << e.what();
  }
}

TEST_F(OptimTest, ClippingLimitsTheGlobalNorm) {
  const Tensor a = Tensor::of<float>({3}, {1}), b = Tensor::of<float>({4}, {1});
  Tensor norm;
  const auto clipped = clip_grad_norm({a, b}, 1.0, &norm);
  EXPECT_NEAR(norm.item<float>(), 5, 1e-6);
  EXPECT_NEAR(clipped[0].item<float>(), 0.6, 1e-6);
  EXPECT_NEAR(clip_grad_norm({a, b}, 10.0)[1].item<float>(), 4, 1e-6);
}

TEST_F(OptimTest, ClippingKeepsTheDirectionOfGradientsWhoseSquaresF32CannotHold) {
  for (const float size : {1e30f, 3e38f, 1e19f, 1e15f, 1.0f, 1e-15f, 1e-25f, 1e-35f}) {
    const Tensor a = Tensor::of<float>({0.6f * size, 0}, {2}), b = Tensor::of<float>({-0.8f * size}, {1});
    for (const double limit : {1.0, 1e-3}) {
      Tensor norm;
      const auto clipped = clip_grad_norm({a, b}, limit, &norm);
      EXPECT_NEAR(norm.item<float>() / size, 1, 1e-6) << size;
      // PyTorch's rule, in double.
      const double factor = std::min(1.0, limit / (static_cast<double>(size) + 1e-6)) * static_cast<double>(size);
      EXPECT_NEAR(clipped[0].to_vector<float>()[0] / (0.6 * factor), 1, 1e-5) << size << " to " << limit;
      EXPECT_NEAR(clipped[1].item<float>() / (-0.8 * factor), 1, 1e-5) << size << " to " << limit;
      EXPECT_EQ(clipped[0].to_vector<float>()[1], 0);
    }
  }
  // A norm beyond f32 still clips; zeros stay zeros, in every type.
  const Tensor huge = Tensor::of<float>(std::vector<float>(100, 3e38f), {100});
  for (const float x : clip_grad_norm({huge}, 1.0)[0].to_vector<float>()) EXPECT_NEAR(x, 0.1, 1e-6);
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    const auto zero = clip_grad_norm({cast(Tensor::of<float>({0, 0}, {2}), type)}, 1.0);
    EXPECT_EQ(cast(zero[0], DType::f32).to_vector<float>(), (std::vector<float>{0, 0})) << to_string(type);
  }
  EXPECT_TRUE(std::isnan(clip_grad_norm({Tensor::of<float>({INFINITY}, {1})}, 1.0)[0].item<float>()));
}

TEST_F(OptimTest, MuonStepsAlongGradientsWhoseSquaresF32CannotHold) {
  const auto moved = [](float size) {
    const Variable w("w", {DType::f32, {2, 2}}, {Init::Kind::constant, 0, 0}, Variable::Role::parameter);
    Muon opt({w}, ParameterGroups{}, {.lr = 0.1});
    opt.step(sum(w * Tensor::of<float>({1 * size, 2 * size, 3 * size, -1 * size}, {2, 2})));
    return w.array().to_vector<float>();
  };
  const std::vector<float> ordinary = moved(1), large = moved(1e30f);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(large[i], ordinary[i], 1e-5);
  EXPECT_GT(std::fabs(ordinary[0]), 1e-3);
}

TEST_F(OptimTest, TheNormOfGradientsIsThereWhereTheyAreClipped) {
  const Variable w("w", {DType::f32, {2}}, {Init::Kind::constant, 1, 0}, Variable::Role::parameter);
  SGD plain({w}, {.lr = 0.1}), clipping({w}, {.lr = 0.1, .clip_grad_norm = 1});
  plain.step(sum(w * 2));
  EXPECT_NE(message_of([&] { plain.grad_norm(); }).find("set clip_grad_norm"), std::string::npos);
  EXPECT_NE(message_of([&] { clipping.grad_norm(); }).find("there was no step so far"), std::string::npos);
  clipping.step(sum(w * 3) + sum(w));
  EXPECT_NEAR(clipping.grad_norm().item<float>(), std::sqrt(32.0), 1e-5);
}

TEST_F(OptimTest, AveragesFollowInsideTheStepAndSwap) {
  nn::Sequential net;
  net.append("fc", nn::Linear(1, 1, {.bias = false}));
  const Variable w = net.parameters()[0];
  w.set(0.0);
  EMA ema(net, {.decay = 0.5, .warmup = false});
  SGD opt({w}, {.lr = 1});
  auto step = compile([&] {
    opt.apply({full({1, 1}, -1)});
    ema.update();
  });
  step();  // w 1, average 0.5
  step();  // w 2, average 1.25
  EXPECT_EQ(first(w), 2);
  const void* address = w.array().raw();
  ema.swap();
  EXPECT_EQ(first(w), 1.25f);
  EXPECT_EQ(w.array().raw(), address);
  ema.swap();
  EXPECT_EQ(first(w), 2);
  EXPECT_EQ(ema.state_dict()[0].name, "fc.weight");
}

TEST_F(OptimTest, AveragesOfAVariableThatTwoPathsLeadToSwapBack) {
  nn::Sequential net(nn::Linear(2, 2));
  const auto shared = net.children()[0].module;
  net.append("again", shared);
  EMA ema(net, {.decay = 0.5, .warmup = false});
  const Variable weight = net.parameters()[0];
  const std::vector<float> before = weight.array().to_vector<float>();
  auto step = compile([&] {
    weight.assign(weight + 1);
    ema.update();
  });
  step();
  std::vector<float> moved = before, average = before;
  for (size_t i = 0; i < before.size(); ++i) {
    moved[i] += 1;
    average[i] = before[i] * 0.5f + moved[i] * 0.5f;
  }
  ema.swap();
  EXPECT_EQ(weight.array().to_vector<float>(), average);
  ema.swap();
  EXPECT_EQ(weight.array().to_vector<float>(), moved);
}

TEST_F(OptimTest, AveragesOfSteadyWeightsAreTheWeights) {
  nn::Sequential net(nn::BatchNorm1d(2));
  EMA ema(net);
  auto step = compile([&](const Tensor& x) {
    const Tensor y = net(x);
    ema.update();
    return y;
  });
  step(Tensor::of<float>({1, 2, 3, 6}, {2, 2}));
  ema.swap();
  const auto state = net.state_dict();
  EXPECT_EQ(first(state[0].variable), 1);                  // the scale did not move
  EXPECT_NEAR(first(state[2].variable), 0.2, 1e-6);        // the running mean is copied
  EXPECT_NEAR(first(state[3].variable), 0.9 + 0.2, 1e-6);  // unbiased variance 2
}

TEST_F(OptimTest, WeightsTiedAfterTheOptimizerWasMadeAreUpdatedOnce) {
  const auto losses = [](bool tied_before) {
    nn::Linear a(2, 2, {.bias = false}), b(2, 2, {.bias = false});
    if (tied_before) a.weight = b.weight;
    SGD opt({a.parameters(), b.parameters()}, {.lr = 0.1, .momentum = 0.9, .clip_grad_norm = 1});
    if (!tied_before) a.weight = b.weight;
    b.weight.set(0.5);
    auto step = compile([&](const Tensor& x) {
      const Tensor loss = sum(a(b(x)));
      opt.step(loss);
      return loss;
    });
    std::vector<float> out;
    for (int i = 0; i < 3; ++i) out.push_back(step(ones({1, 2})).item<float>());
    return out;
  };
  EXPECT_EQ(losses(false), losses(true));
}

TEST_F(OptimTest, WeightsOfTwoGroupsTiedAfterwardsAreRefused) {
  nn::Linear a(2, 2, {.bias = false}), b(2, 2, {.bias = false});
  SGD opt({{.parameters = a.parameters(), .lr = 0.1, .name = "a"}, {.parameters = b.parameters(), .name = "b"}});
  a.weight = b.weight;
  EXPECT_NE(message_of([&] {
              opt.step(sum(a(b(ones({1, 2})))));
            }).find("were tied, and are in two groups: 'a' and 'b'"),
            std::string::npos);
}

TEST_F(OptimTest, MomentsMayForgetAtOnce) {  // beta1 = 0, as Wasserstein critics are trained
  const Variable w = parameter("w", {1}, 1);
  Adam opt({w}, {.lr = 0.1, .beta1 = 0, .beta2 = 0.5, .eps = 0});
  opt.apply({full({1}, 2.0)});
  EXPECT_FLOAT_EQ(first(w), 0.9f);  // g / sqrt(g^2) = 1
  opt.apply({full({1}, -1.0)});     // v = (0.5 * 2 + 0.5 * 1) / (1 - 0.25) = 2
  EXPECT_NEAR(first(w), 0.9 + 0.1 / std::sqrt(2.0), 1e-6);
  EXPECT_THROW(Adam({w}, {.beta1 = 1}), Error);
  EXPECT_THROW(Lion({w}, {.beta1 = -0.1}), Error);
}

TEST_F(OptimTest, AGradientThatDoesNotFitNamesItsParameter) {
  const Variable w = parameter("w", {2, 2}, 1), b = parameter("b", {2}, 1);
  SGD opt({w, b});
  EXPECT_NE(message_of([&] {
              opt.apply({ones({2}), ones({2, 2})});
            }).find("gradient 0 is f32[2], parameter 'w' is f32[2,2]"),
            std::string::npos);
}

}  // namespace
}  // namespace freight::optim
