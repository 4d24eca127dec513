// Against PyTorch: schedules, optimizers and 20 training steps from equal weights and batches. The expected numbers
// are made by torch_expected.py; `wave` and `batch` repeat its formulas.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "freight/freight.h"
#include "tests/support/folders.h"

namespace freight {
namespace {

using nlohmann::json;

const json& expected() {
  static const json j = json::parse(std::ifstream(source_dir() + "/tests/peers/torch_expected.json"));
  return j;
}

Array wave(const Shape& shape, double phase, double scale) {
  Array a(DType::f32, shape);
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double t = phase + 0.7 * static_cast<double>(i) + 0.01 * static_cast<double>(i % 97);
    a.data<float>()[i] = static_cast<float>(scale * std::sin(t));
  }
  return a;
}

void set_weights(const nn::Module& net) {
  double k = 0;
  for (const Variable& p : net.parameters()) {
    const double fan = p.shape().rank() > 1 ? static_cast<double>(p.type().numel() / p.shape()[0]) : 16;
    p.set(wave(p.shape(), 0.3 * k, 1 / std::sqrt(fan)));
    k += 1;
  }
}

struct Batch {
  Array x, y;
};
Batch batch(int step) {
  constexpr int64_t kSamples = 16;
  Batch b{Array(DType::f32, {kSamples, 1, 28, 28}), Array(DType::i32, {kSamples})};
  for (int i = 0; i < kSamples; ++i) {
    const int label = (3 * i + step) % 10;
    b.y.data<int32_t>()[i] = label;
    const Array sample = wave({784}, 0.6 * label + 0.02 * step + 0.01 * i, 1.0);
    std::copy_n(sample.data<float>(), 784, b.x.data<float>() + i * 784);
  }
  return b;
}

template <class Opt>
std::vector<double> losses(const char* model, Opt make_optimizer) {
  const models::Model m = models::create(model);
  nn::Module& net = *m.net;
  set_weights(net);
  auto opt = make_optimizer(net.parameters());
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = cross_entropy(net(x), y, {.label_smoothing = 0.1});
    opt.step(loss);
    return loss;
  });
  std::vector<double> out;
  for (int s = 0; s < 20; ++s) {
    const Batch b = batch(s);
    out.push_back(step(b.x, b.y).template item<double>());
  }
  net.eval();
  const Batch b = batch(0);
  out.push_back(cross_entropy(net(Tensor(b.x)), Tensor(b.y)).item<double>());
  return out;
}

void expect_near(const std::vector<double>& got, const json& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i].get<double>(), tolerance) << "entry " << i;
}

class Peers : public ::testing::TestWithParam<const char*> {
 protected:
  const DeviceScope on_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Backends, Peers, ::testing::Values("ref", "cpu"));

TEST(PeerSteps, TrainingStepsFollowPyTorch) {
  const DeviceScope on("cpu");  // ref would take half a minute
  const json& want = expected()["losses"];
  using optim::SGD;
  expect_near(losses("mlp", [](auto p) { return SGD(p, {.lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4}); }),
              want["mlp sgd"], 1e-3);
  expect_near(losses("mlp", [](auto p) { return optim::Adam(p, {.lr = 1e-3}); }), want["mlp adam"], 1e-3);
  expect_near(losses("lenet", [](auto p) { return SGD(p, {.lr = 0.02, .momentum = 0.9, .nesterov = true}); }),
              want["lenet sgd nesterov"], 1e-3);
  expect_near(losses("lenet",
                     [](auto p) { return optim::AdamW(p, {.lr = 2e-3, .weight_decay = 0.05, .clip_grad_norm = 0.5}); }),
              want["lenet adamw clip"], 1e-3);
  expect_near(losses("convnet", [](auto p) { return SGD(p, {.lr = 0.02, .momentum = 0.9}); }), want["convnet sgd"],
              1e-3);
}

template <class Opt>
std::vector<double> quadratic(Opt make) {
  const Variable p("p", {DType::f32, {7}}, {}, Variable::Role::parameter);
  p.set(wave({7}, 0.5, 1.0));
  auto opt = make(std::vector<Variable>{p});
  auto step = compile([&](const Tensor& w) { opt.apply({p * w}); });
  for (int s = 0; s < 10; ++s) step(wave({7}, 2.0 + s, 1.0));
  return p.array().to_vector<double>();
}

TEST_P(Peers, OptimizersFollowPyTorch) {
  const json& want = expected()["optimizers"];
  const auto sgd = [](optim::SGDOptions o) { return quadratic([o](const auto& p) { return optim::SGD(p, o); }); };
  const auto adam = [](optim::AdamOptions o) { return quadratic([o](const auto& p) { return optim::Adam(p, o); }); };
  const auto adamw = [](optim::AdamOptions o) { return quadratic([o](const auto& p) { return optim::AdamW(p, o); }); };
  expect_near(sgd({.lr = 0.1}), want["sgd"], 1e-5);
  expect_near(sgd({.lr = 0.1, .weight_decay = 0.1}), want["sgd decay"], 1e-5);
  expect_near(sgd({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}), want["sgd momentum"], 1e-5);
  expect_near(sgd({.lr = 0.1, .momentum = 0.9, .nesterov = true}), want["sgd nesterov"], 1e-5);
  expect_near(adam({.lr = 0.05}), want["adam"], 1e-5);
  expect_near(adam({.lr = 0.05, .beta1 = 0.8, .beta2 = 0.99, .weight_decay = 0.1}), want["adam decay"], 1e-5);
  expect_near(adamw({.lr = 0.05, .weight_decay = 0.1}), want["adamw"], 1e-5);
}

TEST(Schedules, FollowPyTorch) {
  const json& want = expected()["schedules"];
  using optim::Schedule;
  const auto check = [&](const char* name, const Schedule& s) {
    std::vector<double> got;
    for (size_t i = 0; i < want[name].size(); ++i) got.push_back(s.at(static_cast<int64_t>(i)));
    SCOPED_TRACE(name);
    expect_near(got, want[name], 1e-9);
  };
  check("step", Schedule::step(0.4, 5, 0.3));
  check("multi_step", Schedule::multi_step(0.4, {4, 9, 17}, 0.1));
  check("cosine", Schedule::cosine(0.4, 20, 0.01));
  check("linear", Schedule::linear(0.4, 12, 0.1));
  check("one_cycle", Schedule::one_cycle(0.4, 25));
  check("one_cycle linear",
        Schedule::one_cycle(
            0.4, 20, {.pct_start = 0.4, .div_factor = 10, .final_div_factor = 100, .anneal = optim::Anneal::linear}));
  check("warmup cosine", Schedule::cosine(0.4, 15).warmup(5, 0.1));
}

}  // namespace
}  // namespace freight
