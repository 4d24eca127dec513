// Functions that gradients pass: what PyTorch's values (tests/peers/torch_modules_test.cpp) do not show. Histories that
// are recalled, several readers, removal, refusals by name.
#include <gtest/gtest.h>

#include "freight/freight.h"
#include "freight/run/plan.h"
#include "tests/support/error_of.h"
#include "tests/support/files.h"

namespace freight {
namespace {

using freight::testing::expect_error;
using freight::testing::message_of;

class OnGradient : public ::testing::Test {
 protected:
  const DeviceScope on_{"ref"};
  void SetUp() override { seed(0); }
};

std::vector<float> elements(const Tensor& t) { return t.to_vector<float>(); }
Tensor tenfold(const Tensor& g) { return g * 10.0; }

// d/dx of 3 y + x with y = 2 x behind a function: 10 * 3 * 2 + 1, whatever has been read before.
TEST_F(OnGradient, ItStaysWithWhatWasReadBeforeTheGradient) {
  for (const bool read_y : {false, true}) {
    for (const bool read_loss : {false, true}) {
      const Tensor x = Tensor::of<float>({1, 2}), y = on_gradient(x * 2.0, tenfold);
      if (read_y) {
        EXPECT_EQ(elements(y), (std::vector<float>{2, 4}));
      }
      const Tensor loss = sum(y * 3.0 + x);
      if (read_loss) {
        EXPECT_EQ(loss.item<float>(), 21);
      }
      for (int again = 0; again < 2; ++again) {
        EXPECT_EQ(elements(grad(loss, {x})[0]), (std::vector<float>{61, 61})) << read_y << read_loss;
        EXPECT_EQ(elements(grad(loss, {y})[0]), (std::vector<float>{3, 3}));  // by the tensor itself: what arrives
      }
    }
  }
}

TEST_F(OnGradient, ItLivesOnWhereNobodyHoldsTheTensor) {
  const Tensor x = Tensor::of<float>({1, 2});
  Tensor loss;
  {
    const Tensor hidden = on_gradient(x, tenfold);
    eval(hidden);
    loss = sum(hidden * hidden);
  }
  EXPECT_EQ(loss.item<float>(), 5);
  const Tensor more = loss * 2.0;
  EXPECT_EQ(more.item<float>(), 10);
  EXPECT_EQ(elements(grad(more, {x})[0]), (std::vector<float>{40, 80}));
}

TEST_F(OnGradient, OtherReadersOfTheTensorAreLeftAloneAndTheSumOfItsOwnArrivesOnce) {
  const Tensor x = Tensor::of<float>({2});
  int calls = 0;
  const auto f = [&](const Tensor& g) {
    ++calls;
    return square(g);
  };
  const Tensor y = on_gradient(x, f);
  // 5 + (2 + 4)^2: x itself, and both readers of y together.
  EXPECT_EQ(elements(grad(sum(x * 5.0) + sum(y * 2.0) + sum(y * 4.0), {x})[0]), (std::vector<float>{41}));
  EXPECT_EQ(calls, 1);
  // Not called where nothing comes through.
  EXPECT_EQ(elements(grad(sum(x * 5.0), {x})[0]), (std::vector<float>{5}));
  EXPECT_EQ(calls, 1);
}

TEST_F(OnGradient, ItIsPartOfACompiledStepAndReadsVariables) {
  const Variable w("w", {DType::f32, {2}}, {Init::Kind::constant, 1, 0}, Variable::Role::parameter);
  const Variable limit("limit", {DType::f32, {}}, {Init::Kind::constant, 0.5, 0});
  optim::SGD opt({w}, {.lr = 1});
  auto step = compile([&](const Tensor& x) {
    const Tensor held = on_gradient(w, [&](const Tensor& g) { return minimum(g, limit.value()); });
    opt.step(sum(held * x));
  });
  step(Tensor::of<float>({0.25, 4}));
  EXPECT_EQ(w.array().to_vector<float>(), (std::vector<float>{0.75, 0.5}));
  limit.set(0.125);
  step(Tensor::of<float>({0.25, 4}));
  EXPECT_EQ(w.array().to_vector<float>(), (std::vector<float>{0.625, 0.375}));
  EXPECT_EQ(step.traces(), 1u);
}

TEST_F(OnGradient, WhatItCannotDoIsRefusedByName) {
  const Tensor x = Tensor::of<float>({1, 2});
  const auto message = [&](const std::function<Tensor(const Tensor&)>& f) {
    return message_of([&] { grad(sum(on_gradient(x, f)), {x}); });
  };
  const auto expect = [&](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(message([](const Tensor&) { return Tensor(); }), "returned an undefined tensor, Tensor(), for a gradient f32[2]");
  expect(message([](const Tensor& g) { return sum(g); }), "expected f32[2], got f32[]");
  expect(message([](const Tensor& g) { return cast(g, DType::f64); }), "expected f32[2], got f64[2]");
  expect(message([](const Tensor& g) { return g * sum(g).item<float>(); }), "reads elements while gradients");
  expect(message([](const Tensor& g) { return grad(sum(square(g)), {g})[0]; }), "asks for gradients");
  expect(message({}), "the function is empty");
  expect(message_of([] { on_gradient(1.0, tenfold); }), "a plain number");
  expect(message_of([] { on_gradient(Tensor(), tenfold); }), "undefined tensor");
  expect(message_of([] { on_gradient(iota({2}, 0, DType::i32), tenfold); }), "only floating tensors");
  // A refusal leaves the tensors as they were.
  EXPECT_EQ(elements(grad(sum(on_gradient(x, tenfold)), {x})[0]), (std::vector<float>{10, 10}));
}

TEST_F(OnGradient, HooksOfModulesCountTheirTensorsAndGoWithTheirHandles) {
  struct Both : nn::ModuleOf<std::pair<Tensor, Tensor>(const Tensor& a, const Tensor& b)> {
    std::pair<Tensor, Tensor> forward(const Tensor& a, const Tensor& b) override { return {a * 2.0, b * 3.0}; }
  } both;
  const Tensor a = Tensor::of<float>({1}), b = Tensor::of<float>({1});
  const auto slopes = [&](const Tensor& l, const Tensor& r) {
    const auto [y, z] = both(l, r);
    return grad(sum(y) + sum(z), {l, r});
  };
  auto step = compile(slopes);
  const auto check = [&](float left, float right) {
    for (const std::vector<Tensor>& got : {slopes(a, b), step(a, b)}) {
      EXPECT_EQ(elements(got[0]), (std::vector<float>{left}));
      EXPECT_EQ(elements(got[1]), (std::vector<float>{right}));
    }
  };
  check(2, 3);
  {
    // They run in the order in which they came: the second one adds to what the first gave.
    const nn::HookHandle first =
        both.on_output_gradient([](const Tensor& g, size_t i) { return i == 1 ? g * 5.0 : g; });
    const nn::HookHandle second = both.on_output_gradient([](const Tensor& g, size_t) { return g + 1.0; });
    check(4, 18);  // (1 + 1) 2, (5 + 1) 3
    const nn::HookHandle inputs = both.on_input_gradient([](const Tensor& g, size_t i) { return i == 0 ? -g : g; });
    check(-4, 18);
  }
  check(2, 3);
  const nn::HookHandle bad = both.on_output_gradient([](const Tensor&, size_t) { return Tensor(); });
  EXPECT_NE(message_of([&] { slopes(a, b); }).find("returned an undefined tensor"), std::string::npos);
  expect_error(ErrorKind::usage, {"on_input_gradient", "the hook is empty"},
               [&] { const nn::HookHandle none = both.on_input_gradient({}); });
}

TEST_F(OnGradient, ItCostsNoStepOfThePlan) {
  nn::Linear plain(4, 4), hooked(4, 4);
  const auto steps = [](nn::Linear& layer) {
    optim::SGD opt(layer.parameters());
    auto step = compile([&](const Tensor& x) { opt.step(sum(square(layer(x)))); });
    return step.plan(Type{DType::f32, {2, 4}})->steps().size();
  };
  const nn::HookHandle hook = hooked.on_output_gradient([](const Tensor& g, size_t) { return g; });
  EXPECT_EQ(steps(hooked), steps(plain));
}

}  // namespace
}  // namespace freight
