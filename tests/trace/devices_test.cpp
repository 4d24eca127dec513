// Tensors, variables, modules and compiled functions of several devices in one program: interleaved, in several
// threads, with gradients; what is refused, and what follows. On two backends of the host, and on PoCL where it is.
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "freight/backend/backend.h"
#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/nn/nn.h"
#include "freight/ops/ops.h"
#include "freight/optim/optim.h"
#include "freight/run/plan.h"
#include "freight/trace/compile.h"
#include "tests/support/error_of.h"

namespace freight {
namespace {

using freight::testing::message_of;
using Floats = std::vector<float>;

bool says(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    if (message.find(part) == std::string::npos) return false;
  }
  return true;
}

Variable weight(const char* name, double value) {
  return {name, {DType::f32, {2}}, {Init::Kind::constant, value, 0}, Variable::Role::parameter};
}

// The second device of a pair; the first is "cpu".
class Devices : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      backend(GetParam());
    } catch (const Error& e) {
      GTEST_SKIP() << e.what();
    }
  }
};

TEST_P(Devices, ScopesNestAndEnd) {
  const std::string before = current_device();
  {
    const DeviceScope outer(GetParam());
    EXPECT_EQ(current_device(), GetParam());
    {
      const DeviceScope inner("cpu");
      EXPECT_EQ(current_device(), "cpu");
    }
    EXPECT_EQ(Tensor::of<float>({1}).device(), GetParam());
    EXPECT_EQ(weight("w", 1).device(), GetParam());
  }
  EXPECT_EQ(current_device(), before);
  EXPECT_TRUE(says(message_of([] { const DeviceScope on("abacus"); }), {"abacus", "cpu, "}));
  EXPECT_EQ(current_device(), before);
}

TEST_P(Devices, TwoAreUsedInterleaved) {
  const DeviceScope on("cpu");
  const Tensor a(Array::of<float>({1, 2}, {2})), b(Array::of<float>({3, 5}, {2}), GetParam());
  Tensor x = a, y = b;
  for (int i = 0; i < 3; ++i) {
    x = x * 2 + a;
    y = y * 2 + b;
  }
  EXPECT_EQ(x.device(), "cpu");
  EXPECT_EQ(y.device(), GetParam());
  EXPECT_EQ(y.to_vector<float>(), (Floats{45, 75}));
  EXPECT_EQ(x.to_vector<float>(), (Floats{15, 30}));
  EXPECT_EQ((x + y.to_device("cpu")).to_vector<float>(), (Floats{60, 105}));
  EXPECT_EQ((x.to_device(GetParam()) + y).device(), GetParam());
}

TEST_P(Devices, AnOperationBetweenTwoIsRefusedWithTheMend) {
  const DeviceScope on("cpu");
  const Tensor a(Array::of<float>({1, 2}, {2})), b(Array::of<float>({3, 5}, {2}), GetParam());
  const std::vector<std::string> told = {"add: ", "f32[2] on cpu", std::string("f32[2] on ") + GetParam(),
                                         "to_device(\"cpu\")", "devices_test.cpp"};
  EXPECT_TRUE(says(message_of([&] { a + b; }), told)) << message_of([&] { a + b; });
  const Variable w = weight("w", 1);
  EXPECT_TRUE(says(message_of([&] { b* w; }), {"multiply: ", "on cpu", GetParam(), "to_device"}));
  EXPECT_TRUE(says(message_of([&] { w.assign(b); }), {"assign: ", GetParam(), "cpu", "to_device"}));
  EXPECT_EQ((a + a).to_vector<float>(), (Floats{2, 4}));
}

TEST_P(Devices, NumbersConstantsAndHostArraysFollow) {
  const DeviceScope on("cpu");
  const Tensor b(Array::of<float>({3, 5}, {2}), GetParam());
  const Array host = Array::of<float>({10}, {1});
  const Tensor sums = 1.0 + b + host + zeros({2}) + full({2}, 4);
  EXPECT_EQ(sums.device(), GetParam());
  EXPECT_EQ(sums.to_vector<float>(), (Floats{18, 20}));
}

TEST_P(Devices, GradientsGoThroughAMove) {
  const DeviceScope on("cpu");
  const Variable w = weight("w", 3);
  const DeviceScope there(GetParam());
  const Variable v = weight("v", 2);
  const Tensor x(Array::of<float>({1, 2}, {2}), "cpu");
  const Tensor hidden = square(x * w);  // 9, 36
  const Tensor moved = hidden.to_device(GetParam());
  const Tensor loss = sum(moved * v);
  EXPECT_EQ(loss.device(), GetParam());
  const std::vector<Tensor> g = grad(loss, std::vector<Variable>{w, v});
  EXPECT_EQ(g[0].device(), "cpu");
  EXPECT_EQ(g[1].device(), GetParam());
  EXPECT_EQ(g[0].to_vector<float>(), (Floats{12, 48}));
  EXPECT_EQ(g[1].to_vector<float>(), (Floats{9, 36}));
  EXPECT_EQ(grad(loss, {x})[0].to_vector<float>(), (Floats{36, 72}));
  EXPECT_EQ(grad(sum(x.to_device(GetParam()) * v), {x})[0].to_vector<float>(), (Floats{2, 2}));
}

TEST_P(Devices, AnOptimizerUpdatesParametersOfBoth) {
  const auto run = [](const std::string& first, const std::string& second) {
    seed(3);
    std::vector<Variable> parameters;
    for (const std::string& device : {first, second}) {
      const DeviceScope on(device);
      parameters.push_back(weight(cat("w", parameters.size()).c_str(), 1 + static_cast<double>(parameters.size())));
    }
    optim::Adam adam(parameters, {.lr = 0.1, .clip_grad_norm = 0.5});
    for (int i = 0; i < 3; ++i) {
      const Tensor h = square(parameters[0].value() - 4).to_device(second);
      adam.step(sum(h * parameters[1]));
    }
    Floats out = parameters[0].array().to_vector<float>();
    for (const float f : parameters[1].array().to_vector<float>()) out.push_back(f);
    EXPECT_EQ(parameters[1].device(), second);
    return out;
  };
  const Floats alone = run("cpu", "cpu"), both = run("cpu", GetParam());
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(both[i], alone[i], 1e-5);
}

TEST_P(Devices, CompiledFunctionsRunWhereTheirOperandsLie) {
  const DeviceScope on("cpu");
  const Variable w = weight("w", 3);
  auto times = compile([&](const Tensor& x) { return x * w; });
  const Array host = Array::of<float>({1, 2}, {2});
  EXPECT_EQ(times(host).to_vector<float>(), (Floats{3, 6}));
  const Tensor there(host, GetParam());
  const std::string told = message_of([&] { times(there); });
  EXPECT_TRUE(says(told, {"variable 'w'", "cpu", GetParam(), "to_device"})) << told;
  w.to_device(GetParam());
  EXPECT_EQ(times(there).device(), GetParam());
  EXPECT_EQ(times(host).to_vector<float>(), (Floats{3, 6}));
  EXPECT_EQ(times.plan(host)->options().backend, GetParam());
  // A function without state serves both; one that is told where runs there, whatever it is given.
  auto twice = compile([](const Tensor& x) { return x * 2; });
  EXPECT_EQ(twice(Tensor(host)).device(), "cpu");
  EXPECT_EQ(twice(there).device(), GetParam());
  auto fixed = compile([&](const Tensor& x) { return x * w; }, {.backend = "cpu"});
  EXPECT_EQ(fixed(there).device(), "cpu");
  EXPECT_EQ(fixed(there).to_vector<float>(), (Floats{3, 6}));
}

TEST_P(Devices, AModuleMovesWithItsOptimizer) {
  seed(5);
  nn::Sequential net(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 3));
  optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = cross_entropy(net(x), y);
    sgd.step(loss);
    return loss;
  });
  const Array x = Array::of<float>(Floats(8, 0.5F), {2, 4}), y = Array::of<int64_t>({0, 2}, {2});
  const float first = step(x, y).item<float>();
  net.to_device(GetParam());
  for (const Variable& p : net.parameters()) EXPECT_EQ(p.device(), GetParam());
  const float second = step(x, y).item<float>();
  EXPECT_EQ(step.plan(x, y)->options().backend, GetParam());
  sgd.step(cross_entropy(net(x), y));  // eager, with the momentum that the compiled steps left
  EXPECT_LT(second, first);
  EXPECT_LT(cross_entropy(net(x), y).item<float>(), second);
  net.to_device("cpu");
  EXPECT_LT(step(x, y).item<float>(), second);
}

TEST_P(Devices, RandomNumbersAreTheSameAndNoneIsDrawnTwice) {
  const auto draws = [](const std::string& first, const std::string& second) {
    seed(11);
    std::vector<Floats> out;
    std::vector<Tensor> made;
    for (const std::string& device : {first, second, first}) {
      const DeviceScope on(device);
      made.push_back(random_uniform({3}));
    }
    for (const Tensor& t : made) out.push_back(t.to_vector<float>());
    return out;
  };
  const auto both = draws("cpu", GetParam());
  EXPECT_EQ(both, draws("cpu", "cpu"));
  EXPECT_NE(both[0], both[1]);
  EXPECT_NE(both[1], both[2]);
}

TEST_P(Devices, ThreadsHaveScopesOfTheirOwn) {
  const std::vector<std::string> names = {"cpu", GetParam(), "cpu", GetParam()};
  std::vector<std::string> wrong(names.size());
  std::vector<std::thread> threads;
  for (size_t t = 0; t < names.size(); ++t) {
    threads.emplace_back([&, t] {
      const DeviceScope on(names[t]);
      const Variable w = weight("w", static_cast<double>(t));
      auto compiled = compile([&](const Tensor& x) { return square(x * w); });
      for (int i = 0; i < 20; ++i) {
        const auto f = static_cast<float>(i), k = static_cast<float>(t);
        const Tensor x = Tensor::of<float>({f, 1}), y = square(x * w);
        if (y.device() != names[t]) wrong[t] += "device ";
        if (y.to_vector<float>() != Floats{f * f * k * k, k * k}) wrong[t] += "eager ";
        if (compiled(x).to_vector<float>() != y.to_vector<float>()) wrong[t] += "compiled ";
        if (grad(sum(y), {w})[0].to_vector<float>() != Floats{2 * f * f * k, 2 * k}) wrong[t] += "gradient ";
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<std::string>(names.size()));
}

TEST_P(Devices, ThreadsShareTensorsOfTwo) {
  const DeviceScope on("cpu");
  const Tensor a = Tensor::of<float>({1, 2}) * 2, b = Tensor(Array::of<float>({3, 5}, {2}), GetParam()) * 2;
  std::vector<Floats> sums(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < sums.size(); ++t) {
    threads.emplace_back([&, t] {
      const std::string to = t % 2 ? "cpu" : GetParam();
      sums[t] = (a.to_device(to) + b.to_device(to)).to_vector<float>();
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(sums, (std::vector<Floats>(4, Floats{8, 14})));
}

// What functions make beside an operand lies where the operand does, whatever this thread's device is.
TEST_P(Devices, WhatAFunctionMakesBesideItsOperandsLiesWithThem) {
  const DeviceScope on("cpu");
  const std::string there = GetParam();
  const auto at = [&](const Array& a) { return Tensor(a, there); };
  const Tensor x = at(Array::of<float>({1, 2, 3, 4}, {4})), m = at(Array::of<float>({1, 2, 3, 4}, {2, 2}));
  const Tensor places = at(Array::of<int64_t>({3, 0, -1}, {3})), small = at(Array::of<uint8_t>({1, 2}, {2}));
  const auto expect = [&](const Tensor& got, const Floats& values, const char* what) {
    EXPECT_EQ(got.to_vector<float>(), values) << what;
    EXPECT_EQ(got.device(), there) << what;
  };
  expect(x[x > 2], {3, 4}, "a mask");
  expect(m[{Slice{}, at(Array::of<float>({1, -1}, {2})) > 0}], {1, 3}, "a mask of one axis");
  expect(x[places], {4, 1, 4}, "indices");
  expect(x[x > 9], {}, "a mask without a true element");
  // The answer of a comparison beyond the type's range is a constant, which follows.
  expect(at(Array::of<float>({5, 6}, {2}))[small < 300], {5, 6}, "a mask that is a constant");
  expect(flip(x, 0), {4, 3, 2, 1}, "flip");
  expect(x * arange(4, DType::f32), {0, 2, 6, 12}, "arange(n)");
  expect(x * arange(1.0, 5.0), {1, 4, 9, 16}, "arange(start, stop)");
  expect(x + linspace(0, 3, 4), {1, 3, 5, 7}, "linspace");
  expect(x + ones({4}), {2, 3, 4, 5}, "ones");
  expect(matmul(m, eye(2)), {1, 2, 3, 4}, "eye");
  expect(einsum("ii->i", {m}), {1, 4}, "a diagonal");
  expect(cast(bincount(at(Array::of<int64_t>({0, 2, 2}, {3})), 3), DType::f32), {1, 0, 2}, "bincount");
  expect(one_hot(at(Array::of<int64_t>({1}, {1})), 2), {0, 1}, "one_hot");
  expect(relu(dropout(x, 0.5)) * 0.0, {0, 0, 0, 0}, "dropout");
}

TEST(DeviceNames, AMoveToADeviceThatIsNotThereIsRefusedAtOnce) {
  const DeviceScope on("cpu");
  const Array host = Array::of<float>({1, 2}, {2});
  const Tensor x(host);
  const Variable w = weight("w", 3);
  nn::Linear linear(2, 2);
  for (const std::string device : {"opencl:99", "cuda:99", "opencl:-1", "opencl:", "opencl:1x", "abacus"}) {
    const auto refused = [&](const auto& move) {
      try {
        move();
        ADD_FAILURE() << device << " was taken";
      } catch (const Error& e) {
        EXPECT_EQ(e.kind(), ErrorKind::device) << e.what();
      }
    };
    refused([&] { x.to_device(device); });
    refused([&] { w.to_device(device); });
    refused([&] { linear.to_device(device); });
    refused([&] { const Tensor y(host, device); });
    refused([&] { const DeviceScope there(device); });
  }
  EXPECT_EQ(x.device(), "cpu");
  EXPECT_EQ(w.device(), "cpu");
  for (const Variable& p : linear.parameters()) EXPECT_EQ(p.device(), "cpu");
}

TEST_P(Devices, OneDeviceHasOneName) {
  const std::string device = GetParam();
  const size_t colon = device.find(':');
  if (colon == std::string::npos) GTEST_SKIP() << device << " has no number";
  const DeviceScope on("cpu");
  const Tensor x(Array::of<float>({1, 2}, {2}), device);
  for (const std::string& name : {device.substr(0, colon), device.substr(0, colon) + ":00"}) {
    const Tensor y(Array::of<float>({3, 4}, {2}), name);
    EXPECT_EQ(y.device(), device);
    EXPECT_EQ((x + y).to_vector<float>(), (Floats{4, 6})) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Pairs, Devices, ::testing::Values("ref", "opencl:0"),
                         [](const auto& p) { return std::string(p.param).substr(0, std::string(p.param).find(':')); });

// A name in the environment stands neither in the program nor in its command line.
TEST(DeviceOfTheEnvironment, IsNamedWhereItIsNotThere) {
  const std::string before = env::get("FREIGHT_DEVICE");
  setenv("FREIGHT_DEVICE", "opencl:77", 1);
  const std::string absent = message_of([] { backend("opencl:77"); }), other = message_of([] { backend("opencl:78"); });
  setenv("FREIGHT_DEVICE", "abacus", 1);
  const std::string unknown = message_of([] { need_backend_name("abacus"); });
  before.empty() ? unsetenv("FREIGHT_DEVICE") : setenv("FREIGHT_DEVICE", before.c_str(), 1);
  EXPECT_EQ(absent.find("FREIGHT_DEVICE=opencl:77: "), 0u) << absent;
  EXPECT_EQ(other.find("FREIGHT_DEVICE"), std::string::npos) << other;
  EXPECT_EQ(unknown.find("FREIGHT_DEVICE: unknown backend: expected one of"), 0u) << unknown;
  EXPECT_NE(unknown.find("got 'abacus'"), std::string::npos) << unknown;
}

}  // namespace
}  // namespace freight
