// Modules: names, defaults of PyTorch, statistics, state dictionaries, classes of users.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "freight/base/error.h"
#include "freight/freight.h"
#include "tests/support/files.h"

namespace freight::nn {
namespace {

class Modules : public ::testing::Test {
 protected:
  const DeviceScope on_{"ref"};
  void SetUp() override { seed(0); }
};

// A class of a user: children by name, any forward.
struct Net : Module {
  Linear& fc1 = add<Linear>("fc1", 4, 8);
  Linear& fc2 = add<Linear>("fc2", 8, 2);
  Variable scale = parameter("scale", {2}, init::constant(1));
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))) * scale; }
};

std::vector<std::string> names(const Module& m) {
  std::vector<std::string> out;
  for (const NamedVariable& v : m.state_dict()) out.push_back(v.name);
  return out;
}

struct Plain : Module {
  Variable weight = parameter("weight", {64, 16}), bias = parameter("bias", {64});
  Variable zero = parameter("zero", {2, 2}, init::zeros()), one = parameter("one", {2, 2}, init::ones());
  Tensor forward(const Tensor& x) override { return linear(x, weight, bias); }
};

TEST_F(Modules, ParametersWithoutAnInitBeginAsThoseOfLinear) {
  const Plain net;
  const std::vector<float> weight = net.weight.array().to_vector<float>();
  const auto [least, most] = std::minmax_element(weight.begin(), weight.end());
  EXPECT_GE(*least, -0.25F);  // 1 / sqrt(16)
  EXPECT_LT(*least, -0.2F);
  EXPECT_LE(*most, 0.25F);
  EXPECT_GT(*most, 0.2F);
  EXPECT_EQ(net.bias.array().to_vector<float>(), std::vector<float>(64, 0));
  EXPECT_EQ(net.zero.array().to_vector<float>(), std::vector<float>(4, 0));
  EXPECT_EQ(net.one.array().to_vector<float>(), std::vector<float>(4, 1));
}

TEST_F(Modules, ClassesOfUsersNameTheirParameters) {
  Net net;
  EXPECT_EQ(names(net), (std::vector<std::string>{"scale", "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}));
  EXPECT_EQ(net.parameter_count(), 2 + 4 * 8 + 8 + 8 * 2 + 2);
  EXPECT_EQ(net(ones({3, 4})).shape(), (Shape{3, 2}));
  Sequential outer;
  outer.append("body", std::move(net)).append(ReLU());
  EXPECT_EQ(names(outer)[1], "body.fc1.weight");
  EXPECT_EQ(outer.parameters()[1].name(), "body.fc1.weight");
  EXPECT_EQ(outer(ones({3, 4})).shape(), (Shape{3, 2}));
}

TEST_F(Modules, ErrorsInsideNameTheModuleAndTheLineOfTheOutermostCall) {
  Sequential net;
  net.append("enc", Sequential(ReLU(), Linear(8, 2)));
  try {
    net(ones({3, 4}));
    FAIL();
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("(enc.1, modules_test.cpp:"), std::string::npos) << text;
    EXPECT_NE(text.find("f32[3,4] axis 1 = 4, weight f32[2,8] axis 1 = 8"), std::string::npos) << text;
  }
}

TEST_F(Modules, DefaultInitialValuesAreThoseOfPyTorch) {
  const Conv2d conv(16, 32, 3);
  const double bound = 1 / std::sqrt(16 * 9.0);
  double largest = 0, square = 0;
  for (float w : conv.weight.array().to_vector<float>()) {
    largest = std::max<double>(largest, std::abs(w));
    square += w * w;
  }
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.99 * bound);
  EXPECT_NEAR(square / (32 * 16 * 9), bound * bound / 3, 0.05 * bound * bound);
  for (float b : conv.bias.array().to_vector<float>()) EXPECT_LE(std::abs(b), bound);
}

TEST_F(Modules, InitializersHaveTheirMoments) {
  const auto deviation = [](const Init& init, const Shape& shape) {
    double square = 0;
    const Variable v("w", {DType::f32, shape}, init);
    for (float w : v.array().to_vector<float>()) square += w * w;
    return std::sqrt(square / static_cast<double>(shape.numel()));
  };
  EXPECT_NEAR(deviation(init::kaiming_normal({256, 128}), {256, 128}), std::sqrt(2.0 / 128), 0.002);
  EXPECT_NEAR(deviation(init::kaiming_normal({64, 32, 3, 3}, std::sqrt(2.0), Fan::out), {64, 32, 3, 3}),
              std::sqrt(2.0 / (64 * 9)), 0.001);
  EXPECT_NEAR(deviation(init::xavier_uniform({256, 128}), {256, 128}), std::sqrt(2.0 / 384), 0.001);
  EXPECT_NEAR(deviation(init::trunc_normal(0, 0.02), {256, 128}), 0.02 * 0.8796, 0.0005);
  const Variable q("q", {DType::f32, {4, 9}}, init::orthogonal(2));
  const Tensor product = matmul(q, transpose(q));
  const auto p = product.to_vector<float>();
  for (size_t i = 0; i < 16; ++i) EXPECT_NEAR(p[i], i % 5 == 0 ? 4 : 0, 1e-5);
}

TEST_F(Modules, DiracLayersBeginByPassingTheirChannelsOn) {
  const Tensor x = random_normal({2, 3, 5, 4});
  for (const int64_t kernel : {1, 2, 3, 5}) {
    Conv2d conv(3, 7, kernel, {.padding = kernel / 2, .bias = false, .init = WeightInit::dirac});
    const Tensor y = conv(x);
    EXPECT_EQ(narrow(narrow(narrow(y, 1, 0, 3), 2, 0, 5), 3, 0, 4).to_vector<float>(), x.to_vector<float>()) << kernel;
    const auto w = conv.weight.array().to_vector<float>();
    const double bound = 1 / std::sqrt(3.0 * static_cast<double>(kernel * kernel));
    for (size_t i = w.size() / 7 * 3; i < w.size(); ++i) {
      EXPECT_NE(w[i], 0);
      EXPECT_LE(std::abs(w[i]), bound);
    }
  }
  Linear narrow_one(6, 2, {.bias = false, .init = WeightInit::dirac});
  EXPECT_EQ(narrow_one(ones({1, 6})).to_vector<float>(), (std::vector<float>{1, 1}));
}

TEST_F(Modules, BatchNormUsesItsRunningStatisticsWhereScaleAndShiftAreFrozen) {
  Sequential net(BatchNorm1d(1));
  auto forward = compile([&](const Tensor& x) { return net(x); });
  const Array x = Array::of<float>({1, 2, 3, 6}, {4, 1});
  const auto mean = [&] { return values_of(net.state_dict())[2].array.data<float>()[0]; };
  for (const nn::NamedVariable& v : net.state_dict()) {
    if (v.variable.role() == Variable::Role::parameter) v.variable.set_trainable(false);
  }
  EXPECT_NEAR(forward(x).to_vector<float>()[3], 6, 1e-4);  // mean 0, variance 1
  EXPECT_EQ(mean(), 0);
  net.state_dict()[0].variable.set_trainable(true);  // and back: the step is traced anew
  forward(x);
  EXPECT_NEAR(mean(), 0.3, 1e-6);
}

TEST_F(Modules, BatchNormUpdatesItsStatisticsAsPyTorch) {
  Sequential net(BatchNorm1d(1));
  auto step = compile([&](const Tensor& x) { return net(x); });
  const Tensor x = Tensor::of<float>({1, 2, 3, 6}, {4, 1});
  step(x);
  const auto state = net.state_dict();
  EXPECT_EQ(state[2].name, "0.running_mean");
  EXPECT_NEAR(state[2].variable.array().data<float>()[0], 0.1 * 3, 1e-6);
  EXPECT_NEAR(state[3].variable.array().data<float>()[0], 0.9 + 0.1 * 14 / 3, 1e-5);  // unbiased
  net.eval();
  const auto y = step(x).to_vector<float>();
  EXPECT_NEAR(y[0], (1 - 0.3) / std::sqrt(0.9 + 1.4 / 3 + 1e-5), 1e-5);
  EXPECT_NEAR(state[2].variable.array().data<float>()[0], 0.3, 1e-6);  // evaluation leaves them alone
}

TEST_F(Modules, RunningStatisticsAreTheMeanOfAllBatchesOrMissing) {
  BatchNorm1d all(1, {.momentum = kMeanOfBatches}), none(1, {.running = false});
  EXPECT_EQ(names(all),
            (std::vector<std::string>{"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}));
  EXPECT_EQ(names(none), (std::vector<std::string>{"weight", "bias"}));
  auto step = compile([&](const Tensor& x) { return all(x); });
  const Tensor x = Tensor::of<float>({1, 2, 3, 6}, {4, 1});
  for (const double offset : {0.0, 3.0, 6.0}) step(x + offset);
  EXPECT_NEAR(all.running_mean.array().data<float>()[0], 6, 1e-5);
  EXPECT_NEAR(all.running_var.array().data<float>()[0], 14.0 / 3, 1e-4);
  EXPECT_EQ(all.num_batches_tracked.array().data<float>()[0], 3);
  const std::vector<float> trained = none(x).to_vector<float>();
  none.eval();
  EXPECT_EQ(none(x).to_vector<float>(), trained);
  // PyTorch counts in i64; other norms pass the count over.
  std::vector<NamedArray> state = values_of(all.state_dict());
  state[4].array = Array::of<int64_t>({7}, {});
  all.load_state_dict(state);
  EXPECT_EQ(all.num_batches_tracked.array().data<float>()[0], 7);
  EXPECT_NO_THROW(BatchNorm1d(1).load_state_dict(state));
}

TEST_F(Modules, MaxPoolsGiveThePlacesOfMaximaAsASecondResult) {
  MaxPool1d pool(PoolFields{{.kernel = 2}, true});
  const std::vector<Tensor> y = pool.call({Tensor::of<float>({1, 5, 7, 6}, {1, 1, 4})});
  ASSERT_EQ(y.size(), 2u);
  EXPECT_EQ(y[0].to_vector<float>(), (std::vector<float>{5, 7}));
  EXPECT_EQ(y[1].to_vector<int32_t>(), (std::vector<int32_t>{1, 2}));
}

TEST_F(Modules, BatchNormWithoutBiasIsFrozenByItsWeightAlone) {
  BatchNorm1d norm(1, {.bias = false});
  EXPECT_EQ(names(norm), (std::vector<std::string>{"weight", "running_mean", "running_var"}));
  norm.weight.set_trainable(false);
  norm(Tensor::of<float>({1, 2, 3, 6}, {4, 1}));
  EXPECT_EQ(norm.running_mean.array().data<float>()[0], 0);
}

TEST_F(Modules, ABatchWithoutSamplesLeavesStatisticsOfBatchNormAsTheyAre) {
  BatchNorm2d norm(3);
  EXPECT_EQ(norm(zeros({0, 3, 2, 2})).shape(), (Shape{0, 3, 2, 2}));
  EXPECT_EQ(norm.running_mean.array().to_vector<float>(), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(norm.running_var.array().to_vector<float>(), (std::vector<float>{1, 1, 1}));
}

// Elements around the input that the convolution does not add by itself.
TEST_F(Modules, ConvolutionsPadASampleWithoutABatchAxisAsOneWithIt) {
  const Tensor x = random_normal({2, 5, 4});
  for (const PaddingMode mode : {PaddingMode::zeros, PaddingMode::reflect, PaddingMode::circular}) {
    for (const int64_t padding : {-1, 1}) {
      Conv2d conv(2, 3, 4, {.padding = padding, .padding_mode = mode});
      EXPECT_EQ(conv(x).to_vector<float>(), conv(unsqueeze(x, 0)).to_vector<float>());
    }
  }
}

TEST_F(Modules, ASampleWithoutABatchAxisIsOneOfABatch) {
  ConvTranspose1d up1(2, 3, 3, {.stride = 2});
  ConvTranspose2d up2(2, 3, 3, {.stride = 2});  // added its bias along the axis behind the channels
  const AdaptivePoolFields cells{2};
  AdaptiveAvgPool1d means(cells);
  AdaptiveMaxPool1d most1(cells);
  AdaptiveMaxPool2d most2(cells);
  InstanceNormFields normed;
  normed.channels = 2;
  InstanceNorm1d norm1(normed);
  InstanceNorm2d norm2(normed);
  for (Module* one : std::vector<Module*>{&up1, &means, &most1, &norm1, &up2, &most2, &norm2}) {
    const bool image = one == &up2 || one == &most2 || one == &norm2;
    const Tensor x = random_normal(image ? Shape{2, 5, 4} : Shape{2, 5});
    const Tensor y = (*one)(x);
    EXPECT_EQ(y.rank(), x.rank());
    EXPECT_EQ(y.to_vector<float>(), (*one)(unsqueeze(x, 0)).to_vector<float>());
  }
}

TEST_F(Modules, AdaptivePoolsKeepAxesOfExtent0) {
  const Tensor x = random_normal({2, 3, 5, 4});
  EXPECT_EQ(AdaptiveAvgPool2d({0, 2})(x).to_vector<float>(), AdaptiveAvgPool2d({5, 2})(x).to_vector<float>());
  EXPECT_EQ(AdaptiveMaxPool2d({{2, 0}})(x).shape(), (Shape{2, 3, 2, 4}));
  EXPECT_EQ(AdaptiveAvgPool1d({0})(x[0]).to_vector<float>(), x[0].to_vector<float>());
  EXPECT_EQ(AdaptiveAvgPool2d({0, 2})(x[0]).shape(), (Shape{3, 5, 2}));
}

TEST_F(Modules, EmbeddingsDivideGradientsByTheFrequencyOfTheirTokens) {
  Embedding table(4, 2, {.scale_grad_by_freq = true});
  const Tensor tokens = Tensor::of<int64_t>({1, 1, 3}, {3});
  EXPECT_EQ(grad(sum(table(tokens)), std::vector<Variable>{table.weight})[0].to_vector<float>(),
            (std::vector<float>{0, 0, 1, 1, 0, 0, 1, 1}));
}

TEST_F(Modules, StateDictionariesMoveWeights) {
  Net a, b;
  std::vector<NamedArray> saved;
  for (const NamedVariable& v : a.state_dict()) saved.push_back({v.name, v.variable.array().clone()});
  saved.push_back({"bn.num_batches_tracked", Array(DType::i64, {})});
  const Tensor x = ones({2, 4});
  EXPECT_NE(a(x).to_vector<float>(), b(x).to_vector<float>());
  b.load_state_dict(saved);
  EXPECT_EQ(a(x).to_vector<float>(), b(x).to_vector<float>());
}

TEST_F(Modules, AStateDictionaryThatDoesNotFitChangesNothing) {
  Net net;
  net.fc1.weight.set(1.0);
  std::vector<NamedArray> saved;
  for (const NamedVariable& v : Net().state_dict()) saved.push_back({v.name, v.variable.array()});
  saved[0].array = Array(DType::f32, {3});
  saved[4].name = "fc3.bias";
  try {
    net.load_state_dict(saved, "file.safetensors");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::checkpoint);
    EXPECT_STREQ(e.what(),
                 "file.safetensors: weights do not fit the model; missing: fc2.bias (nearest: fc3.bias); "
                 "unexpected: fc3.bias (nearest: fc2.bias); "
                 "wrong shape: scale (expected [2], got [3])");
  }
  EXPECT_EQ(net.fc1.weight.array().data<float>()[0], 1);
}

TEST_F(Modules, ContainersBranchAndJoin) {
  Concat inception(Conv2d(3, 4, 1), Sequential(Conv2d(3, 2, 3, {.padding = 1}), ReLU()));
  EXPECT_EQ(inception(ones({2, 3, 5, 5})).shape(), (Shape{2, 6, 5, 5}));
  Residual block(std::make_shared<Linear>(4, 4), nullptr, std::make_shared<ReLU>());
  EXPECT_EQ(block(ones({2, 4})).shape(), (Shape{2, 4}));
  EXPECT_EQ(names(block)[0], "weight");  // main leaves no name behind
  Residual bad(std::make_shared<Linear>(4, 3));
  EXPECT_THROW(bad(ones({2, 4})), Error);
  Sequential twice;
  twice.append("a", ReLU());
  EXPECT_THROW(twice.append("a", ReLU()), Error);
}

TEST_F(Modules, FrozenParametersAreNotTrained) {
  Net net;
  net.fc1.weight.set_trainable(false);
  EXPECT_EQ(net.parameters().size(), 4u);
  EXPECT_EQ(net.state_dict().size(), 5u);
  const Conv2d stem(3, 24, 2, {.init = WeightInit::whiten});
  ASSERT_EQ(stem.parameters().size(), 1u);
  EXPECT_EQ(stem.parameters()[0], stem.bias);
  EXPECT_EQ(stem.state_dict().size(), 2u);
}

TEST_F(Modules, BadSizesAreRefused) {
  EXPECT_THROW(Linear(0, 3), Error);
  EXPECT_THROW(Conv2d(3, 8, 3, {.groups = 2}), Error);
  EXPECT_THROW(Conv2d(3, 8, {3, 3, 3}), Error);
  EXPECT_THROW(GroupNorm(3, 8), Error);
  EXPECT_THROW(Dropout(1.5), Error);
  EXPECT_THROW(Embedding(10, 4, {.padding_idx = 10}), Error);
}

TEST_F(Modules, FieldsOutOfTheirRangesAreRefusedByName) {
  using freight::testing::expect_error;
  const auto refused = [](const char* layer, const char* field, const char* got, auto make) {
    expect_error(ErrorKind::usage, {layer, field, got}, [&] { make(); });
  };
  refused("BatchNorm2d", "momentum", "-0.1", [] { BatchNorm2d(4, {.momentum = -0.1}); });
  refused("BatchNorm2d", "momentum", "-2", [] { BatchNorm2d(4, {.momentum = -2}); });
  refused("BatchNorm1d", "momentum", "1.5", [] { BatchNorm1d(4, {.momentum = 1.5}); });
  refused("Conv2d", "stride", "0", [] { Conv2d(3, 8, 3, {.stride = 0}); });
  refused("Conv2d", "padding", "-2", [] { Conv2d(3, 8, 3, {.padding = -2}); });
  refused("Conv1d", "dilation", "0", [] { Conv1d(3, 8, 3, {.dilation = 0}); });
  refused("MaxPool2d", "stride", "-2", [] { MaxPool2d(PoolOptions{.kernel = 2, .stride = -2}); });
  refused("AvgPool2d", "padding", "-1", [] { AvgPool2d(PoolOptions{.kernel = 2, .padding = -1}); });
  refused("AdaptiveAvgPool2d", "output", "-1", [] { AdaptiveAvgPool2d({-1, 2}); });
  refused("Embedding", "padding_idx", "-2", [] { Embedding(10, 4, {.padding_idx = -2}); });
  refused("EmbeddingBag", "padding_idx", "-2", [] { EmbeddingBag(10, 4, {.padding_idx = -2}); });
  const BatchNorm2d still(4, {.momentum = 0}), newest(4, {.momentum = 1});
}

TEST_F(Modules, NothingIsAllocatedBeforeItIsNeeded) {
  const Linear huge(1 << 24, 1 << 24);  // a petabyte
  EXPECT_EQ(huge.parameter_count(), (int64_t{1} << 48) + (1 << 24));
}

TEST_F(Modules, WhatIsLeftOfAMovedModuleSaysSo) {
  const auto refused = [](const auto& use) {
    try {
      use();
      ADD_FAILURE() << "was taken";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("was moved into another one"), std::string::npos) << e.what();
    }
  };
  Sequential net(Linear(2, 2));
  const Sequential now = std::move(net);
  refused([&] { net(ones({1, 2})); });
  refused([&] { net.call({ones({1, 2})}); });
  refused([&] { net.eval(); });
  refused([&] { net.training(); });
  refused([&] { HookHandle h = net.on_output([](const auto&, const auto&, auto&) {}); });
  EXPECT_EQ(now.parameters().size(), 2u);
}

TEST_F(Modules, AStepFollowsAModuleThatAnotherIsMovedInto) {
  Sequential net(Linear(1, 1, {.bias = false})), other(Linear(1, 1, {.bias = false}));
  net.parameters()[0].set(1);
  other.parameters()[0].set(5);
  auto step = compile([&](const Tensor& x) { return net(x); });
  EXPECT_EQ(step(ones({1, 1})).item<float>(), 1);
  net = std::move(other);
  EXPECT_EQ(step(ones({1, 1})).item<float>(), 5);
}

TEST_F(Modules, TwoVariablesOfOneNameAreRefused) {
  struct Twice : Module {
    explicit Twice(bool statistic) {
      parameter("a", {2}, {});
      if (statistic) {
        buffer("a", {2}, 0);
      } else {
        parameter("a", {3}, {});
      }
    }
    Tensor forward(const Tensor& x) override { return x; }
  };
  EXPECT_THROW(Twice(false), Error);
  EXPECT_THROW(Twice(true), Error);
}

TEST_F(Modules, AHookThatLeavesAResultUndefinedIsNamed) {
  Linear net(2, 2);
  const HookHandle hook = net.on_output([](const auto&, const auto&, std::vector<Tensor>& y) { y[0] = Tensor(); });
  try {
    net(ones({1, 2}));
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("hook made result 0 an undefined tensor"), std::string::npos) << e.what();
  }
}

// A hook that returns something is refused when the program is compiled.
[[maybe_unused]] constexpr auto kReturns = [](const Module&, const std::vector<Tensor>&, std::vector<Tensor>& y) {
  return y[0];
};
[[maybe_unused]] constexpr auto kReturnsNothing = [](const Module&, const std::vector<Tensor>&, std::vector<Tensor>&) {
};
static_assert(freight::nn::detail::ReturningHook<decltype(kReturns)>);
static_assert(!freight::nn::detail::ReturningHook<decltype(kReturnsNothing)>);

}  // namespace
}  // namespace freight::nn
