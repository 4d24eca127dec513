// Compiled functions: signatures, state in place, errors while tracing, reuse of outputs.
#include <gtest/gtest.h>

#include "freight/base/error.h"
#include "freight/nn/nn.h"
#include "freight/ops/ops.h"
#include "freight/run/plan.h"
#include "freight/trace/compile.h"
#include "freight/trace/tracer.h"

namespace freight {
namespace {

class CompileTest : public ::testing::Test {
 protected:
  const DeviceScope on_{"ref"};
};

Tensor scalar(float v) { return Tensor::of<float>({v}, {}); }

TEST_F(CompileTest, OneTracePerSignature) {
  int traced = 0;
  auto f = compile([&](const Tensor& x, const Tensor& y) {
    ++traced;
    return x * y + 1;
  });
  EXPECT_EQ(f(scalar(2), scalar(3)).item<float>(), 7);
  EXPECT_EQ(f(scalar(4), scalar(3)).item<float>(), 13);
  EXPECT_EQ(traced, 1);
  EXPECT_EQ(f(ones({2}), ones({2})).to_vector<float>(), (std::vector<float>{2, 2}));
  EXPECT_EQ(traced, 2);
  EXPECT_EQ(f(scalar(5), scalar(3)).item<float>(), 16);
  EXPECT_EQ(traced, 2);
  EXPECT_EQ(f.traces(), 2u);
}

TEST_F(CompileTest, TakesArraysAndGivesListsAndPairs) {
  const Array a = Array::of<float>({1, 2}, {2});
  auto list = compile([](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] + in[1], in[0] * in[1]}; });
  const auto r = list({Tensor(a), Tensor(a)});
  EXPECT_EQ(r[1].to_vector<float>(), (std::vector<float>{1, 4}));
  auto pair = compile([](const Tensor& x) { return std::pair<Tensor, Tensor>{x + 1, sum(x)}; });
  const auto [y, s] = pair(a);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{2, 3}));
  EXPECT_EQ(s.item<float>(), 3);
}

TEST_F(CompileTest, StateIsUpdatedInPlaceAtItsAddress) {
  Variable count("count", {DType::i64, {}});
  auto step = compile([&] { count.assign(count + 1); });
  const void* address = count.array().raw();
  for (int i = 0; i < 5; ++i) step();
  EXPECT_EQ(count.array().data<int64_t>()[0], 5);
  EXPECT_EQ(count.array().raw(), address);
}

TEST_F(CompileTest, HostReadsWhileTracingSayWhy) {
  auto f = compile([](const Tensor& x) { return x.item<float>() > 0 ? x : -x; });
  try {
    f(scalar(1));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(e.what()).find("cannot read a tensor on the host while a step is being traced"),
              std::string::npos);
  }
}

TEST_F(CompileTest, AThrowingTraceLeavesNothingBehind) {
  bool broken = true;
  Variable v("v", {DType::f32, {2}});
  auto f = compile([&](const Tensor& x) {
    v.assign(v + 1);
    if (broken) return x + zeros({3});
    return x + v;
  });
  const Tensor x = zeros({2});
  EXPECT_THROW(f(x), Error);
  EXPECT_FALSE(trace::compiling());
  EXPECT_EQ(v.array().to_vector<float>(), (std::vector<float>{0, 0}));
  broken = false;
  EXPECT_EQ(f(x).to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(v.array().to_vector<float>(), (std::vector<float>{1, 1}));
}

TEST_F(CompileTest, TensorsOfATraceCannotEscape) {
  Tensor leaked;
  auto f = compile([&](const Tensor& x) {
    leaked = x * 2;
    return leaked + 1;
  });
  f(scalar(1));
  EXPECT_THROW(leaked + 1, Error);
  EXPECT_THROW(leaked.array(), Error);
}

TEST_F(CompileTest, OutputsAreReusedOnlyWhenNobodyHoldsThem) {
  auto f = compile([](const Tensor& x) { return x + 1; });
  const Tensor x = scalar(1);
  const void* address = f(x).array().raw();
  EXPECT_EQ(f(x).array().raw(), address);  // nobody held the first result
  const Tensor held = f(scalar(10));
  const Tensor next = f(scalar(20));
  EXPECT_EQ(held.item<float>(), 11);
  EXPECT_EQ(next.item<float>(), 21);
  const Array kept = f(scalar(30)).array();  // holding the array is enough
  f(scalar(40));
  EXPECT_EQ(kept.to_vector<float>()[0], 31);
}

TEST_F(CompileTest, CapturedTensorsAreInputsNotConstants) {
  const Tensor offset = Tensor::of<float>({10}, {}) * 2;  // pending in the eager trace
  auto f = compile([&](const Tensor& x) { return x + offset; });
  EXPECT_EQ(f(scalar(1)).item<float>(), 21);
  EXPECT_EQ(f(scalar(2)).item<float>(), 22);
  EXPECT_EQ(f.graph(scalar(1)).leaves(Op::input).size(), 2u);
}

TEST_F(CompileTest, ALeafMayBeReturned) {
  Variable v("v", {DType::f32, {}}, {Init::Kind::constant, 4, 0});
  auto f = compile([&](const Tensor& x) { return std::array<Tensor, 3>{x, v.value(), x}; });
  const auto r = f(scalar(3));
  EXPECT_EQ(r[0].item<float>(), 3);
  EXPECT_EQ(r[1].item<float>(), 4);
  EXPECT_EQ(r[2].item<float>(), 3);
}

TEST_F(CompileTest, RandomStepsDrawAnewAndRepeatWithTheSeed) {
  auto f = compile([] { return random_uniform({3}); });
  seed(5);
  const auto a = f().to_vector<float>(), b = f().to_vector<float>();
  EXPECT_NE(a, b);
  seed(5);
  EXPECT_EQ(f().to_vector<float>(), a);
}

TEST_F(CompileTest, TrainAndEvalAreTracesOfTheirOwn) {
  nn::Sequential net{nn::Dropout(0.5)};
  auto f = compile([&](const Tensor& x) { return net(x); });
  const Tensor x = ones({64});
  net.eval();
  EXPECT_EQ(f(x).to_vector<float>(), x.to_vector<float>());
  net.train();
  EXPECT_NE(f(x).to_vector<float>(), x.to_vector<float>());
  net.eval();
  EXPECT_EQ(f(x).to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(f.traces(), 2u);
}

TEST_F(CompileTest, PlansFromTypesAlone) {
  auto f = compile([](const Tensor& a, const Tensor& b) { return matmul(a, b); });
  const Type a{DType::f32, {8, 16}}, b{DType::f32, {16, 4}};
  EXPECT_EQ(f.graph(a, b).nodes.size(), 3u);
  EXPECT_GE(f.plan(a, b)->steps().size(), 1u);
  EXPECT_EQ(f.plan(a, b)->total_cost().flops, 2.0 * 8 * 16 * 4);
}

TEST_F(CompileTest, InputsOfTheWrongCountOrTypeAreTracedAnew) {
  auto f = compile([](const Tensor& x) { return sum(x); });
  EXPECT_EQ(f(Array::of<int32_t>({1, 2}, {2})).item<int>(), 3);
  EXPECT_EQ(f(Array::of<float>({1, 2}, {2})).item<float>(), 3);
}

}  // namespace
}  // namespace freight
