// Lazy tensors: evaluation on reading, leaves, other traces, variables, random numbers, messages.
#include <gtest/gtest.h>

#include <functional>

#include "freight/base/error.h"
#include "freight/ops/ops.h"
#include "freight/trace/compile.h"
#include "freight/trace/tracer.h"
#include "tests/support/error_of.h"

namespace freight {
namespace {

using Floats = std::vector<float>;

class TensorTest : public ::testing::Test {
 protected:
  const DeviceScope on_{"ref"};
};

using freight::testing::message_of;

TEST_F(TensorTest, ReadingEvaluatesWhatIsPending) {
  const Tensor a = Tensor::of<float>({1, 2, 3}, {3});
  const Tensor b = a * 2 + 1, c = b * b;
  EXPECT_EQ(b.to_vector<float>(), (Floats{3, 5, 7}));
  EXPECT_EQ(c.to_vector<float>(), (Floats{9, 25, 49}));  // evaluated by the same plan
  EXPECT_EQ(sum(c).item<float>(), 83);                   // an evaluated tensor is a leaf of the next trace
}

TEST_F(TensorTest, OnePlanServesTraceOfEqualStructure) {
  const auto work = [](float v) { return (Tensor::of<float>({v, v}, {2}) * 3).to_vector<float>(); };
  work(1);
  const auto before = plan_cache_stats();
  EXPECT_EQ(work(2), (Floats{6, 6}));
  EXPECT_EQ(plan_cache_stats().misses, before.misses);
  EXPECT_EQ(plan_cache_stats().hits, before.hits + 1);
}

TEST_F(TensorTest, ATensorMayBeLeafAndResultAtOnce) {
  const Tensor a = Tensor::of<float>({1, 2}, {2});
  const Tensor same = reshape(a, {2});
  const Tensor view = reshape(a, {2, 1});
  EXPECT_EQ(view.to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(same.to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(full({2}, 7).to_vector<float>(), (Floats{7, 7}));
}

TEST_F(TensorTest, VariablesAreReadAndAssigned) {
  Variable v("v", {DType::f32, {2}}, {Init::Kind::constant, 1, 0});
  v.assign(v + 1);
  v.assign(v * 10);
  EXPECT_EQ(v.array().to_vector<float>(), (Floats{20, 20}));
  const Tensor before = v.value() * 1;
  v.set(5.0);  // what is pending still sees the old value
  EXPECT_EQ(before.to_vector<float>(), (Floats{20, 20}));
  EXPECT_EQ((v + 0).to_vector<float>(), (Floats{5, 5}));
}

TEST_F(TensorTest, AVariableThatWasReleasedBeginsAnew) {
  Variable v("v", {DType::f32, {2}}, {Init::Kind::constant, 1, 0});
  v.release();  // it has no memory yet
  v.set(5.0);
  const Tensor before = v.value() * 1;
  const Array held = v.array();
  v.release();
  EXPECT_EQ(held.to_vector<float>(), (Floats{5, 5}));
  EXPECT_EQ(before.to_vector<float>(), (Floats{5, 5}));
  EXPECT_EQ(v.array().to_vector<float>(), (Floats{1, 1}));
}

TEST_F(TensorTest, VariablesRefuseNumbersThatTheirTypeCannotHold) {
  const Variable u("mask", {DType::u8, {2}}), i("step", {DType::i32, {}}), h("scale", {DType::f16, {}});
  u.set(255);
  i.set(-3.0);
  h.set(65504);
  EXPECT_NE(message_of([&] { u.set(300); }).find("set: number 300 does not fit into variable 'mask' u8[2]: u8 holds"),
            std::string::npos);
  EXPECT_NE(message_of([&] { i.set(2.7); }).find("number 2.7 does not fit into variable 'step' i32[]"),
            std::string::npos);
  EXPECT_NE(message_of([&] { h.set(70000); }).find("the largest f16 is 65504"), std::string::npos);
  EXPECT_EQ(u.array().to_vector<int>(), (std::vector<int>{255, 255}));  // as before what was refused
  EXPECT_EQ(i.array().to_vector<int>(), (std::vector<int>{-3}));
  const auto made = [] { Variable("n", {DType::i32, {}}, {Init::Kind::constant, 0.5, 0}); };
  EXPECT_NE(message_of(made).find("number 0.5 does not fit into variable 'n' i32[]"), std::string::npos);
}

TEST_F(TensorTest, AVariableIsMadeOfATensor) {
  const Tensor x = Tensor::of<float>({1, 2}) * 3;
  const Variable v("v", x, Variable::Role::parameter);
  EXPECT_EQ(v.type(), x.type());
  EXPECT_TRUE(v.trainable());
  EXPECT_EQ(v.device(), "ref");
  v.assign(v + 1);  // has elements of its own
  EXPECT_EQ(v.array().to_vector<float>(), (Floats{4, 7}));
  EXPECT_EQ(x.to_vector<float>(), (Floats{3, 6}));
  EXPECT_NE(message_of([] { Variable("v", Tensor()); }).find("undefined tensor"), std::string::npos);
  {
    const DeviceScope elsewhere("cpu");
    EXPECT_EQ(Variable("v", x).device(), "ref");  // where the tensor lies
  }
}

TEST_F(TensorTest, AnUndefinedVariableIsNamedByEveryUse) {
  const Variable none;
  const std::vector<std::pair<std::string, std::function<void()>>> uses = {
      {"assign", [&] { none.assign(1.0); }},
      {"set", [&] { none.set(1.0); }},
      {"set", [&] { none.set(Array::of<float>({1}, {1})); }},
      {"array", [&] { none.array(); }},
      {"variable", [&] { none.value(); }},
      {"variable", [&] { none.name(); }},
      {"variable", [&] { none.shape(); }},
      {"set_trainable", [&] { none.set_trainable(false); }},
      {"to_device", [&] { none.to_device("cpu"); }},
      {"variable", [&] { none + 1; }}};
  for (const auto& [op, use] : uses) {
    EXPECT_EQ(message_of(use).find(op + ": an undefined variable was used"), 0u) << op << ": " << message_of(use);
  }
}

TEST_F(TensorTest, PendingReadsDoNotSeeTheUpdatesOfAStep) {
  Variable v("v", {DType::f32, {}}, {Init::Kind::constant, 1, 0});
  auto step = compile([&](const Tensor& x) { v.assign(v + x); });
  const Tensor pending = v * 100;
  step(Tensor::of<float>({2}, {}));
  EXPECT_EQ(pending.item<float>(), 100);
  EXPECT_EQ(v.array().to_vector<float>()[0], 3);
}

TEST_F(TensorTest, GradientsOfTensorsAndVariables) {
  Variable w("w", {DType::f32, {2}}, {Init::Kind::constant, 3, 0});
  const Tensor x = Tensor::of<float>({1, 2}, {2});
  const Tensor loss = sum(w * w * x);
  const auto gw = grad(loss, {w});
  const auto gx = grad(loss, {x});
  EXPECT_EQ(gw[0].to_vector<float>(), (Floats{6, 12}));
  EXPECT_EQ(gx[0].to_vector<float>(), (Floats{9, 9}));
}

TEST_F(TensorTest, GradientOfAnUnusedParameterNamesIt) {
  Variable w("fc1.weight", {DType::f32, {2}}), u("fc2.weight", {DType::f32, {3}});
  const std::string text = message_of([&] { grad(sum(w * 2), {w, u}); });
  EXPECT_NE(text.find("parameter 'fc2.weight' f32[3]"), std::string::npos) << text;
  EXPECT_NE(text.find("tensor_test.cpp:"), std::string::npos) << text;
  EXPECT_EQ(grad(sum(w * 2), {w, u}, {.allow_unused = true})[1].to_vector<float>(), (Floats{0, 0, 0}));
}

TEST_F(TensorTest, ErrorsNameScopeAndLineOfTheUser) {
  const Scope outer("enc"), inner("fc1");
  const Tensor a = zeros({64, 128}), b = zeros({256, 10});
  const int line = __LINE__ + 1;
  const std::string text = message_of([&] { matmul(a, b); });
  EXPECT_EQ(text.substr(0, text.find(", tensor_test")),
            "matmul: inner dimensions differ: lhs f32[64,128] axis 1 = 128, rhs f32[256,10] axis 0 = 256 (enc.fc1");
  EXPECT_NE(text.find(cat("tensor_test.cpp:", line)), std::string::npos) << text;
}

TEST_F(TensorTest, ScopesEndAndTracesStayClearAfterAnError) {
  EXPECT_THROW(
      {
        const Scope s("broken");
        zeros({2}) + zeros({3});
      },
      Error);
  EXPECT_EQ(trace::scope(), "");
  EXPECT_EQ(trace::where(), "");
  EXPECT_EQ((zeros({2}) + 1).to_vector<float>(), (Floats{1, 1}));
}

TEST_F(TensorTest, RandomNumbersFollowSeedAndStep) {
  const auto draw = [] { return random_uniform({4}).to_vector<float>(); };
  seed(7);
  const auto first = draw(), second = draw();
  EXPECT_NE(first, second);
  seed(7);
  EXPECT_EQ(draw(), first);
  EXPECT_EQ(draw(), second);
  const Tensor a = random_normal({3}), b = random_normal({3});  // two draws of one trace differ
  EXPECT_NE(a.to_vector<float>(), b.to_vector<float>());
}

TEST_F(TensorTest, InitialValuesDependOnSeedAndNameOnly) {
  const auto make = [] { return Variable("w", {DType::f32, {40000}}, {Init::Kind::normal, 0, 1}); };
  seed(3);
  const Variable a = make(), b = make();
  const auto va = a.array().to_vector<float>();
  const auto vb = b.array().to_vector<float>();  // a second variable of the name
  EXPECT_NE(va, vb);
  seed(3);
  EXPECT_EQ(make().array().to_vector<float>(), va);
  double mean = 0, square = 0;
  for (float v : va) mean += v / 40000, square += v * v / 40000;
  EXPECT_NEAR(mean, 0, 0.02);
  EXPECT_NEAR(square, 1, 0.03);
}

TEST_F(TensorTest, UndefinedTensorsAreRefused) {
  EXPECT_NE(message_of([] { relu(Tensor()); }).find("undefined"), std::string::npos);
  EXPECT_NE(message_of([] { Tensor().shape(); }).find("undefined"), std::string::npos);
  EXPECT_NE(message_of([] { zeros({2}).item<float>(); }).find("one element"), std::string::npos);
}

TEST(TensorOf, TakesBoolAndEveryIntegerOf64Bits) {
  const Tensor mask = Tensor::of<bool>({{true, false}, {false, true}});
  EXPECT_EQ(mask.type(), (Type{DType::boolean, {2, 2}}));
  EXPECT_EQ(mask.to_vector<int>(), (std::vector<int>{1, 0, 0, 1}));
  EXPECT_EQ(Tensor::of(std::vector<long long>{7}, {1}).dtype(), DType::i64);
  EXPECT_EQ(Tensor::of(std::vector<long>{7}, {1}).dtype(), DType::i64);
}

}  // namespace
}  // namespace freight
