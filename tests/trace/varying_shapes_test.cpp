// Steps whose shapes vary: which of them are measured, when, and that they compute the same whatever came before.
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "freight/backend/backend.h"
#include "freight/backend/choices.h"
#include "freight/nn/nn.h"
#include "freight/ops/ops.h"
#include "freight/optim/optim.h"
#include "freight/run/plan.h"
#include "freight/run/prepared_op.h"
#include "freight/trace/compile.h"
#include "tests/support/files.h"

namespace freight {
namespace {

using testing::ScopedEnvironment;
using testing::TemporaryDir;

// What the backend below was asked for.
struct Log {
  std::unique_ptr<Choices> choices = nullptr;
  int measured = 0;                     // candidates
  std::vector<std::string> taken = {};  // by the steps that were prepared
};
Log& choosing_log() {
  static Log log;
  return log;
}

// Computes nothing, but each product under one of two names.
class ChoosingBackend final : public Backend {
 public:
  std::string name() const override { return "choosing"; }
  std::string description() const override { return "two kernels for each product"; }
  bool has_kernel(const Graph&, const Node&) const override { return true; }
  std::unique_ptr<Kernel> prepare(const StepSpec& spec) override {
    if (spec.node->op != Op::matmul) return backend("null").prepare(spec);
    Log& log = choosing_log();
    const auto candidate = [&](const char* name) {
      return Choices::Candidate{name, [&log] {
                                  ++log.measured;
                                  return [](int) {};
                                }};
    };
    const std::vector<Choices::Candidate> both{candidate("first"), candidate("second")};
    const std::string step = cat("matmul ", spec.in[0].type, spec.in[1].type);
    log.taken.push_back(both[measures(spec) ? log.choices->fastest(step, both, spec.rule) : 0].name);
    return backend("null").prepare(spec);
  }
};

class VaryingShapes : public ::testing::Test {
 protected:
  VaryingShapes() {
    static const bool registered = [] {
      register_backend(std::make_unique<ChoosingBackend>());
      return true;
    }();
    EXPECT_TRUE(registered);
    begin_process();
  }
  ~VaryingShapes() override {
    clear_plan_cache();
    clear_prepared_ops();
  }
  // As a new process does: it knows what lies in the file.
  void begin_process() {
    clear_plan_cache();
    clear_prepared_ops();
    choosing_log() = {.choices = std::make_unique<Choices>("choices.txt")};
  }
  void know(const std::string& lines) {
    testing::put(cat(cache_.path(), "/choices.txt"), lines);
    begin_process();
  }
  static int measured() { return std::exchange(choosing_log().measured, 0); }
  static std::string last_taken() { return choosing_log().taken.back(); }

  TemporaryDir cache_;
  ScopedEnvironment environment_{"FREIGHT_CACHE", cache_.path()};
  ScopedEnvironment tunes_{"FREIGHT_TUNE", "1"};
  const CompileOptions there_{.backend = "choosing"};
  const Array w_ = ones({8, 3}).array();
};

Array ones_of(int64_t n) { return ones({n, 8}).array(); }

auto multiply_step(const CompileOptions& options) {
  return compile([](const Tensor& x, const Tensor& w) { return matmul(x, w); }, options);
}

TEST_F(VaryingShapes, TheFirstShapeOfAGraphIsMeasuredAndOthersAreGuessed) {
  auto f = multiply_step(there_);
  f(ones_of(40), w_);
  EXPECT_EQ(measured(), 2);
  const std::string first = last_taken();
  for (const int64_t n : {41, 20, 90, 40}) f(ones_of(n), w_);
  EXPECT_EQ(measured(), 0);
  EXPECT_EQ(choosing_log().taken, std::vector<std::string>(4, first));
  auto same = multiply_step(there_);  // the same graph, however often it is written
  same(ones_of(42), w_);
  EXPECT_EQ(measured(), 0);
  auto other = compile([](const Tensor& x, const Tensor& w) { return matmul(x, w) + 1; }, there_);
  other(ones_of(43), w_);
  EXPECT_EQ(measured(), 2);
}

TEST_F(VaryingShapes, ANetWithOtherWeightsIsAnotherGraph) {
  const DeviceScope on("choosing");
  for (const int64_t width : {3, 5}) {
    const Variable w("w", {DType::f32, {8, width}});
    auto f = compile([&](const Tensor& x) { return matmul(x, w.value()); });
    f(ones_of(40));
    EXPECT_EQ(measured(), 2);
    f(ones_of(41));
    EXPECT_EQ(measured(), 0);
  }
}

TEST_F(VaryingShapes, TheNearestStepThatAnotherProcessMeasuredIsTaken) {
  know("second matmul f32[40,8]f32[8,3]\nfirst matmul f32[90,8]f32[8,3]\n");
  auto f = multiply_step(there_);
  f(ones_of(40), w_);
  f(ones_of(45), w_);
  EXPECT_EQ(last_taken(), "second");
  f(ones_of(80), w_);
  EXPECT_EQ(last_taken(), "first");
  EXPECT_EQ(measured(), 0);
}

TEST_F(VaryingShapes, WhatComesBackOftenEnoughIsMeasuredOnce) {
  auto f = multiply_step(there_);
  f(ones_of(40), w_);
  f(ones_of(41), w_);
  measured();
  const auto guessed = plan_for(f.graph(ones_of(41), w_), {.backend = "choosing"}, Measure::when_it_pays);
  EXPECT_EQ(guessed->guesses(), 1u);
  f.repeat(guessed->runs_to_measure() - 2, ones_of(41), w_);
  f(ones_of(41), w_);
  EXPECT_EQ(measured(), 0);
  f(ones_of(41), w_);
  EXPECT_EQ(measured(), 2);
  f.repeat(guessed->runs_to_measure() + 1, ones_of(41), w_);
  f(ones_of(41), w_);
  EXPECT_EQ(measured(), 0);
  EXPECT_EQ(f.traces(), 2u);
}

TEST_F(VaryingShapes, APlanThatIsAskedForIsMeasured) {
  auto f = multiply_step(there_);
  f(ones_of(40), w_);
  f(ones_of(41), w_);
  measured();
  EXPECT_EQ(f.plan(ones_of(41), w_)->guesses(), 0u);
  EXPECT_EQ(measured(), 2);
  EXPECT_EQ(f.plan(Type{DType::f32, {42, 8}}, w_)->guesses(), 0u);
  EXPECT_EQ(measured(), 2);
  f(ones_of(41), w_);
  f(ones_of(42), w_);
  EXPECT_EQ(measured(), 0);
}

TEST_F(VaryingShapes, DeterministicStepsKnowNothingOfWhatWasMeasured) {
  know("second matmul f32[40,8]f32[8,3]\n");
  auto f = multiply_step({.backend = "choosing", .deterministic = true});
  for (const int64_t n : {40, 41, 40}) f(ones_of(n), w_);
  EXPECT_EQ(choosing_log().taken, std::vector<std::string>(2, "first"));
  EXPECT_EQ(f.plan(ones_of(41), w_)->guesses(), 0u);
}

TEST_F(VaryingShapes, AnEagerStepKeepsItsKernel) {
  know("second matmul f32[40,8]f32[8,3]\n");
  const DeviceScope on("choosing");
  const Tensor w(w_);
  const auto eager = [&](int64_t n) { matmul(Tensor(ones_of(n)), w).array(); };
  eager(40);
  eager(41);
  EXPECT_EQ(measured(), 0);
  EXPECT_EQ(last_taken(), "second");
  multiply_step(there_).plan(ones_of(41), w_);
  EXPECT_EQ(measured(), 2);
  clear_prepared_ops();
  eager(41);
  EXPECT_EQ(last_taken(), "second");
}

TEST_F(VaryingShapes, AHundredOfThemStay) {
  auto f = multiply_step(there_);
  for (int pass = 0; pass < 2; ++pass) {
    for (int64_t n = 1; n <= 100; ++n) f(ones_of(n), w_);
  }
  EXPECT_EQ(f.traces(), 100u);
}

TEST(MeasuringPays, OnceItTakesAFifthOfWhatHasRun) {
  EXPECT_NEAR(static_cast<double>(runs_to_measure(4, 1e-3)), 250, 1);  // 40 ms, and ten runs
  EXPECT_EQ(runs_to_measure(4, 1), 51);
  EXPECT_GT(runs_to_measure(100, 0), 0);
}

// Results that need the arena, which larger shapes replace and all share.
TEST(SharedArenas, HoldNothingFromCallToCall) {
  auto f = compile([](const Tensor& x) { return softmax(matmul(tanh(matmul(x, x)), x), 1); }, {.backend = "cpu"});
  auto plain = compile([](const Tensor& x) { return softmax(matmul(tanh(matmul(x, x)), x), 1); }, {.backend = "ref"});
  for (const int64_t n : {8, 64, 3, 96, 8, 64}) {
    const Array x = random_uniform({n, n}).array();
    const std::vector<float> got = f(x).to_vector<float>(), need = plain(x).to_vector<float>();
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], need[i], 1e-4) << n;
  }
}

// Losses and weights of steps at these lengths, from the same beginning.
std::vector<float> train_lstm(const std::vector<int64_t>& lengths, const CompileOptions& options) {
  const DeviceScope on(options.backend);
  seed(3);
  nn::Sequential net(nn::LSTM(5, 7, {.last = true}), nn::Linear(7, 3));
  optim::SGD opt(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  auto step = compile(
      [&](const Tensor& x, const Tensor& y) {
        Tensor loss = cross_entropy(net(x), y);
        opt.step(loss);
        return loss;
      },
      options);
  const Array labels = Array::of<int64_t>({0, 1, 2, 1}, {4});
  std::vector<float> all;
  for (const int64_t t : lengths) {
    std::vector<float> x;
    for (int64_t i = 0; i < 4 * t * 5; ++i) x.push_back(static_cast<float>(i * 37 % 19 - 9) / 9);
    all.push_back(step(Array::of<float>(x, {4, t, 5}), labels).item<float>());
  }
  for (const Variable& v : net.parameters()) {
    const std::vector<float> w = v.array().to_vector<float>();
    all.insert(all.end(), w.begin(), w.end());
  }
  return all;
}

TEST(VaryingLengths, TrainAnLstmAsTheReferenceDoes) {
  const std::vector<int64_t> lengths{3, 9, 5, 1, 12, 3, 30, 9};
  const std::vector<float> got = train_lstm(lengths, {.backend = "cpu"}),
                           need = train_lstm(lengths, {.backend = "ref"});
  ASSERT_EQ(got.size(), need.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], need[i], 2e-5) << i;
}

TEST(VaryingLengths, DeterministicBitsDoNotDependOnWhatCameBefore) {
  const CompileOptions options{.backend = "cpu", .deterministic = true};
  clear_plan_cache();
  const std::vector<float> first = train_lstm({6, 4, 10}, options);
  train_lstm({4, 5, 6, 7, 10}, {.backend = "cpu"});
  clear_plan_cache();
  train_lstm({10, 4, 11}, options);
  EXPECT_EQ(train_lstm({6, 4, 10}, options), first);
}

}  // namespace
}  // namespace freight
