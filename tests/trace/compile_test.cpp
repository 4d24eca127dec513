// Compiled functions: signatures, state in place, errors while tracing, reuse of outputs.
#include <gtest/gtest.h>

#include "freight/base/error.h"
#include "freight/nn/nn.h"
#include "freight/ops/ops.h"
#include "freight/run/plan.h"
#include "freight/trace/compile.h"
#include "freight/trace/tracer.h"
#include "tests/support/error_of.h"

namespace freight {
namespace {

class CompileTest : public ::testing::Test {
 protected:
  const DeviceScope on_{"ref"};
};

using freight::testing::message_of;

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

struct Pair {
  Tensor a, b;
};
struct Outcome {
  Tensor loss;
  std::vector<Tensor> all;
  Pair pair;
};

TEST_F(CompileTest, StructsTuplesAndListsAreArgumentsAndResults) {
  int traced = 0;
  auto f = compile([&](const Pair& p, const std::vector<Tensor>& v, const Tensor& x) {
    ++traced;
    Outcome out{p.a + x, {}, {p.b, x}};
    for (const Tensor& t : v) out.all.push_back(t * 2);
    return out;
  });
  const Outcome two = f(Pair{scalar(1), scalar(2)}, std::vector<Tensor>{scalar(3), scalar(4)}, scalar(5));
  EXPECT_EQ(two.loss.item<float>(), 6);
  ASSERT_EQ(two.all.size(), 2u);
  EXPECT_EQ(two.all[1].item<float>(), 8);
  EXPECT_EQ(two.pair.a.item<float>(), 2);
  EXPECT_EQ(two.pair.b.item<float>(), 5);
  EXPECT_TRUE(f(Pair{scalar(1), scalar(2)}, std::vector<Tensor>{}, scalar(5)).all.empty());
  EXPECT_EQ(traced, 2);
  EXPECT_EQ(f(Pair{scalar(2), scalar(2)}, std::vector<Array>{scalar(3).array(), scalar(4).array()}, scalar(5))
                .all[0]
                .item<float>(),
            6);

  auto g = compile([](const std::tuple<Tensor, std::array<Tensor, 2>>& t) {
    const auto& [x, two_more] = t;
    return std::tuple(x + two_more[0], std::pair(x, two_more[1]));
  });
  const auto [s, p] = g(std::tuple(scalar(1), std::array{scalar(2), scalar(3)}));
  EXPECT_EQ(s.item<float>(), 3);
  EXPECT_EQ(p.second.item<float>(), 3);
}

TEST_F(CompileTest, ListsOfTheSameTensorsInOtherLengthsAreOtherSignatures) {
  int traced = 0;
  using List = std::vector<Tensor>;
  auto f = compile([&](const List& a, const List& b) {
    ++traced;
    return std::vector<List>{b, a};
  });
  const Tensor x = scalar(1), y = scalar(2), z = scalar(3);
  for (int i = 0; i < 2; ++i) {
    const std::vector<List> one = f(List{x}, List{y, z}), two = f(List{x, y}, List{z});
    ASSERT_EQ(one[0].size(), 2u);
    EXPECT_EQ(one[0][0].item<float>(), 2);
    ASSERT_EQ(two[0].size(), 1u);
    EXPECT_EQ(two[0][0].item<float>(), 3);
  }
  EXPECT_EQ(traced, 2);
}

// A generic function may do something else for a list than for as many tensors.
TEST_F(CompileTest, OneFunctionCalledWithOtherTypesIsTracedForEach) {
  struct Both {
    Tensor operator()(const Tensor& a, const Tensor& b) const { return a - b; }
    Tensor operator()(const std::vector<Tensor>& list) const { return list[0] + list[1]; }
  };
  auto f = compile(Both{});
  EXPECT_EQ(f(scalar(5), scalar(3)).item<float>(), 2);
  EXPECT_EQ(f({scalar(5), scalar(3)}).item<float>(), 8);
  EXPECT_EQ(f(scalar(5), scalar(3)).item<float>(), 2);
}

TEST_F(CompileTest, AnUndefinedArgumentIsRefused) {
  auto f = compile([](const Tensor& x) { return x + 1.0; });
  auto g = compile([](const Tensor& x, const std::vector<Tensor>& more) { return x + more[0]; });
  for (const std::string& said :
       {message_of([&] { f(Tensor()); }), message_of([&] { f(Array()); }),
        message_of([&] { g(ones({2}), std::vector<Tensor>{Tensor()}); }), message_of([&] { f.plan(Tensor()); })}) {
    EXPECT_NE(said.find("got an undefined tensor or array as an argument"), std::string::npos) << said;
  }
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
  int line = 0;
  auto f = compile([&](const Tensor& x) {
    line = __LINE__ + 1;
    leaked = x * 2;
    return leaked + 1;
  });
  f(scalar(1));
  const std::string made = cat("where mul made it at compile_test.cpp:", line);
  for (const std::string& said :
       {message_of([&] { leaked + 1; }), message_of([&] { leaked.array(); }), message_of([&] { leaked.item<float>(); }),
        message_of([&] { leaked.to_device("cpu"); }), message_of([&] { f(leaked); }), message_of([&] {
          Variable("v", {DType::f32, {}}).assign(leaked);
        })}) {
    EXPECT_NE(said.find(made), std::string::npos) << said;
    EXPECT_NE(said.find("return it from that function"), std::string::npos) << said;
  }
  EXPECT_NE(message_of([&] { leaked.item<float>(); }).find("item: a tensor f32[]"), std::string::npos);
  EXPECT_NE(message_of([&] { leaked + 1; }).find("(compile_test.cpp:"), std::string::npos);  // where it is used
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

TEST_F(CompileTest, HostReadsWhileTracingTellWhatWasRead) {
  auto f = compile([](const Tensor& x) { return x * (x + 1).item<float>(); });
  const std::string text = message_of([&] { f(scalar(2)); });
  EXPECT_NE(text.find("f32[] of add at compile_test.cpp:"), std::string::npos) << text;
}

TEST_F(CompileTest, WhatIsLeftOfAMovedFunctionSaysSo) {
  auto f = compile([](const Tensor& x) { return x + 1; });
  auto g = std::move(f);
  EXPECT_EQ(g(scalar(1)).item<float>(), 2);
  EXPECT_NE(message_of([&] { f(scalar(1)); }).find("was moved from"), std::string::npos);
}

TEST_F(CompileTest, AGenericFunctionTakesATensor) {
  auto f = compile([](auto x) { return x * 2; });
  EXPECT_EQ(f(scalar(3)).item<float>(), 6);
}

template <class T>
concept AssignableToItsValue = requires(const T& v) {
  v.value() = zeros({2});
};
static_assert(!AssignableToItsValue<Variable>, "it would be without effect");

}  // namespace
}  // namespace freight
