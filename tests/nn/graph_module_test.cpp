// Networks as graphs: what trace_module makes of a forward computes the same for every size of the batch, in evaluation
// and in training, and texts that are no graph of a module are refused.
#include <gtest/gtest.h>

#include "freight/base/error.h"
#include "freight/freight.h"
#include "freight/nn/evaluating.h"
#include "tests/support/files.h"

namespace freight::nn {
namespace {

using freight::testing::expect_error;

// Code: a convolution, a table, a mask of bool, dropout, and a layer that is used twice.
class Written : public Module {
 public:
  Written()
      : conv_(add("conv", Conv2d(2, 4, 3, {.padding = 1}))),
        norm_(add("norm", BatchNorm2d(4))),
        drop_(add("drop", Dropout({.p = 0.4}))),
        fc_(add("fc", Linear(16, 16))) {
    adopt("again", children().back().module);
    scale_ = parameter("scale", {16}, init::constant(0.5));
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = drop_(max_pool2d(relu(norm_(conv_(x)))));
    const Tensor rows = reshape(y, {x.dim(0), 16});
    const Tensor table(Array::of<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, {16}));
    const Tensor odd(Array::of<int64_t>({1, 3, 5, 7}, {4}));
    const Tensor z = fc_(fc_(rows + table) * scale_);
    return concat({z, gather(z, odd, 1), zeros({x.dim(0), 2}), x.dim(0) == 0 ? z : full({x.dim(0), 1}, 7)}, 1);
  }

 private:
  Conv2d& conv_;
  BatchNorm2d& norm_;
  Dropout& drop_;
  Linear& fc_;
  Variable scale_;
};

const Type kSample{DType::f32, {2, 4, 4}};

Array samples(int64_t n) {
  Array x(DType::f32, {n, 2, 4, 4});
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>((i * 37) % 23) / 7.0F - 1;
  return x;
}

std::vector<float> values(const Tensor& t) { return t.array().to_vector<float>(); }

TEST(GraphModules, ComputeWhatTheForwardDoesForEverySizeOfTheBatch) {
  Written net;
  const auto graph = trace_module(net, kSample);
  EXPECT_TRUE(net.training());
  const Evaluating mine(net), other(*graph);
  auto step = compile([&](const Tensor& x) { return (*graph)(x); });
  for (const int64_t n : {1, 2, 5, 1009}) {
    const Tensor x(samples(n));
    EXPECT_EQ(values((*graph)(x)), values(net(x))) << n;
    EXPECT_EQ(values(step(x)), values(compile([&](const Tensor& in) { return net(in); })(x))) << n;
  }
}

TEST(GraphModules, ShareTheVariablesWithTheirNamesAndTies) {
  Written net;
  const auto graph = trace_module(net, kSample);
  const auto own = net.state_dict(), shared = graph->state_dict();
  ASSERT_EQ(shared.size(), own.size() + 1);
  for (size_t i = 0; i < own.size(); ++i) {
    EXPECT_EQ(shared[i].name, own[i].name);
    EXPECT_TRUE(shared[i].variable == own[i].variable);
  }
  EXPECT_EQ(shared.back().name, "freight.array1");
  EXPECT_EQ(graph->parameters().size(), net.parameters().size());
}

TEST(GraphModules, TrainWithDropoutAndStatistics) {
  Written net;
  std::string untrained = "nothing said";
  const auto graph = trace_module(net, kSample, &untrained);
  EXPECT_EQ(untrained, "");
  EXPECT_NE(graph->fields().training_graph.find("dropout"), std::string::npos);
  EXPECT_EQ(graph->fields().graph.find("dropout"), std::string::npos);
  const auto before = values_of(net.state_dict());
  const auto trained = [&](Module& m) {
    net.load_state_dict(before);
    seed(3);
    auto step = compile([&](const Tensor& x) {
      const Tensor loss = mean(square(m(x)));
      std::vector<Tensor> results{loss};
      for (const Tensor& g : grad(loss, m.parameters())) results.push_back(g);
      return results;
    });
    std::vector<std::vector<float>> all;
    for (int i = 0; i < 2; ++i) {
      for (const Tensor& t : step(Tensor(samples(6)))) all.push_back(values(t));
    }
    for (const NamedArray& a : values_of(net.state_dict())) all.push_back(a.array.to_vector<float>());
    return all;
  };
  EXPECT_EQ(trained(*graph), trained(net));
}

TEST(GraphModules, DrawNewNumbersWithEveryEagerCall) {
  Dropout net({.p = 0.5});
  const auto graph = trace_module(net, {DType::f32, {64}});
  const Tensor x = ones({4, 64});
  seed(1);
  const auto first = values((*graph)(x)), second = values((*graph)(x));
  EXPECT_NE(first, second);
  seed(1);
  EXPECT_EQ(values(net(x)), first);
}

struct Hidden : Module {  // the batch decides what it computes
  Tensor forward(const Tensor& x) override { return x.dim(0) > 1010 ? x : -x; }
};
struct Halved : Module {  // half of the batch, rounded down
  Tensor forward(const Tensor& x) override { return x * static_cast<double>(x.dim(0) / 2); }
};
struct Odd : Module {  // what is traced for odd numbers alone
  Tensor forward(const Tensor& x) override { return x.dim(0) % 2 == 1 ? x : -x; }
};
struct Squared : Module {  // a size that is no multiple of the batch's
  Tensor forward(const Tensor& x) override { return reshape(zeros({x.dim(0) * x.dim(0), 1}), {x.dim(0), x.dim(0)}); }
};

TEST(GraphModules, WhatDependsOnTheBatchIsRefused) {
  Hidden hidden;
  Halved halved;
  Odd odd;
  Squared squared;
  const auto refused = [](Module& m, const std::string& why) {
    expect_error(ErrorKind::usage, {"another size of the batch", why}, [&] { trace_module(m, {DType::f32, {3}}); });
  };
  refused(hidden, "1009 samples");
  refused(halved, "a number");
  refused(odd, "1018");
  refused(squared, "1018081");
}

// Arrays and numbers that are made from the size of the batch.
struct Made : Module {
  Tensor forward(const Tensor& x) override {
    const int64_t n = x.dim(0);
    std::vector<int64_t> backwards;
    std::vector<float> rows, mask;
    for (int64_t i = 0; i < n; ++i) {
      backwards.push_back(n - 1 - i);
      rows.insert(rows.end(), {0.5F, 2, -1});
      for (int64_t j = 0; j < n; ++j) mask.push_back(i == j ? 0 : 1);
    }
    const Tensor others = matmul(Tensor(Array::of<float>(mask, {n, n})), x) * (1.0 / static_cast<double>(n));
    return gather(others * Array::of<float>(rows, {n, 3}), Tensor(Array::of<int64_t>(backwards, {n})), 0);
  }
};

TEST(GraphModules, MakeArraysFromTheSizeOfTheBatchAnew) {
  Made net;
  const auto graph = trace_module(net, {DType::f32, {3}});
  for (const int64_t n : {1, 2, 9}) {
    Array x(DType::f32, {n, 3});
    for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(i * i % 13);
    const std::vector<float> got = values((*graph)(Tensor(x))), expected = values(net(Tensor(x)));
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6 * std::abs(expected[i])) << n;
  }
  EXPECT_EQ(graph->state_dict().size(), 1U);  // the row
}

TEST(GraphModules, LossesOfAuxiliaryHeadsAreNotTrained) {
  Sequential net(Linear(4, 4), Auxiliary(std::make_shared<Linear>(4, 2)), Linear(4, 3));
  std::string untrained;
  const auto graph = trace_module(net, {DType::f32, {4}}, &untrained);
  EXPECT_NE(untrained.find("auxiliary head"), std::string::npos) << untrained;
  EXPECT_FALSE(graph->fields().trainable);
  EXPECT_TRUE(GraphModule(graph->fields()).parameters().empty());
}

GraphModuleOptions with(std::string GraphModuleOptions::*member, const std::string& text) {
  GraphModuleOptions f;
  f.*member = text;
  return f;
}

TEST(GraphModules, SeveralResultsAreAllReturned) {
  GraphModuleOptions f;
  f.graph =
      R"(graph { %0 = input "x" : f32[N,2] %1 = state "w" : f32[2] %2 = reshape(%1) {shape=[1,2]} : f32[1,2] %3 = broadcast(%2) {shape=[N,2]} : f32[N,2] %4 = mul(%0, %3) : f32[N,2] return %4, %3 })";
  GraphModule m(f);
  m.variables()[0].variable.set(Array::of<float>({2, 3}, {2}));
  const std::vector<Tensor> y = m.call({Tensor(Array::of<float>({1, 1, 10, 10}, {2, 2}))});
  ASSERT_EQ(y.size(), 2U);
  EXPECT_EQ(values(y[0]), (std::vector<float>{2, 3, 20, 30}));
  EXPECT_EQ(values(y[1]), (std::vector<float>{2, 3, 2, 3}));
}

TEST(GraphModules, TextsThatAreNoGraphOfAModuleAreRefused) {
  const auto refused = [](ErrorKind kind, const std::string& text, const std::string& what, GraphModuleOptions f = {}) {
    f.graph = text;
    expect_error(kind, {what}, [&] { GraphModule m(f); });
  };
  const std::string good =
      R"(graph { %0 = input "x" : f32[N,2] %1 = state "w" : f32[N,2] %2 = relu(%0) : f32[N,2] return %2 })";
  refused(ErrorKind::data, "graph { %0 = reul", "unknown op `reul`");
  refused(ErrorKind::usage, R"(graph { %0 = state "w" : f32[2] return %0 })", "expected one input");
  refused(ErrorKind::usage, R"(graph { %0 = input "x" : f32[] return %0 })", "no axis of samples");
  refused(ErrorKind::usage, R"(graph { %0 = input "x" : f32[N] })", "returns nothing");
  refused(ErrorKind::usage, R"(graph { %0 = input "x" : f32[N] %1 = all_reduce(%0) : f32[N] return %1 })",
          "all_reduce");
  refused(ErrorKind::data, R"(graph { %0 = input "x" : f32[9223372036854775807N] return %0 })", "out of range");
  refused(ErrorKind::usage, good, "no state v", with(&GraphModuleOptions::buffers, "w v"));
  refused(ErrorKind::usage, good, "expected the 1 states",
          with(&GraphModuleOptions::training_graph, R"(graph { %0 = input "x" : f32[N,2] return %0 })"));
  GraphModule m(with(&GraphModuleOptions::graph, R"(graph { %0 = input "x" : f32[N,2] return %0 })"));
  expect_error(ErrorKind::usage, {"GraphModule", "expected f32[3,2]", "got f32[3,4]"}, [&] { m(zeros({3, 4})); });
  expect_error(ErrorKind::usage, {"GraphModule"}, [&] { m(zeros({})); });
}

}  // namespace
}  // namespace freight::nn
