// A program's own net, data, loss and metric in a run that is recorded, stopped and resumed as the command's are.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "freight/nn/nn.h"
#include "freight/ops/ops.h"
#include "freight/plan/fitting.h"
#include "freight/train/trainer.h"
#include "tests/support/files.h"

namespace freight::train {
namespace {

using freight::testing::expect_error;
using freight::testing::read_text;
using freight::testing::TemporaryDir;

// A class that nobody declares. (N, 2) to (N, 1).
class Wave : public nn::Module {
 public:
  Wave() : in_(&add<nn::Linear>("in", 2, 16)), out_(&add<nn::Linear>("out", 16, 1)) {
    phase_ = parameter("phase", {16}, nn::init::uniform(0, 3));
  }
  Tensor forward(const Tensor& x) override { return (*out_)(sin((*in_)(x) + phase_)); }

 private:
  nn::Linear *in_, *out_;
  Variable phase_;
};

models::Model wave() {
  return {.name = "wave", .input = {DType::f32, {2}}, .net = std::make_shared<Wave>(), .loss = models::Loss::mse};
}

data::Dataset points(int64_t n, int64_t from) {
  std::vector<float> x, y;
  for (int64_t i = from; i < from + n; ++i) {
    const float a = std::sin(static_cast<float>(i)), b = std::cos(static_cast<float>(3 * i));
    x.insert(x.end(), {a, b});
    y.push_back(a * b + 0.5f * a);
  }
  data::Dataset set;
  set.name = "points";
  set.images = Array::of(x, {n, 2});
  set.labels = Array::of(y, {n});
  return set;
}

// |outputs - y| of each sample.
Tensor distance(const Tensor& outputs, const Tensor& y) { return abs(reshape(outputs, {outputs.dim(0)}) - y); }

class OwnRun : public ::testing::Test {
 protected:
  OwnRun() {
    seed(3);
    config_.batch_size = 16;
    config_.epochs = 4;
    config_.lr = 0.02;
    config_.optimizer = "adam";
    config_.deterministic = true;
    config_.output_dir = dir_ / "run";
  }
  static PrepareOptions own(models::Model model) {
    return {.source = data::Source(data::TrainTest{points(96, 0), points(40, 1000)}),
            .own = {.model = std::move(model)}};
  }
  // The samples of `own` as feeds.
  static PrepareOptions fed(models::Model model) {
    const auto feed = [](int64_t n, int64_t from, bool drop_last) {
      return [=](int64_t batch) {
        const auto make = [=](int64_t epoch, int64_t i) {
          const data::Dataset one = points(1, from + (i + 5 * epoch) % n);
          return data::MadeSample{one.images.reshaped({2}), one.labels.reshaped({})};
        };
        return data::made_feed(make, {.count = n, .batch_size = batch, .drop_last = drop_last});
      };
    };
    return {.own = {.model = std::move(model), .feeds = Feeds{feed(96, 0, true), feed(40, 1000, false), "made"}}};
  }
  Result run(Observer& observer, PrepareOptions what) { return train(config_, observer, std::move(what)); }
  Result run(PrepareOptions what) {
    Observer silent;
    return run(silent, std::move(what));
  }
  nlohmann::json record() const { return nlohmann::json::parse(read_text(config_.output_dir + "/run.json")); }

  TemporaryDir dir_;
  Config config_;
};

std::vector<float> weights(const models::Model& m) {
  std::vector<float> all;
  for (const nn::NamedVariable& v : m.net->state_dict()) {
    const auto one = v.variable.array().to_vector<float>();
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

// Another net with the same values.
models::Model again_from(const models::Model& model) {
  models::Model other = wave();
  other.net->load_state_dict(model.net->state_dict());
  return other;
}

TEST_F(OwnRun, ANetAndDataOfOnesOwnAreTrainedAndRecorded) {
  const models::Model model = wave();
  const std::vector<float> before = weights(model);
  const Result r = run(own(model));
  EXPECT_EQ(r.steps, 24);
  EXPECT_EQ(r.ended, Ended::complete);
  EXPECT_NE(weights(model), before);  // it is the net itself that has learnt
  // The loss of the test is that of the net as it is now.
  const data::Dataset test = points(40, 1000);
  const Tensor error = mse_loss((*model.net)(test.images), Tensor(test.labels.reshaped({40, 1})));
  EXPECT_NEAR(r.test.loss, static_cast<double>(error.item<float>()), 1e-6);
  EXPECT_FALSE(r.test.top1);
  EXPECT_EQ(record().at("data").at("name"), "points");
  EXPECT_EQ(record().at("status"), "complete");
  EXPECT_NE(read_text(dir_ / "run/log.txt").find("are not declared"), std::string::npos);
  // What is stored is its graph, with its weights.
  const store::Bundle stored = store::load_bundle(r.model_path);
  EXPECT_EQ(stored.model.net->config().type, "GraphModule");
  EXPECT_EQ((*stored.model.net)(test.images).to_vector<float>(), (*model.net)(test.images).to_vector<float>());
  models::Model again = wave();
  store::load_weights(again, r.model_path);
  EXPECT_EQ(weights(again), weights(model));
}

// The observer is shown the weights of each checkpoint: their averages, which the recorded run stores.
TEST_F(OwnRun, OneThatIsNotRecordedWritesNothingAndShowsItsWeightsAllTheSame) {
  struct Shown : Observer {
    void on_checkpoint(const models::Model& model) override { all.push_back(weights(model)); }
    std::vector<std::vector<float>> all;
  } recorded, alone;
  config_.model_ema = 0.9;
  const auto started = [] {
    seed(3);
    return own(wave());
  };
  const Result r = run(recorded, started());
  ASSERT_EQ(recorded.all.size(), 4u);
  models::Model stored = wave();
  store::load_weights(stored, r.model_path);
  EXPECT_EQ(recorded.all.back(), weights(stored));

  config_.output_dir.clear();
  const size_t entries = dir_.entries();
  PrepareOptions what = started();
  what.recorded = false;
  const models::Model trained = *what.own.model;
  const Result other = train(config_, alone, std::move(what));
  EXPECT_EQ(alone.all, recorded.all);
  EXPECT_NE(weights(trained), alone.all.back()) << "the network itself keeps the weights of the last step";
  EXPECT_EQ(other.test.loss, r.test.loss);
  EXPECT_EQ(other.model_path, "");
  EXPECT_EQ(dir_.entries(), entries);
  EXPECT_FALSE(std::filesystem::exists("runs/wave-points"));
}

TEST_F(OwnRun, ItsLossAndMetricAreMeansOverTheSamplesWhateverTheBatches) {
  models::Model model = wave();
  model.own = {.loss = [](const Tensor& o, const Tensor& y) { return square(distance(o, y)) + distance(o, y); },
               .metric = distance,
               .metric_name = "distance",
               .higher_is_better = false};
  const Result r = run(own(model));
  const data::Dataset test = points(40, 1000);
  const std::vector<float> far = distance((*model.net)(test.images), test.labels).to_vector<float>();
  double loss = 0, metric = 0;
  for (const float d : far) {
    metric += static_cast<double>(d) / 40;
    loss += (static_cast<double>(d) * static_cast<double>(d) + static_cast<double>(d)) / 40;
  }
  ASSERT_TRUE(r.test.metric);
  EXPECT_NEAR(*r.test.metric, metric, 1e-6);
  EXPECT_NEAR(r.test.loss, loss, 1e-6);
  EXPECT_NEAR(record().at("result").at("test_distance").get<double>(), metric, 1e-6);
  int rows = 0;
  for (const std::string& line : split(read_text(dir_ / "run/metrics.jsonl"), '\n')) {
    if (!line.empty()) rows += nlohmann::json::parse(line).at("distance").is_number();
  }
  EXPECT_EQ(rows, 8);  // of training and of the test, each epoch
  // A loss that gives the mean itself, and batches of which the last is smaller.
  models::Model mean_of = model;
  mean_of.own.loss = [](const Tensor& o, const Tensor& y) { return mean(square(distance(o, y)) + distance(o, y)); };
  for (models::Model* one : {&model, &mean_of}) {
    Evaluator evaluator(*one, {.deterministic = true}, 7);
    const Evaluation e = evaluator.run(test);
    EXPECT_EQ(e.count, 40);
    EXPECT_NEAR(e.loss, loss, 1e-6);
    EXPECT_NEAR(e.metric.value_or(0), metric, 1e-6);
  }
}

TEST_F(OwnRun, TheEpochThatIsBestByTheOwnMetricOrByTheLossIsStored) {
  std::vector<int64_t> best;
  for (const std::string judge : {"own", "loss"}) {
    seed(3);
    models::Model model = wave();
    // A distance that falls with the loss, and counts as the better the larger it is.
    model.own = {.metric = distance, .metric_name = "distance", .higher_is_better = true};
    config_.metric = judge;
    config_.output_dir = dir_ / judge;
    const Result r = run(own(model));
    EXPECT_EQ(r.best_by, judge == "own" ? "distance" : "loss");
    EXPECT_EQ(r.epochs, 4);
    best.push_back(r.best_epoch);
  }
  EXPECT_EQ(best, (std::vector<int64_t>{1, 4}));
  config_.output_dir = dir_ / "without";
  config_.metric = "own";
  expect_error(ErrorKind::usage, {"--metric", "own", "has no metric of its own"}, [&] { run(own(wave())); });
  config_.metric = "loss";
  PrepareOptions alone = own(wave());
  alone.source = data::Source(data::TrainTest{points(96, 0), points(0, 0)});
  expect_error(ErrorKind::usage, {"--metric loss", "needs a validation set"}, [&] { run(std::move(alone)); });
}

// Six steps of SGD with momentum on log(cosh(outputs - y)), which no loss of the library is; figures of PyTorch 2 in
// f64.
TEST_F(OwnRun, AMetricThatTheProgramComputesBehindEvaluationsSaysWhichEpochIsTheBest) {
  models::Model model = wave();
  int64_t evaluations = 0, observed = 0;
  model.own.metric_name = "given";
  model.own.observe = [&](const Tensor&, const Tensor&) { ++observed; };
  model.own.evaluated = [&] {
    return std::optional<double>(++evaluations == 2 ? 5 : 1.0 / static_cast<double>(evaluations));
  };
  config_.metric = "own";
  const Result result = run(own(model));
  EXPECT_EQ(result.best_epoch, 2);
  EXPECT_EQ(result.best_by, "given");
  EXPECT_EQ(result.test.metric, 5);
  EXPECT_GE(evaluations, 4);
  EXPECT_GT(observed, 0);
  EXPECT_NE(read_text(config_.output_dir + "/metrics.jsonl").find("\"given\":5.0"), std::string::npos);
  model.own.metric_name.clear();
  config_.output_dir = dir_ / "none";
  expect_error(ErrorKind::usage, {"--metric", "no metric of its own"}, [&] { run(own(model)); });
}

TEST_F(OwnRun, ALossOfOnesOwnIsDescendedAsPyTorchDescendsIt) {
  data::Dataset set;
  set.name = "eight";
  set.images = Array::of<float>({0.5, -1, 1.5, 0.25, -0.75, 2, 0, 1, 2, -0.5, -1.25, -1, 0.25, 0.75, 1, -2}, {8, 2});
  set.labels = Array::of<float>({1, -0.5, 2, 0.25, -1, 0.5, 0, 1.5}, {8});
  const auto net = std::make_shared<nn::Linear>(2, 1);
  net->weight.set(Array::of<float>({0.3f, -0.2f}, {1, 2}));
  net->bias.set(Array::of<float>({0.1f}, {1}));
  models::Model model{.name = "line", .input = {DType::f32, {2}}, .net = net, .loss = models::Loss::mse};
  model.own.loss = [](const Tensor& o, const Tensor& y) {
    const Tensor d = distance(o, y);
    return d + log1p(exp(d * -2.0)) - std::log(2.0);  // log(cosh(d))
  };
  model.own.metric = distance;
  config_.optimizer = "sgd";
  config_.momentum = 0.9;
  config_.lr = 0.1;
  config_.batch_size = 8;
  config_.epochs = 6;
  const Result r = run({.source = data::Source(data::TrainTest{set, set}), .own = {.model = model}});
  const std::vector<float> got = weights(model);
  ASSERT_EQ(got.size(), 3u);
  const double want[] = {-0.380572594, -0.135809483, 0.357910822};
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(got[i], want[i], 2e-6) << i;
  EXPECT_NEAR(r.train_loss, 0.301032958, 1e-6);
  EXPECT_NEAR(r.test.loss, 0.274051129, 1e-6);
  EXPECT_NEAR(r.test.metric.value_or(0), 0.643987838, 1e-6);
}

TEST_F(OwnRun, PartsOfABatchHaveTheGradientsOfTheWhole) {
  config_.optimizer = "sgd";
  std::vector<std::vector<float>> after;
  models::Model model = wave();
  const std::vector<float> start = weights(model);
  for (const int64_t parts : {1, 3}) {
    models::Model m = wave();
    const std::vector<nn::NamedVariable> from = model.net->state_dict(), to = m.net->state_dict();
    for (size_t i = 0; i < to.size(); ++i) to[i].variable.set(from[i].variable.array());
    m.own.loss = distance;
    config_.grad_accum = parts;
    config_.output_dir = dir_ / cat("parts-", parts);
    run(own(m));
    after.push_back(weights(m));
  }
  double most = 0, moved = 0;
  for (size_t i = 0; i < start.size(); ++i) {
    most = std::max(most, std::fabs(static_cast<double>(after[0][i]) - static_cast<double>(after[1][i])));
    moved = std::max(moved, std::fabs(static_cast<double>(after[0][i]) - static_cast<double>(start[i])));
  }
  EXPECT_GT(moved, 0.01);
  EXPECT_LT(most, 1e-5);
}

// Of feeds, of a data set: stopped by the observer in the midst of an epoch and gone on with in another process, which
// makes its own net, a run ends with the weights of the one that was never stopped.
TEST_F(OwnRun, OneThatTheObserverStopsGoesOnToTheSameWeights) {
  struct Stopper : Observer {  // on_step alone: it is called for every step
    AfterStep on_step(const StepReport& r) override { return {.stop = r.total_step == 9, .lr = {}}; }
  };
  for (const auto make : {&OwnRun::own, &OwnRun::fed}) {
    const std::string name = make == &OwnRun::own ? "set" : "feeds";
    SCOPED_TRACE(name);
    const auto fresh = [] {
      seed(11);
      models::Model m = wave();
      m.own.loss = distance;
      return m;
    };
    const models::Model whole = fresh(), begun = fresh(), rest = fresh();
    config_.resume.clear();
    config_.output_dir = dir_ / (name + "-whole");
    EXPECT_EQ(run(make(whole)).ended, Ended::complete);
    config_.output_dir = dir_ / (name + "-parts");
    Stopper stopper;
    PreparedRun first = prepare(config_, make(begun));  // lives on: the directory is free all the same
    const Result part = first.run(stopper);
    EXPECT_EQ(part.ended, Ended::by_observer);
    EXPECT_TRUE(part.interrupted());
    EXPECT_EQ(part.steps, 9);
    EXPECT_EQ(record().at("status"), "interrupted");
    config_.resume = "auto";
    EXPECT_EQ(run(make(rest)).ended, Ended::complete);
    EXPECT_EQ(weights(rest), weights(whole));
    EXPECT_EQ(run(make(fresh())).ended, Ended::nothing_left);
  }
}

TEST_F(OwnRun, OneThatFrozeParametersMidwayGoesOnToTheSameWeights) {
  // The first layer is left alone from step 5 on.
  struct Freezing : Observer {
    Freezing(const models::Model& m, int64_t begin, int64_t end) : model(m), first(begin), last(end) {}
    void on_start(const RunSummary&) override {
      if (first == 0) freeze();
    }
    AfterStep on_step(const StepReport& r) override {
      if (r.total_step == first) freeze();
      return {.stop = r.total_step == last, .lr = {}};
    }
    void freeze() { model.net->parameters()[0].set_trainable(false); }
    models::Model model;
    int64_t first, last;
  };
  const auto fresh = [] {
    seed(11);
    return wave();
  };
  const models::Model whole = fresh(), begun = fresh(), rest = fresh();
  config_.output_dir = dir_ / "whole";
  Freezing at_once(whole, 5, 1000);
  run(at_once, own(whole));
  config_.output_dir = dir_ / "parts";
  Freezing part(begun, 5, 9);
  run(part, own(begun));
  config_.resume = "auto";
  Freezing frozen(rest, 0, 1000);
  run(frozen, own(rest));
  EXPECT_EQ(weights(rest), weights(whole));
}

TEST_F(OwnRun, OneThatCannotGoOnLeavesTheNetAsItWas) {
  run(own(wave()));
  config_.resume = "auto";
  config_.epochs = 5;
  const models::Model model = wave();
  const std::vector<float> before = weights(model);
  config_.optimizer = "sgd";
  EXPECT_THROW(run(own(model)), Error);
  EXPECT_EQ(weights(model), before);
}

TEST_F(OwnRun, OneIsPlannedBeforeItRuns) {
  const models::Model model = wave();
  const std::vector<float> before = weights(model);
  PreparedRun prepared = prepare(config_, own(model));
  EXPECT_GT(prepared.summary().planned_bytes, 0u);
  EXPECT_TRUE(plan::check_fit(prepared.planned(), {.device = 1e9, .host = 0}).fits);
  EXPECT_FALSE(plan::check_fit(prepared.planned(), {.device = 1000, .host = 0}).fits);
  EXPECT_EQ(weights(model), before);
  EXPECT_FALSE(std::filesystem::exists(config_.output_dir));
}

TEST_F(OwnRun, OneIsFittedToTheMemoryAsTheCommandsRunsAre) {
  constexpr int64_t kSamples = 48000;  // so many that their activations outweigh what any process takes
  config_.batch_size = kSamples;
  std::vector<std::string> heard;
  const auto fitted = [&](double bytes, plan::FitOptions::IfTooLarge if_too_large) {
    config_.output_dir = dir_ / cat("fitted-", bytes);
    train::Config c = config_;
    return plan::prepare_fitting(
        c, {.if_too_large = if_too_large, .device_memory = bytes},
        {.source = data::Source(data::TrainTest{points(kSamples, 0), points(40, 1000)}), .own = {.model = wave()}},
        [&](const std::string& text) { heard.push_back(text); });
  };
  using IfTooLarge = plan::FitOptions::IfTooLarge;
  const plan::FittedRun whole = fitted(1e9, IfTooLarge::refuse);
  const double needed = whole.outcome.planned_bytes;
  EXPECT_EQ(whole.run.summary().planned_bytes, static_cast<size_t>(needed));
  EXPECT_TRUE(heard.empty());
  // The process takes its part whatever the batch.
  const double less = needed - 0.1 * (needed - static_cast<double>(whole.step_plan->part(plan::Part::process)));
  expect_error(ErrorKind::capacity, {"does not fit", "would fit, with"}, [&] { fitted(less, IfTooLarge::refuse); });
  plan::FittedRun adapted = fitted(less, IfTooLarge::adapt);
  EXPECT_FALSE(heard.empty());
  EXPECT_LE(adapted.outcome.planned_bytes, less);
  Observer silent;
  EXPECT_EQ(adapted.run.run(silent).ended, Ended::complete);
}

TEST_F(OwnRun, OneThatStopsBeforeItsFirstEvaluationHasNoTestLoss) {
  struct AtOnce : Observer {
    AfterStep on_step(const StepReport&) override { return {.stop = true, .lr = {}}; }
  } stop;
  run(stop, own(wave()));
  EXPECT_TRUE(record().at("result").at("test_loss").is_null());
  models::Model none = wave();
  none.net = nullptr;
  config_.output_dir = dir_ / "none";
  expect_error(ErrorKind::usage, {"own.model", "has no network"}, [&] { run(own(none)); });
}

TEST_F(OwnRun, AChangeOfThePlanSetsTheConfigurationAndIsPrintedAsFlags) {
  plan::PlanChange change{.grad_accum = 4, .recompute = Recompute::automatic, .save_in_place = true};
  EXPECT_EQ(change.flags(), "--grad-accum 4 --recompute auto --save-in-place");
  const train::Config before = config_;
  change.apply(config_);
  EXPECT_EQ(config_.grad_accum, 4);
  EXPECT_TRUE(config_.save_in_place);
  EXPECT_EQ(config_.recompute, "auto");
  EXPECT_EQ(config_.batch_size, before.batch_size);
  EXPECT_EQ(config_.offload, before.offload);
  EXPECT_FALSE(plan::PlanChange().any());
}

TEST_F(OwnRun, ADeclaredNetIsAModel) {
  models::Model model = wave();
  model.net = std::make_shared<nn::Sequential>(nn::Linear(2, 8), nn::Tanh(), nn::Linear(8, 1));
  const Result r = run(fed(model));
  store::Bundle b = store::load_bundle(r.model_path);
  EXPECT_EQ(b.model.name, "wave");
  EXPECT_EQ(weights(b.model), weights(model));
}

TEST_F(OwnRun, ClassesWithoutNamesAreNumbered) {
  models::Model model{
      .name = "signs", .input = {DType::f32, {2}}, .net = std::make_shared<nn::Sequential>(nn::Linear(2, 3))};
  data::TrainTest sets{points(96, 0), points(40, 1000)};
  const auto what = [&] { return PrepareOptions{.source = data::Source(sets), .own = {.model = model}}; };
  for (data::Dataset* set : {&sets.train, &sets.test}) {
    std::vector<int64_t> labels;
    for (const float y : set->labels.to_vector<float>()) labels.push_back(y < -0.2f ? 0 : y < 0.2f ? 1 : 2);
    set->labels = Array::of(labels, {set->count()});
  }
  const Result r = run(what());
  EXPECT_TRUE(r.test.top1);
  EXPECT_EQ(store::load_bundle(r.model_path).classes, (std::vector<std::string>{"0", "1", "2"}));
  sets.test.labels.data<int64_t>()[7] = -1;
  config_.output_dir = dir_ / "bad";
  expect_error(ErrorKind::data, {"points, test set, labels", "sample 7 has -1", "0 to 2"}, [&] { run(what()); });
}

// Weights are those of a run that measures the same training: evaluations change nothing.
TEST_F(OwnRun, WithoutHeldOutSamplesNothingIsEvaluated) {
  const auto run_without_test = [&](PrepareOptions what) {
    if (what.own.feeds) {
      what.own.feeds->test = nullptr;
    } else {
      what.source = data::Source(data::TrainTest{points(96, 0), points(40, 1000).slice(0, 0)});
    }
    return run(std::move(what));
  };
  for (const bool feeds : {false, true}) {
    seed(3);
    const models::Model measured = wave(), alone = again_from(measured);
    config_.output_dir = dir_ / (feeds ? "fed" : "own");
    const auto given = [&](const models::Model& model) { return feeds ? fed(model) : own(model); };
    run(given(measured));
    config_.output_dir += "-alone";
    const Result r = run_without_test(given(alone));
    EXPECT_EQ(r.ended, Ended::complete);
    EXPECT_EQ(r.test.count, 0);
    EXPECT_EQ(weights(alone), weights(measured));
    EXPECT_EQ(read_text(config_.output_dir + "/metrics.jsonl").find("\"test\""), std::string::npos);
    config_.early_stop = 2;
    config_.output_dir += "-early";
    expect_error(ErrorKind::usage, {"--early-stop", "needs a validation set"}, [&] { run_without_test(given(alone)); });
    config_.early_stop = Config().early_stop;
    config_.metric = "mae";
    expect_error(ErrorKind::usage, {"--metric", "needs a validation set"}, [&] { run_without_test(given(alone)); });
    config_.metric = Config().metric;
  }
}

TEST_F(OwnRun, WhatDoesNotFitIsToldBeforeAnythingIsWritten) {
  const auto refused = [&](PrepareOptions what, const std::vector<std::string>& parts) {
    expect_error(ErrorKind::usage, parts, [&] { run(std::move(what)); });
    EXPECT_FALSE(std::filesystem::exists(config_.output_dir));
  };
  models::Model wide = wave();
  wide.input.shape = {3};
  refused(own(wide), {"model wave does not fit", "samples [3], got [2]"});
  refused(fed(wide), {"made, train", "f32[16,2]", "f32[16,3]"});
  PrepareOptions no_model = fed(wave());
  no_model.own.model.reset();
  refused(no_model, {"Own::model is empty"});
  PrepareOptions no_train = fed(wave());
  no_train.own.feeds->train = nullptr;
  refused(no_train, {"made has no feed for training"});
  PrepareOptions both = fed(wave());
  both.source = own(wave()).source;
  refused(both, {"a dataset and custom feeds"});

  models::Model odd = wave();
  odd.own.loss = [](const Tensor& o, const Tensor& y) { return reshape(o, {o.dim(0), 1}) - reshape(y, {y.dim(0), 1}); };
  refused(own(odd), {"the model's own loss", "got f32[16,1]", "f32[16]"});
  models::Model unsaid = wave();
  unsaid.own.loss = distance;
  unsaid.loss = models::Loss::cross_entropy;
  refused(own(unsaid), {"wave", "have no top1", "Objective::metric", "Loss::mse"});
  models::Model named = wave();
  named.own.metric = distance;
  for (const char* name : {"loss", "step", "", "a b", "top1"}) {
    named.own.metric_name = name;
    refused(own(named), {"Objective::metric_name", cat("got '", name, "'")});
  }
  config_.flip = true;
  refused(fed(wave()), {"--flip", "made makes its batches itself"});
}

TEST_F(OwnRun, UndefinedLossesAndMetricsAreNamed) {
  models::Model model = wave();
  model.own.loss = [](const Tensor&, const Tensor&) { return Tensor(); };
  expect_error(ErrorKind::usage, {"the model's own loss: returned an undefined tensor"}, [&] { run(own(model)); });
  model.own = {.metric = [](const Tensor&, const Tensor&) { return Tensor(); }};
  expect_error(ErrorKind::usage, {"the model's own metric: returned an undefined tensor"}, [&] { run(own(model)); });
}

TEST_F(OwnRun, ASampleThatIsNotFiniteIsNamedWhereItSpoilsTheLoss) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto feeds = [&](int64_t bad, bool target) {
    return [=](int64_t batch) {
      const auto make = [=](int64_t epoch, int64_t i) {
        const bool spoilt = i == bad && epoch == 0;
        return data::MadeSample{Array::of<float>({1, spoilt && !target ? nan : 2}, {2}),
                                Array::of<float>({spoilt && target ? nan : 0}, {})};
      };
      return data::made_feed(make, {.count = 48, .batch_size = batch});
    };
  };
  const auto fed_with = [&](const auto& train, const auto& test) {
    return PrepareOptions{.own = {.model = wave(), .feeds = Feeds{train, test, "made"}}};
  };
  expect_error(ErrorKind::diverged,
               {"first NaN or infinity: the input of sample 21 of epoch 0 of the custom feed: 1 of 2 elements",
                "and from it in"},
               [&] { run(fed_with(feeds(21, false), feeds(-1, false))); });
  config_.output_dir = dir_ / "target";
  expect_error(ErrorKind::diverged, {"the target of sample 5 of epoch 0 of the custom feed: 1 of 1 elements"},
               [&] { run(fed_with(feeds(5, true), feeds(-1, false))); });
  config_.output_dir = dir_ / "test";
  expect_error(ErrorKind::diverged, {"test", "the input of sample 40 of epoch 0 of the custom feed"},
               [&] { run(fed_with(feeds(-1, false), feeds(40, false))); });
}

TEST_F(OwnRun, AMetricThatIsNeverANumberIsToldAndGivesNoBest) {
  models::Model model = wave();
  model.own = {.metric = [](const Tensor& o, const Tensor& y) { return distance(o, y) / 0.0 * 0.0; },
               .metric_name = "lost"};
  run(own(model));
  const std::string log = read_text(dir_ / "run/log.txt");
  EXPECT_NE(log.find("no checkpoint is the best one: the metric 'lost' was NaN or infinite in every evaluation"),
            std::string::npos)
      << log;
  EXPECT_FALSE(std::filesystem::exists(std::string(dir_ / "run/best")));
  model.own.metric = distance;
  config_.output_dir = dir_ / "well";
  run(own(model));
  EXPECT_EQ(read_text(dir_ / "well/log.txt").find("no checkpoint is the best"), std::string::npos);
}

TEST_F(OwnRun, HooksThatTakePartInADeclaredNetAreNamedBeforeItIsTrained) {
  const auto net = std::make_shared<nn::Sequential>(nn::Linear(2, 1));
  const models::Model model{.name = "line", .input = {DType::f32, {2}}, .net = net, .loss = models::Loss::mse};
  nn::HookHandle gradients = net->on_output_gradient([](const Tensor& g, size_t) { return clamp(g, -1, 1); });
  EXPECT_EQ(run(own(model)).ended, Ended::complete);
  const nn::HookHandle hook = net->children()[0].module->on_output(
      [](const nn::Module&, const auto&, std::vector<Tensor>& out) { out[0] = out[0] * 2.0; });
  config_.output_dir = dir_ / "hooked";
  expect_error(ErrorKind::usage, {"the network 'line'", "a hook (on_output) on '0' takes part"},
               [&] { run(own(model)); });
}

}  // namespace
}  // namespace freight::train
