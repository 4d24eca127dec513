// The training step: parts of a batch against the whole batch.
#include "freight/train/step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "freight/base/error.h"
#include "freight/base/finite.h"
#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "freight/nn/nn.h"
#include "freight/ops/ops.h"
#include "freight/run/plan.h"

#include "tests/support/error_of.h"

namespace freight::train {
namespace {

Array random_images(const Shape& shape) {
  Array a(DType::f32, shape);
  PhiloxStream rng(7, 0, 0);
  for (int64_t i = 0; i < a.numel(); ++i) a.data<float>()[i] = rng.normal();
  return a;
}
Array labels(int64_t n) {
  Array y(DType::i64, {n});
  for (int64_t i = 0; i < n; ++i) y.data<int64_t>()[i] = (3 * i + 1) % 10;
  return y;
}

struct Trained {
  std::vector<double> losses;
  std::vector<float> weights;
  TrainStep::Summary summary;
};

// No ReLU and no maximum: rounding has no kink to fall over.
models::Model smooth_net() {
  return models::from_spec(R"({"format": "freight-model-1", "name": "smooth", "input": [1, 28, 28], "net": [
      {"type": "Conv2d", "out": 6, "kernel": 5}, {"type": "Tanh"}, {"type": "AvgPool2d", "kernel": 4},
      {"type": "Flatten"}, {"type": "Linear", "out": 10}]})");
}

// Ten steps of a net on one batch of 24 samples, in so many parts.
Trained trained(models::Model (*make)(), int64_t parts) {
  const DeviceScope on("cpu");
  seed(3);
  const models::Model model = make();
  model.net->train();
  optim::SGD sgd(model.net->parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3, .clip_grad_norm = 1});
  optim::EMA ema(*model.net, {.decay = 0.9});
  TrainStep step(model, sgd, &ema, {.loss = {.label_smoothing = 0.1}, .parts = parts}, {.deterministic = true});
  const Array x = random_images(model.batch_type(24).shape), y = labels(24);
  Trained t;
  for (int i = 0; i < 10; ++i) t.losses.push_back(step.run(x, y).loss);
  for (const auto& list : {model.net->state_dict(), ema.state_dict()}) {
    for (const nn::NamedVariable& v : list) {
      const std::vector<float> more = v.variable.array().to_vector<float>();
      t.weights.insert(t.weights.end(), more.begin(), more.end());
    }
  }
  t.summary = step.summary({x.dtype(), x.shape()}, {y.dtype(), y.shape()});
  return t;
}

TEST(TrainStep, PartsOfABatchTrainAsTheWholeBatchDoes) {
  const Trained whole = trained(smooth_net, 1);
  for (const int64_t parts : {2, 5, 24}) {  // 5 makes one part of 4 and four of 5
    SCOPED_TRACE(parts);
    const Trained cut = trained(smooth_net, parts);
    for (size_t i = 0; i < whole.losses.size(); ++i) EXPECT_NEAR(cut.losses[i], whole.losses[i], 1e-5);
    ASSERT_EQ(cut.weights.size(), whole.weights.size());
    double worst = 0;
    for (size_t i = 0; i < whole.weights.size(); ++i) {
      worst = std::max(worst, static_cast<double>(std::fabs(cut.weights[i] - whole.weights[i])));
    }
    EXPECT_LT(worst, 1e-5);
  }
}

// Ten steps on a batch that is cut into shards.
std::vector<float> trained_in_shards(models::Model (*make)(), const Array& x, const Array& y, int64_t shards,
                                     std::vector<double>* losses = nullptr) {
  const DeviceScope on("cpu");
  seed(3);
  const models::Model model = make();
  model.net->train();
  optim::SGD sgd(model.net->parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3, .clip_grad_norm = 1});
  const int64_t n = x.shape()[0];
  TrainStep step(model, sgd, nullptr,
                 {.loss = {.label_smoothing = 0.1}, .sharding = {.shards = shards, .exact = true, .batch_size = n}},
                 {});
  const data::Share pieces{.of = shards, .end = shards, .cut = true};
  for (int i = 0; i < 10; ++i) {
    for (int64_t k = 0; k < shards; ++k) {
      const auto [first, count] = pieces.rows(k, n);
      step.add_shard({batch_rows(x, first, count), batch_rows(y, first, count), count});
    }
    int64_t counted = 0;
    const TrainStep::Outcome o = step.finish_shards(counted);
    EXPECT_EQ(counted, n);
    if (losses) losses->push_back(o.loss);
  }
  std::vector<float> weights;
  for (const nn::NamedVariable& v : model.net->state_dict()) {
    const std::vector<float> more = v.variable.array().to_vector<float>();
    weights.insert(weights.end(), more.begin(), more.end());
  }
  return weights;
}

TEST(TrainStep, ShardsOfABatchTrainAsTheWholeBatchDoes) {
  const Trained whole = trained(smooth_net, 1);
  const Array x = random_images({24, 1, 28, 28}), y = labels(24);
  for (const int64_t shards : {1, 2, 5, 7, 24}) {
    SCOPED_TRACE(shards);
    std::vector<double> losses;
    const std::vector<float> weights = trained_in_shards(smooth_net, x, y, shards, &losses);
    for (size_t i = 0; i < whole.losses.size(); ++i) EXPECT_NEAR(losses[i], whole.losses[i], 1e-5);
    double worst = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      worst = std::max(worst, static_cast<double>(std::fabs(weights[i] - whole.weights[i])));
    }
    EXPECT_LT(worst, 1e-5);
  }
}

TEST(TrainStep, RunningStatisticsAreTheMeanOfTheShardsBySamples) {
  const auto net = [] {
    return models::from_spec(R"({"format": "freight-model-1", "name": "norm", "input": [2, 3, 3], "net": [
        {"type": "BatchNorm2d"}, {"type": "Flatten"}, {"type": "Linear", "out": 10}]})");
  };
  const DeviceScope on("cpu");
  const models::Model model = net();
  model.net->train();
  optim::SGD sgd(model.net->parameters(), {.lr = 0.0});
  TrainStep step(model, sgd, nullptr, {.sharding = {.shards = 2, .batch_size = 5}}, {});
  const Array x = random_images({5, 2, 3, 3}), y = labels(5);
  step.add_shard({batch_rows(x, 0, 2), batch_rows(y, 0, 2), 2});
  step.add_shard({batch_rows(x, 2, 3), batch_rows(y, 2, 3), 3});
  int64_t counted = 0;
  step.finish_shards(counted);
  for (int64_t c = 0; c < 2; ++c) {
    double mean = 0, variance = 0;
    for (const auto& [first, n] : {std::pair<int64_t, int64_t>{0, 2}, {2, 3}}) {
      double sum = 0, squares = 0;
      for (int64_t i = first; i < first + n; ++i) {
        for (int64_t k = 0; k < 9; ++k) {
          const double v = static_cast<double>(x.data<float>()[(i * 2 + c) * 9 + k]);
          sum += v;
          squares += v * v;
        }
      }
      const auto values = static_cast<double>(9 * n), samples = static_cast<double>(n);
      mean += samples / 5 * sum / values;
      variance += samples / 5 * (squares - sum * sum / values) / (values - 1);
    }
    const std::vector<nn::NamedVariable> state = model.net->state_dict();
    const auto value = [&](const std::string& name) {
      for (const nn::NamedVariable& v : state) {
        if (v.name.find(name) != std::string::npos) return static_cast<double>(v.variable.array().data<float>()[c]);
      }
      return std::nan("");
    };
    EXPECT_NEAR(value("running_mean"), 0.1 * mean, 1e-6);
    EXPECT_NEAR(value("running_var"), 0.9 + 0.1 * variance, 1e-6);
  }
}

TEST(TrainStep, AShardWithoutSamplesCountsForNothing) {
  const Array x = random_images({6, 1, 28, 28}), y = labels(6);
  const auto weights_of = [&](const std::vector<int64_t>& sizes) {
    const DeviceScope on("cpu");
    seed(3);
    const models::Model model = smooth_net();
    model.net->train();
    optim::SGD sgd(model.net->parameters(), {.lr = 0.1});
    TrainStep step(model, sgd, nullptr, {.sharding = {.shards = static_cast<int64_t>(sizes.size()), .batch_size = 6}},
                   {});
    int64_t first = 0, counted = 0;
    for (const int64_t n : sizes) {
      step.add_shard({batch_rows(x, first, n), batch_rows(y, first, n), n});
      first += n;
    }
    step.finish_shards(counted);
    EXPECT_EQ(counted, first);
    return model.net->parameters()[0].array().to_vector<float>();
  };
  const std::vector<float> two = weights_of({3, 3}), three = weights_of({3, 0, 3}), none = weights_of({0, 0});
  for (size_t i = 0; i < two.size(); ++i) EXPECT_NEAR(two[i], three[i], 1e-7);
  EXPECT_NE(two, none);
}

TEST(TrainStep, PartsNeedLessMemoryForTheSameWork) {
  const auto resnet = [] { return models::create("resnet20"); };
  const Trained whole = trained(resnet, 1), cut = trained(resnet, 4);
  EXPECT_LT(cut.summary.arena_bytes, whole.summary.arena_bytes / 3);
  EXPECT_NEAR(cut.summary.flops / whole.summary.flops, 1.0, 0.02);
}

// 9 samples in 4 parts were three of 3, and 10 were 3, 3, 3 and 1, which BatchNorm refused.
TEST(TrainStep, PartsDifferByAtMostOneSample) {
  const DeviceScope on("cpu");
  const models::Model model = smooth_net();
  model.net->train();
  optim::SGD sgd(model.net->parameters(), {.lr = 0.05});
  TrainStep step(model, sgd, nullptr, {.parts = 4}, {});
  const auto parts_of = [&](int64_t count) {
    const Array x = random_images({count, 1, 28, 28}), y = labels(count);
    std::vector<std::string> parts;
    for (const TrainStep::Run& run : step.plans({x.dtype(), x.shape()}, {y.dtype(), y.shape()})) {
      const Graph& g = run.plan->graph();
      const std::vector<Value> inputs = g.leaves(Op::input);
      if (inputs.size() == 3) parts.push_back(cat(run.times, " x ", g.type(inputs[0]).shape[0]));
    }
    std::sort(parts.begin(), parts.end());
    EXPECT_TRUE(std::isfinite(step.run(x, y).loss)) << count;
    return join(parts, ", ");
  };
  EXPECT_EQ(parts_of(8), "4 x 2");
  EXPECT_EQ(parts_of(9), "1 x 3, 3 x 2");
  EXPECT_EQ(parts_of(10), "2 x 2, 2 x 3");
  EXPECT_EQ(parts_of(3), "3 x 1");
  const Type x{DType::f32, {10, 1, 28, 28}}, y{DType::i64, {10}};
  EXPECT_EQ(step.part_of(10), 3);
  EXPECT_EQ(step.trainable(x, y), 10);
}

TEST(TrainStep, ALossThatIsNotFiniteLeavesTheModelAsItWas) {
  const DeviceScope on("cpu");
  for (const int64_t parts : {1, 3}) {
    seed(3);
    const models::Model model = smooth_net();
    model.net->train();
    optim::SGD sgd(model.net->parameters(), {.lr = 0.1});
    TrainStep step(model, sgd, nullptr, {.parts = parts}, {});
    Array x = random_images({6, 1, 28, 28});
    x.data<float>()[5 * 784 + 3] = NAN;  // in the last part
    const Array before = model.net->parameters()[0].array().clone();
    EXPECT_FALSE(std::isfinite(step.run(x, labels(6)).loss));
    EXPECT_EQ(model.net->parameters()[0].array().to_vector<float>(), before.to_vector<float>());
    EXPECT_NE(step.first_nonfinite(x, labels(6)).find("0 (conv"), std::string::npos)
        << step.first_nonfinite(x, labels(6));
  }
}

// ---- mixed precision ----

std::vector<float> all_values(const std::vector<nn::NamedVariable>& list) {
  std::vector<float> out;
  for (const nn::NamedVariable& v : list) {
    const std::vector<float> more = v.variable.array().to_vector<float>();
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

models::Model small_conv_net() {
  return models::from_spec(R"({"format": "freight-model-1", "name": "small", "input": [1, 8, 8], "net": [
      {"type": "Conv2d", "out": 4, "kernel": 3}, {"type": "BatchNorm2d"}, {"type": "ReLU"},
      {"type": "Flatten"}, {"type": "Linear", "out": 10}]})");
}

// A small net with all that a step changes: weights, statistics, moments, averages.
struct Small {
  models::Model model;
  optim::AdamW optimizer;
  optim::EMA ema;
  TrainStep step;
  Array x = random_images({8, 1, 8, 8}), y = labels(8);

  Small(const std::string& backend, DType compute, const StepOptions& options = {})
      : model(made()),
        optimizer(model.net->parameters(), {.lr = 0.01, .weight_decay = 0.1}),
        ema(*model.net, {.decay = 0.9}),
        step(model, optimizer, &ema, options, {.backend = backend, .deterministic = true, .compute = compute}) {}
  static models::Model made() {
    seed(4);
    models::Model m = small_conv_net();
    m.net->train();
    return m;
  }
  std::vector<float> state() const {
    std::vector<float> all;
    for (const auto& list : {model.net->state_dict(), optimizer.state_dict(), ema.state_dict()}) {
      const std::vector<float> more = all_values(list);
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }
};

TEST(LossScaling, AStepWithInfiniteGradientsChangesNothingAndHalvesTheFactor) {
  // A factor of 2^60 overflows f16 in the first gradient; the loss itself stays finite.
  Small s("ref", DType::f16, {.loss_scale = {.initial = 0x1p60, .growth_interval = 3}});
  const std::vector<float> before = s.state();
  for (int i = 1; i <= 3; ++i) {
    EXPECT_TRUE(std::isfinite(s.step.run(s.x, s.y).loss));
    EXPECT_EQ(s.state(), before);
    EXPECT_EQ(s.step.loss_scale()->factor(), std::ldexp(1.0, 60 - i));
    EXPECT_EQ(s.step.loss_scale()->good_steps(), 0);
  }
}

TEST(LossScaling, TheFactorDoublesAfterEnoughGoodStepsAndNotBefore) {
  Small s("ref", DType::f16, {.loss_scale = {.initial = 64, .growth_interval = 3}});
  std::vector<float> last = s.state();
  const double factors[] = {64, 64, 128, 128, 128, 256};
  const int64_t good[] = {1, 2, 0, 1, 2, 0};
  for (int i = 0; i < 6; ++i) {
    s.step.run(s.x, s.y);
    EXPECT_EQ(s.step.loss_scale()->factor(), factors[i]) << i;
    EXPECT_EQ(s.step.loss_scale()->good_steps(), good[i]) << i;
    EXPECT_NE(s.state(), last);
    last = s.state();
  }
}

TEST(LossScaling, OnePartThatOverflowsSkipsTheWholeBatch) {
  Small s("ref", DType::f16, {.parts = 2, .loss_scale = {.initial = 0x1p60, .growth_interval = 3}});
  const auto weights = [&] {
    std::vector<float> all;
    for (const Variable& p : s.model.net->parameters()) {
      const std::vector<float> more = p.array().to_vector<float>();
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  };
  const std::vector<float> before = weights();
  s.step.run(s.x, s.y);
  EXPECT_EQ(weights(), before);
  EXPECT_EQ(s.step.loss_scale()->factor(), 0x1p59);
  // The accumulators are empty again: good steps follow once the factor fits.
  Small t("ref", DType::f16, {.parts = 2, .loss_scale = {.initial = 0x1p20, .growth_interval = 100}});
  const double first = t.step.run(t.x, t.y).loss;
  double loss = first;
  for (int i = 0; i < 25; ++i) loss = t.step.run(t.x, t.y).loss;
  EXPECT_LT(loss, 0.6 * first);
}

// Adds 0 in a way that has no finite derivative.
class Cliff : public nn::Module {
 public:
  Cliff() : fc_(add<nn::Linear>("fc", 64, 10)) {}
  Tensor forward(const Tensor& x) override {
    const Tensor y = fc_(reshape(x, {x.dim(0), 64}));
    return y + sqrt(abs(y) * 0.0);
  }

 private:
  nn::Linear& fc_;
};

TEST(LossScaling, GradientsThatNoFactorMakesFiniteEndTheRun) {
  const DeviceScope on("cpu");
  const models::Model model{"cliff", {DType::f32, {1, 8, 8}}, std::make_shared<Cliff>()};
  optim::SGD sgd(model.net->parameters(), {.lr = 0.1});
  TrainStep step(model, sgd, nullptr, {.loss_scale = {.initial = 0x1p-18}}, {.backend = "ref", .compute = DType::f16});
  const Array x = random_images({8, 1, 8, 8}), y = labels(8);
  EXPECT_TRUE(std::isfinite(step.run(x, y).loss));
  try {
    step.run(x, y);
    FAIL() << "trained on";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::diverged);
    EXPECT_NE(std::string(e.what()).find("expected more than"), std::string::npos) << e.what();
  }
}

TEST(MixedPrecision, TrainingFollowsThatInF32) {
  Small f32("ref", DType::f32);
  std::vector<double> expected;
  for (int i = 0; i < 40; ++i) expected.push_back(f32.step.run(f32.x, f32.y).loss);
  EXPECT_LT(expected.back(), 0.3 * expected.front());
  EXPECT_EQ(f32.step.loss_scale(), nullptr);
  for (const auto& [backend, compute] : {std::pair{"ref", DType::f16}, {"ref", DType::bf16}, {"cpu", DType::bf16}}) {
    SCOPED_TRACE(cat(backend, " ", compute));
    Small low(backend, compute);
    double worst = 0;
    for (const double e : expected) worst = std::max(worst, std::fabs(low.step.run(low.x, low.y).loss - e));
    EXPECT_LT(worst, compute == DType::f16 ? 0.01 : 0.08);
    EXPECT_GT(worst, 0);
    EXPECT_EQ(low.step.loss_scale() != nullptr, compute == DType::f16);
    for (const nn::NamedVariable& v : low.model.net->state_dict()) EXPECT_EQ(v.variable.type().dtype, DType::f32);
  }
}

models::Model net_of_rows() {
  return models::from_spec(R"({"format": "freight-model-1", "name": "rows", "input": [6], "net": [
      {"type": "Linear", "out": 5}, {"type": "BatchNorm1d"}, {"type": "Linear", "out": 2}]})");
}

TEST(TrainStep, BatchNormOfOneValuePerChannelIsRefusedWhereItWouldTrain) {
  const DeviceScope on("cpu");
  const models::Model model = net_of_rows();
  model.net->train();
  optim::SGD sgd(model.net->parameters(), {.lr = 0.05});
  const auto run = [&](int64_t samples, int64_t parts) {
    TrainStep step(model, sgd, nullptr, {.parts = parts}, {});
    const Array x = random_images({samples, 6}), y(DType::i64, {samples});
    const Type of_x{x.dtype(), x.shape()}, of_y{y.dtype(), y.shape()};
    step.summary(of_x, of_y);  // a single sample may be planned
    const std::string told = testing::message_of([&] { step.need_batch_statistics(of_x, of_y); });
    EXPECT_EQ(told, testing::message_of([&] { step.run(x, y); }));
    return told;
  };
  const std::string refused = run(1, 1);
  EXPECT_NE(
      refused.find(
          "one value per channel has no variance to train with: expected more than one sample or place, got f32[1,5]"),
      std::string::npos)
      << refused;
  EXPECT_EQ(run(4, 4), refused);
  EXPECT_EQ(run(6, 3), "no error");
  EXPECT_EQ(run(2, 1), "no error");
  for (const nn::NamedVariable& v : model.net->state_dict())
    EXPECT_EQ(count_nonfinite(v.variable.array()), 0) << v.name;
}

// A batch from which samples were left out is cut, not refused in the middle of a run.
TEST(TrainStep, TellsHowManySamplesOfAShortBatchCanBeTrainedOn) {
  const DeviceScope on("cpu");
  const models::Model model = net_of_rows();
  model.net->train();
  optim::SGD sgd(model.net->parameters(), {.lr = 0.05});
  const auto of = [&](int64_t samples, int64_t parts) {
    TrainStep step(model, sgd, nullptr, {.parts = parts}, {});
    return step.trainable({DType::f32, {samples, 6}}, {DType::i64, {samples}});
  };
  EXPECT_EQ(of(16, 8), 16);
  EXPECT_EQ(of(31, 8), 31);  // parts of 3 and 4
  EXPECT_EQ(of(15, 8), 0);   // parts of 2 and one of 1, as of shards
  EXPECT_EQ(of(9, 8), 0);
  EXPECT_EQ(of(3, 1), 3);
  EXPECT_EQ(of(1, 1), 0);
}

TEST(TrainStep, BatchNormOfOneValuePerChannelIsRefusedByEagerCode) {
  const DeviceScope on("cpu");
  const Tensor x = Tensor::of<float>({1, 2, 3}, {1, 3}), ones = Tensor::of<float>({1, 1, 1}, {3});
  EXPECT_NE(testing::message_of([&] { batch_norm(x, ones, ones).y.array(); }).find("one value per channel"),
            std::string::npos);
  EXPECT_EQ((x + ones).to_vector<float>(), (std::vector<float>{2, 3, 4}));
}

}  // namespace
}  // namespace freight::train
