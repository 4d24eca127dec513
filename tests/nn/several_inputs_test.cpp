// Modules with several inputs, results and options; hooks on results and gradients by them; values of one net in
// another.
#include <gtest/gtest.h>

#include "freight/freight.h"
#include "freight/ir/graph.h"
#include "tests/support/error_of.h"
#include "tests/support/files.h"

namespace freight::nn {
namespace {

using freight::testing::expect_error;

class SeveralInputs : public ::testing::Test {
 protected:
  const DeviceScope on_{"ref"};
  void SetUp() override { seed(0); }
};

struct Weighted : ModuleOf<Tensor(const Tensor& x, const Tensor& weight)> {
  Linear& fc = add<Linear>("fc", 2, 2);
  Tensor forward(const Tensor& x, const Tensor& weight) override {
    const Tensor y = fc(x);
    return weight.defined() ? y * weight : y;
  }
};
struct Repeats {
  int64_t count = 1;
};
// Two results, an option.
struct Turned : ModuleOf<std::pair<Tensor, Tensor>(const Tensor& a, const Tensor& b), Repeats> {
  std::pair<Tensor, Tensor> forward(const Tensor& a, const Tensor& b, const Repeats& o) override {
    return {b * static_cast<double>(o.count), a};
  }
};
struct Split : Module {
  Tensor forward(const Tensor& x) override { return x; }
  std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs) override { return {inputs[0], inputs[0] * 2.0}; }
};

std::vector<float> numbers(const Tensor& t) { return t.to_vector<float>(); }

TEST_F(SeveralInputs, AModuleTakesThemUnderItsName) {
  Sequential outer;
  const auto inner = std::make_shared<Weighted>();
  outer.append("scored", inner);
  const Tensor x = ones({1, 2}), w = Tensor::of<float>({{2, 3}});
  const std::vector<float> plain = numbers((*inner)(x, Tensor())), scaled = numbers((*inner)(x, w));
  EXPECT_FLOAT_EQ(scaled[0], 2 * plain[0]);
  EXPECT_FLOAT_EQ(scaled[1], 3 * plain[1]);
  EXPECT_EQ(inner->parameters()[0].name(), "scored.fc.weight");
  auto step = compile([&](const Tensor& a, const Tensor& b) { return (*inner)(a, b); });
  EXPECT_EQ(numbers(step(x, w)), scaled);
  EXPECT_EQ(step.graph(x, w).nodes.back().scope, "scored");
  expect_error(ErrorKind::usage, {"(scored.fc, several_inputs_test.cpp:"}, [&] { (*inner)(ones({1, 3}), w); });
  expect_error(ErrorKind::usage,
               {"the number of inputs differs: expected 2, got 1", "(scored, several_inputs_test.cpp:"},
               [&] { inner->call({x}); });
  expect_error(ErrorKind::usage, {"the number of inputs differs: expected 2, got 1"}, [&] { outer(x); });
}

TEST_F(SeveralInputs, OptionsMayBeLeftOut) {
  Turned turned;
  const auto [a, b] = turned(Tensor::of<float>({1}), Tensor::of<float>({2}));
  EXPECT_EQ(numbers(a)[0], 2);
  EXPECT_EQ(numbers(b)[0], 1);
  EXPECT_EQ(numbers(turned(1.0, Tensor::of<float>({2}), {.count = 3}).first)[0], 6);
}

TEST_F(SeveralInputs, SequentialHandsOverAllThatALayerGives) {
  Sequential net{Split(), Turned(), Weighted()};
  const Tensor x = ones({1, 2});
  const auto weighted = std::dynamic_pointer_cast<Weighted>(net.children()[2].module);
  const std::vector<float> want = numbers((*weighted)(x * 2.0, x));
  EXPECT_EQ(numbers(net(x)), want);
  auto step = compile([&](const Tensor& in) { return net(in); });
  EXPECT_EQ(numbers(step(x)), want);
  Sequential two{Turned(), Turned()};
  EXPECT_EQ(two.call({x, x * 3.0}).size(), 2u);
  Sequential open{Split()};
  expect_error(ErrorKind::usage, {"Sequential: the last layer must return one result: got 2"}, [&] { open(x); });
}

TEST_F(SeveralInputs, LayersOfTheLibraryTakeTheirStatesAndKeys) {
  LSTM lstm(2, 3);
  const Tensor x = random_normal({1, 4, 2}), h = zeros({1, 1, 3});
  Sequential net;
  net.append("rnn", LSTM(2, 3));
  EXPECT_EQ(net.call({x, h, h}).size(), 3u);
  expect_error(ErrorKind::usage, {"the number of inputs differs: expected 1, got 2"}, [&] { net.call({x, h}); });
  MultiheadAttention attention(4, 2);
  EXPECT_EQ(attention.call({zeros({1, 2, 4}), zeros({1, 3, 4}), zeros({1, 3, 4})})[0].shape(), (Shape{1, 2, 4}));
}

TEST_F(SeveralInputs, HooksSeeAndReplaceResultsUntilTheyGo) {
  Sequential net(Linear(2, 2), ReLU());
  const Tensor x = ones({1, 2});
  const std::vector<float> before = numbers(net(x));
  std::vector<std::string> seen;
  {
    const HookHandle on_net = net.on_output([&](const Module& m, const auto& in, std::vector<Tensor>& out) {
      seen.push_back(m.name() + to_string(in[0].shape()));
      out[0] = out[0] + 1.0;
    });
    HookHandle on_layer =
        net.children()[0].module->on_output([&](const Module& m, const auto&, std::vector<Tensor>& out) {
          seen.push_back(m.name());
          out[0] = zeros({1, 2});
        });
    EXPECT_EQ(numbers(net(x)), (std::vector<float>{1, 1}));
    EXPECT_EQ(seen, (std::vector<std::string>{"0", "[1,2]"}));
    on_layer.remove();
    EXPECT_FLOAT_EQ(numbers(net(x))[0], before[0] + 1);
  }
  EXPECT_EQ(numbers(net(x)), before);
  const HookHandle bad = net.on_output([](const Module&, const auto&, std::vector<Tensor>& out) { out.clear(); });
  expect_error(ErrorKind::usage, {"hook: the module returns 1 results: got 0"}, [&] { net(x); });
}

TEST_F(SeveralInputs, CompiledStepsFollowTheirHooks) {
  Sequential net{Linear(1, 1)};
  net.parameters()[0].set(2);
  net.parameters()[1].set(0);
  auto step = compile([&](const Tensor& x) { return net(x); });
  const Tensor x = ones({1, 1});
  EXPECT_EQ(step(x).item<float>(), 2);
  {
    const HookHandle hook =
        net.on_output([](const Module&, const auto&, std::vector<Tensor>& out) { out[0] = out[0] * 10.0; });
    EXPECT_EQ(step(x).item<float>(), 20);
    EXPECT_EQ(step(x).item<float>(), 20);
    EXPECT_EQ(step.traces(), 2u);
  }
  EXPECT_EQ(step(x).item<float>(), 2);
  EXPECT_EQ(step.traces(), 3u);
}

TEST_F(SeveralInputs, AWatchTellsTheGradientsOfWhatModulesGive) {
  Sequential net(Linear(2, 3), Tanh(), Linear(3, 1));
  Module& hidden = *net.children()[1].module;
  const Tensor x = Tensor::of<float>({{1, -1}});
  const std::vector<float> w = net.parameters()[2].array().to_vector<float>();
  const auto gradients = [&](const Tensor& in) {
    const OutputWatch watch(hidden);
    const Tensor loss = sum(square(net(in)));
    return std::pair(watch.gradients(loss)[0], net(in));
  };
  const auto check = [&](const std::pair<Tensor, Tensor>& got) {
    const float y = got.second.item<float>();
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(numbers(got.first)[i], 2 * y * w[i], 1e-5);
  };
  check(gradients(x));
  auto step = compile(gradients);
  for (int i = 0; i < 3; ++i) check(step(x));
  EXPECT_EQ(step.traces(), 1u);  // a watch within the step is no change from without
  const OutputWatch idle(hidden);
  expect_error(ErrorKind::usage, {"OutputWatch", "no module was called"}, [&] { idle.gradients(sum(x)); });
}

TEST_F(SeveralInputs, ValuesMoveFromNetToNet) {
  Sequential a(Linear(2, 2), Linear(2, 1)), b(Linear(2, 2), Linear(2, 1)), small{Linear(2, 2)}, other{Linear(3, 2)};
  const Tensor x = ones({1, 2});
  b.load_state_dict(a.state_dict());
  EXPECT_EQ(numbers(a(x)), numbers(b(x)));
  const std::vector<NamedArray> kept = values_of(a.state_dict());
  const std::vector<float> before = numbers(a(x));
  a.parameters()[0].set(0);
  a.load_state_dict(kept);
  EXPECT_EQ(numbers(a(x)), before);
  const LoadResult part = small.load_state_dict(b.state_dict(), {.strict = false});
  EXPECT_TRUE(part.missing.empty());
  EXPECT_EQ(part.unexpected, (std::vector<std::string>{"1.bias", "1.weight"}));
  EXPECT_EQ(numbers(small(x)), numbers((*b.children()[0].module)(x)));
  EXPECT_EQ(b.load_state_dict(small.state_dict(), {.strict = false}).missing,
            (std::vector<std::string>{"1.weight", "1.bias"}));
  expect_error(ErrorKind::checkpoint, {"unexpected: 1.bias, 1.weight"}, [&] { small.load_state_dict(b.state_dict()); });
  expect_error(ErrorKind::checkpoint, {"wrong shape: 0.weight"},
               [&] { other.load_state_dict(b.state_dict(), {.strict = false}); });
  // A prefix that no name has is no net of which parts are missing.
  expect_error(ErrorKind::checkpoint, {"missing: 0.weight, 0.bias", "unexpected: module.0.weight"}, [&] {
    small.load_state_dict({{"module.0.weight", Array(DType::f32, {2, 2})}}, {.strict = false});
  });
  expect_error(ErrorKind::usage, {"the model's own variables", "nn::values_of"},
               [&] { a.load_state_dict(a.state_dict()); });
}

TEST_F(SeveralInputs, WhatCannotBeAModuleIsRefusedByName) {
  const auto net = std::make_shared<Sequential>();
  expect_error(ErrorKind::usage, {"child 'me' is the module itself, or contains it"}, [&] { net->append("me", net); });
  const auto outer = std::make_shared<Sequential>(), inner = std::make_shared<Sequential>();
  outer->append("inner", inner);
  expect_error(ErrorKind::usage, {"child 'outer' is the module itself, or contains it"},
               [&] { inner->append("outer", outer); });
  expect_error(ErrorKind::usage, {"OutputWatch: module 1 of 2 is a null pointer"}, [&] {
    const OutputWatch watch(std::vector<Module*>{outer.get(), nullptr});
  });
}

TEST_F(SeveralInputs, AModuleThatWasMovedAwayIsRefusedByName) {
  Linear layer(2, 2);
  Linear taken = std::move(layer);
  const auto moved = [&](const char* op, const std::function<void()>& use) {
    expect_error(ErrorKind::usage, {op, "the module was moved into another one"}, use);
  };
  moved("eval", [&] { layer.eval(); });
  moved("train", [&] { layer.train(); });
  moved("training", [&] { layer.training(); });
  moved("state_dict", [&] { layer.parameters(); });
  moved("on_output", [&] { const HookHandle h = layer.on_output([](const Module&, const auto&, auto&) {}); });
  moved("call", [&] { layer(ones({1, 2})); });
  EXPECT_EQ(taken(ones({1, 2})).shape(), (Shape{1, 2}));
  layer = Linear(2, 3);  // filled again
  EXPECT_EQ(layer(ones({1, 2})).shape(), (Shape{1, 3}));
}

TEST_F(SeveralInputs, UndefinedResultsAreRefusedByName) {
  struct Empty : Module {
    Tensor forward(const Tensor&) override { return {}; }
  };
  Sequential net{Empty()};
  expect_error(ErrorKind::usage, {"module: forward returned an undefined tensor", "(0, several_inputs_test.cpp:"},
               [&] { net(ones({1})); });
  Linear layer(2, 2);
  const HookHandle hook = layer.on_output([](const Module&, const auto&, std::vector<Tensor>& out) { out[0] = {}; });
  expect_error(ErrorKind::usage, {"an on_output hook made result 0 an undefined tensor"}, [&] { layer(ones({1, 2})); });
  auto step = compile([](const Tensor& x) { return std::pair(x, Tensor()); });
  expect_error(ErrorKind::usage, {"result 1 of the function, of 2, is an undefined tensor"}, [&] { step(ones({1})); });
  expect_error(ErrorKind::usage, {"a plain number or an undefined tensor"},
               [&] { grad(Tensor(), layer.parameters()); });
}

}  // namespace
}  // namespace freight::nn
