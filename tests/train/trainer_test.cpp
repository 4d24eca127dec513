// The training loop on a small cut of the digits: learning, evaluation, divergence, signals, and what stays on disk.
#include "freight/train/trainer.h"

#include <signal.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "freight/data/catalog.h"
#include "freight/deploy/predictor.h"
#include "freight/io/file.h"
#include "freight/io/image.h"
#include "freight/io/npy.h"
#include "freight/job/signals.h"
#include "freight/ops/ops.h"
#include "tests/support/files.h"
#include "tests/support/small_digits.h"

namespace freight::train {
namespace {

using freight::testing::expect_error;
using freight::testing::read_text;
using freight::testing::TemporaryDir;

class Training : public ::testing::Test {
 protected:
  Training() {
    test::write_small_digits(dir_.path());
    config_ = recipe(dir_.path());
    config_.model = "mlp";
    config_.epochs = 3;
    config_.deterministic = true;
    config_.output_dir = dir_ / "run";
  }
  Result run() {
    Observer silent;
    return train(config_, silent);
  }
  nlohmann::json record() const { return nlohmann::json::parse(read_text(dir_ / "run/run.json")); }

  TemporaryDir dir_;
  Config config_;
};

bool finite(const store::Bundle& b) {
  for (const nn::NamedVariable& v : b.model.net->state_dict()) {
    for (const float x : v.variable.array().to_vector<float>()) {
      if (!std::isfinite(x)) return false;
    }
  }
  return true;
}

TEST_F(Training, AFewEpochsLowerTheLossAndStoreAModelThatEvaluatesTheSame) {
  const Result r = run();
  EXPECT_EQ(r.steps, 30);
  EXPECT_EQ(r.epochs, 3);
  EXPECT_LT(r.train_loss, 1.0);
  EXPECT_EQ(r.test.count, 150);
  EXPECT_GT(r.test.top1.value(), 50);
  store::Bundle b = store::load_bundle(r.model_path);
  data::TrainTest sets = data::load(dir_.path());
  sets.test.mean = b.preprocessing.mean;
  sets.test.std = b.preprocessing.std;
  Evaluator evaluator(b.model, {.deterministic = true}, 256);
  const Evaluation e = evaluator.run(sets.test);
  EXPECT_EQ(e.top1, r.test.top1);
  EXPECT_FLOAT_EQ(static_cast<float>(e.loss), static_cast<float>(r.test.loss));
  EXPECT_EQ(record().at("status"), "complete");
  for (const char* name : {"config.json", "model.json", "log.txt", "metrics.jsonl", "metrics.csv", "last", "best"}) {
    EXPECT_TRUE(std::filesystem::exists(dir_ / (cat("run/", name)))) << name;
  }
}

// The mean over an image and its mirror image cannot tell which of them it was given.
TEST_F(Training, EvaluationByViewsIsBlindToMirroring) {
  config_.max_steps = 5;
  store::Bundle b = store::load_bundle(run().model_path);
  data::Dataset test = data::load(dir_.path()).test;
  test.mean = b.preprocessing.mean;
  test.std = b.preprocessing.std;
  data::Dataset mirror = test;
  mirror.images = test.images.clone();
  ASSERT_EQ(test.images.dtype(), DType::u8);
  const int64_t rows = test.images.numel() / 28;
  for (int64_t i = 0; i < rows; ++i) {
    std::reverse(mirror.images.data<uint8_t>() + i * 28, mirror.images.data<uint8_t>() + (i + 1) * 28);
  }
  const auto loss = [&](const data::Dataset& set, TestViews views) {
    Evaluator evaluator(b.model, {.deterministic = true}, 64, views);
    return evaluator.run(set).loss;
  };
  EXPECT_GT(std::fabs(loss(test, TestViews::one) - loss(mirror, TestViews::one)), 1e-3);
  EXPECT_NEAR(loss(test, TestViews::flip), loss(mirror, TestViews::flip), 1e-6);
  EXPECT_GT(std::fabs(loss(test, TestViews::shift) - loss(test, TestViews::flip)), 1e-6);
}

TEST_F(Training, ViewsAreForImages) {
  models::Model rows = models::create("linear_regression");
  expect_error(ErrorKind::usage, {"--tta", "linear_regression", "images"},
               [&] { Evaluator(rows, {}, 8, TestViews::flip); });
}

// Gradients of the constant column are infinite in f16 at each scale that the run comes to.
TEST_F(Training, ARunOfWhichEveryStepWasSkippedHasFailed) {
  data::TrainTest sets;
  for (data::Dataset* set : {&sets.train, &sets.test}) {
    set->name = "large";
    set->images = Array(DType::f32, {48, 3});
    set->labels = Array(DType::i64, {48});
    for (int64_t i = 0; i < 48; ++i) {
      const auto x = static_cast<float>(i % 7) - 3;
      float* row = set->images.data<float>() + i * 3;
      row[0] = x;
      row[1] = -2 * x;
      row[2] = 70000;
      set->labels.data<int64_t>()[i] = i % 2;
    }
  }
  config_.model = dir_ / "net.json";
  io::write_file_atomic(config_.model, std::string_view(R"({"format":"freight-model-1","name":"net","input":[3],
      "net":[{"type":"Linear","out":8},{"type":"Tanh"},{"type":"Linear","out":2}]})"));
  config_.backend = "ref";
  config_.precision = "fp16";
  config_.batch_size = 16;
  Observer silent;
  for (const int64_t steps : {1, 9}) {
    config_.max_steps = steps;
    config_.overwrite = true;
    expect_error(ErrorKind::diverged,
                 {steps == 1 ? "the only step did not change the model" : "none of the 9 steps", "fp16",
                  "--precision bf16 or fp32"},
                 [&] { train(config_, silent, {.source = data::Source(sets)}); });
    EXPECT_EQ(record().at("exit_code"), 6);
    EXPECT_EQ(record().at("status"), "failed");
    EXPECT_FALSE(std::filesystem::exists(dir_ / "run/model.safetensors"));
  }
}

TEST_F(Training, TheSameSeedGivesTheSameBits) {
  const Result a = run();
  config_.output_dir = dir_ / "again";
  const Result b = run();
  EXPECT_EQ(a.train_loss, b.train_loss);
  EXPECT_EQ(a.test.loss, b.test.loss);
}

TEST_F(Training, EverySampleIsEvaluatedOnceWhateverTheBatch) {
  config_.max_steps = 5;
  store::Bundle b = store::load_bundle(run().model_path);
  const data::TrainTest sets = data::load(dir_.path());
  std::vector<Evaluation> all;
  for (const int64_t batch : {1, 64, 149, 150, 1000}) {
    Evaluator evaluator(b.model, {.deterministic = true}, batch);
    std::vector<int64_t> seen;
    all.push_back(evaluator.run(sets.test, [&](int64_t done, int64_t total) {
      EXPECT_EQ(total, 150);
      seen.push_back(done);
      return true;
    }));
    EXPECT_EQ(seen.size(), static_cast<size_t>((150 + batch - 1) / batch));
    EXPECT_EQ(all.back().count, 150) << batch;
    EXPECT_NEAR(all.back().top1.value(), all[0].top1.value(), 1e-9) << batch;
    EXPECT_NEAR(all.back().loss, all[0].loss, 1e-4) << batch;
  }
}

TEST_F(Training, PredictionsOfStoredImagesAreThoseOfEvaluation) {
  config_.max_steps = 10;
  store::Bundle b = store::load_bundle(run().model_path);
  const data::Dataset set = data::load(dir_.path()).test.slice(0, 100);
  deploy::Predictor predictor(b, {.deterministic = true, .batch_size = 32});
  std::vector<Array> samples;
  for (int64_t i = 0; i < set.count(); ++i) {
    Array pixels(DType::u8, {28, 28});
    std::copy_n(set.images.data<uint8_t>() + i * 784, 784, pixels.data<uint8_t>());
    const std::string path = dir_ / "picture.png";
    io::save_png(path, pixels);
    samples.push_back(predictor.sample_of_file(path));
  }
  const Array p = predictor.run(samples);
  int64_t right = 0;
  double loss = 0;
  for (int64_t i = 0; i < set.count(); ++i) {
    const float* row = p.data<float>() + i * 10;
    const int64_t label = set.labels.data<int64_t>()[i];
    right += std::max_element(row, row + 10) - row == label;
    loss -= std::log(static_cast<double>(row[label])) / 100.0;
  }
  Evaluator evaluator(b.model, {.deterministic = true}, 32);
  data::Dataset same = set;
  same.mean = b.preprocessing.mean;
  same.std = b.preprocessing.std;
  const Evaluation e = evaluator.run(same);
  EXPECT_DOUBLE_EQ(e.top1.value(), static_cast<double>(right));
  EXPECT_NEAR(e.loss, loss, 1e-4);
}

TEST_F(Training, DivergenceNamesALayerAndLeavesFiniteWeights) {
  config_.lr = 1e30;
  config_.lr_scheduler = "constant";
  expect_error(ErrorKind::diverged, {"the loss is", "step", "first NaN or infinity: ", "NaN or infinite", "--lr"},
               [&] { run(); });
  EXPECT_EQ(record().at("status"), "failed");
  EXPECT_EQ(record().at("exit_code"), 6);
  if (std::filesystem::exists(dir_ / "run/last")) {
    EXPECT_TRUE(finite(store::load_bundle(dir_ / "run/last/model.safetensors")));
  }
  EXPECT_FALSE(std::filesystem::exists(dir_ / "run/model.safetensors"));
}

TEST_F(Training, AnInfiniteLossStopsTheRunAndTheWeightsBeforeItAreSaved) {
  Array x(DType::f32, {64, 5}), y(DType::f32, {64, 1});
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(i % 7);
  y.data<float>()[50] = 3e38f;  // whose square is infinite
  io::save_npz(dir_ / "rows.npz", {{"x_train", x}, {"y_train", y}, {"x_test", x}, {"y_test", y}});
  config_.data = dir_ / "rows.npz";
  config_.model = "linear_regression";
  expect_error(ErrorKind::usage, {"--label-smoothing", "needs class labels"}, [&] {
    Config smoothed = config_;
    smoothed.label_smoothing = 0.1;
    prepare(smoothed);
  });
  const RunSummary s = prepare(config_).summary();
  EXPECT_EQ(s.unit, "sample") << "rows of numbers are no images";
  EXPECT_EQ(s.example, "");
  expect_error(ErrorKind::diverged, {"first NaN or infinity: ", "the weights before that step are in"}, [&] { run(); });
  EXPECT_TRUE(finite(store::load_bundle(dir_ / "run/last/model.safetensors")));
}

TEST_F(Training, AStopSignalSavesAndSaysSo) {
  signals::install();
  signals::reset();
  struct Stopper : Observer {
    bool wants_step() override {
      raise(SIGTERM);
      return false;
    }
  } stopper;
  const Result r = train(config_, stopper);
  EXPECT_TRUE(r.interrupted());
  EXPECT_EQ(r.steps, 1);
  EXPECT_EQ(signals::exit_code(), 143);
  signals::reset();
  EXPECT_TRUE(finite(store::load_bundle(r.model_path)));
  EXPECT_EQ(record().at("status"), "interrupted");
  EXPECT_EQ(record().at("exit_code"), 143);
}

TEST_F(Training, AStopThatTheObserverAsksForSavesAndCanBeResumed) {
  struct Stopper : Observer {
    bool wants_step() override { return true; }
    AfterStep on_step(const StepReport& r) override { return {.stop = r.total_step == last}; }
    int64_t last = 14;  // in the midst of the second epoch
  } stopper;
  const Result whole = run();
  const std::string model = read_text(whole.model_path);
  for (const char* data : {"no", "yes"}) {  // given by the loader, or made by the device in blocks ahead
    SCOPED_TRACE(data);
    config_.device_data = data;
    config_.steps_per_launch = 3;
    config_.output_dir = dir_ / cat("parts-", data);
    const Result r = train(config_, stopper);
    EXPECT_TRUE(r.interrupted());
    EXPECT_GE(r.steps, stopper.last);
    EXPECT_LT(r.steps, 20);
    EXPECT_TRUE(finite(store::load_bundle(r.model_path)));
    const auto j = nlohmann::json::parse(read_text(config_.output_dir + "/run.json"));
    EXPECT_EQ(j.at("status"), "interrupted");
    EXPECT_EQ(j.at("exit_code"), 0);
    config_.resume = "auto";
    EXPECT_EQ(run().steps, 30);
    config_.resume.clear();
    if (config_.device_data == "no") {
      EXPECT_EQ(r.steps, stopper.last);
      EXPECT_EQ(read_text(r.model_path), model);
    }
  }
}

TEST_F(Training, ARateThatTheObserverAsksForHoldsAndIsResumed) {
  struct Setter : Observer {
    explicit Setter(int64_t at) : step(at) {}
    bool wants_step() override { return true; }
    AfterStep on_step(const StepReport& r) override {
      rates.push_back(r.lr);
      return {.stop = r.total_step == stop, .lr = r.total_step == step ? std::optional(0.25) : std::nullopt};
    }
    int64_t step, stop = 0;
    std::vector<double> rates;
  };
  config_.lr = 0.0625;
  config_.lr_scheduler = "constant";
  config_.steps_per_launch = 3;
  std::vector<double> expected(30, 0.25);
  std::fill_n(expected.begin(), 6, 0.0625);
  std::vector<double> losses;
  // Asked for after step 2, it holds on a device from the third block on: the second was given to it by then.
  for (const int64_t step : {6, 2}) {
    SCOPED_TRACE(step);
    config_.device_data = step == 2 ? "yes" : "no";
    Setter whole(step), until(step), rest(0);
    config_.output_dir = dir_ / cat("whole-", step);
    const Result r = train(config_, whole);
    EXPECT_EQ(whole.rates, expected);
    losses.push_back(r.train_loss);
    config_.output_dir = dir_ / cat("parts-", step);
    until.stop = 14;
    const Result part = train(config_, until);
    EXPECT_TRUE(part.interrupted());
    config_.resume = "auto";
    const Result again = train(config_, rest);
    config_.resume.clear();
    EXPECT_EQ(rest.rates, std::vector<double>(static_cast<size_t>(30 - part.steps), 0.25));
    EXPECT_EQ(read_text(again.model_path), read_text(r.model_path));
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-3);
}

TEST_F(Training, ARateThatIsNoneIsRefused) {
  struct Negative : Observer {
    bool wants_step() override { return true; }
    AfterStep on_step(const StepReport&) override { return {.lr = -1.0}; }
  } negative;
  expect_error(ErrorKind::usage, {"on_step", "lr", "-1"}, [&] { train(config_, negative); });
}

TEST_F(Training, WhatIsPreparedLeavesNoTraceUntilItRuns) {
  const Result at_once = run();
  config_.output_dir = dir_ / "later";
  PreparedRun prepared = prepare(config_);
  const RunSummary s = prepared.summary();
  EXPECT_EQ(s.steps, 30);
  EXPECT_EQ(s.epochs, 3);
  EXPECT_EQ(s.train_count, 640);
  EXPECT_GT(s.flops_per_step, 0);
  EXPECT_EQ(s.unit, "img");
  EXPECT_EQ(s.example, "digits");
  EXPECT_EQ(s.sample_set, "digits");
  ASSERT_EQ(prepared.planned().step.size(), 1u);
  EXPECT_EQ(prepared.planned().test_count, 150);
  expect_error(ErrorKind::usage, {"does not offload"}, [&] { prepared.plan_within({.bytes = 1 << 20}); });
  EXPECT_FALSE(std::filesystem::exists(dir_ / "later"));
  struct Measuring : Observer {
    Figures figures(const Result& result) override {
      return {{"planned_bytes", 5}, {"steps", static_cast<double>(result.steps)}};
    }
  } measuring;
  const Result r = prepared.run(measuring, {"a", "b"});
  EXPECT_EQ(r.train_loss, at_once.train_loss);
  EXPECT_EQ(read_text(r.model_path), read_text(at_once.model_path));
  expect_error(ErrorKind::usage, {"has run already"}, [&] { prepared.run(measuring); });
  const auto j = nlohmann::json::parse(read_text(dir_ / "later/run.json"));
  EXPECT_EQ(j.at("status"), "complete");
  EXPECT_EQ(j.at("argv"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(j.at("plan").at("planned_bytes"), 5);
  EXPECT_EQ(j.at("plan").at("steps"), 30);
  EXPECT_EQ(j.at("result").at("steps"), 30);
}

TEST_F(Training, ARunTooLargeForItsMemoryIsRefusedBeforeAnythingIsAllocated) {
  expect_error(ErrorKind::capacity, {"does not fit", "1.0 KiB free", "weights and the optimizer state"},
               [&] { prepare(config_, {.device_memory = 1024, .refuse_too_large = true}); });
  EXPECT_EQ(prepare(config_, {.device_memory = 1024}).summary().steps, 30);
}

TEST_F(Training, AStopDuringTheLastEvaluationIsAnInterruption) {
  signals::install();
  signals::reset();
  config_.max_steps = 2;
  struct Stopper : Observer {
    void on_evaluation_progress(int64_t, int64_t) override { raise(SIGINT); }
  } stopper;
  const Result r = train(config_, stopper);
  signals::reset();
  EXPECT_TRUE(r.interrupted());
  EXPECT_EQ(r.test.count, 0);
  EXPECT_NO_THROW(store::load_bundle(r.model_path));
}

TEST_F(Training, AFailedStartLeavesAnOldRunAlone) {
  run();
  const std::string before = read_text(dir_ / "run/run.json");
  config_.overwrite = true;
  config_.model = "resnet";
  expect_error(ErrorKind::usage, {"resnet20"}, [&] { run(); });
  EXPECT_EQ(read_text(dir_ / "run/run.json"), before);
  config_.output_dir = dir_ / "new";
  EXPECT_ANY_THROW(run());
  EXPECT_FALSE(std::filesystem::exists(dir_ / "new"));
}

TEST_F(Training, FlagsForOtherKindsOfDataAreRefused) {
  const auto refused = [&](const char* flag, void (*give)(Config&)) {
    Config c = config_;
    give(c);
    Observer silent;
    expect_error(ErrorKind::usage, {flag, "is for", dir_.path()}, [&] { train(c, silent); });
  };
  refused("--max-length", [](Config& c) { c.max_length = 8; });
  refused("--tokenizer", [](Config& c) { c.tokenizer = "bpe"; });
  refused("--label-column", [](Config& c) { c.label_column = "2"; });
  refused("--train-crop-size", [](Config& c) { c.train_crop_size = 24; });
  refused("--val-resize-size", [](Config& c) { c.val_resize_size = 32; });
  refused("--val-split", [](Config& c) { c.val_split = 0.2; });
}

TEST_F(Training, ANetForTextIsRefusedForRowsOfNumbers) {
  const std::vector<float> rows(160, 1);
  io::save_npz(dir_ / "rows.npz",
               {{"x", Array::of<float>(rows, {20, 8})}, {"y", Array::of<int64_t>(std::vector<int64_t>(20), {20})}});
  config_.data = dir_ / "rows.npz";
  config_.model = "lstm_text";
  expect_error(ErrorKind::usage, {"lstm_text does not fit", "reads text", "[8]"}, [&] { run(); });
}

TEST(AssignOnlyIf, KeepsFloatingVariablesWhereTheConditionFails) {
  const Variable v("v", {DType::f32, {2}});
  v.set(1.0);
  auto step = compile([&](const Tensor& x) {
    v.assign(v.value() + x);
    assign_only_if(is_finite(sum(x)));
    return sum(x);
  });
  step(Array::of<float>({1, 2}, {2}));
  EXPECT_EQ(v.array().to_vector<float>(), (std::vector<float>{2, 3}));
  step(Array::of<float>({std::numeric_limits<float>::quiet_NaN(), 2}, {2}));
  EXPECT_EQ(v.array().to_vector<float>(), (std::vector<float>{2, 3}));
  step(Array::of<float>({1, 1}, {2}));
  EXPECT_EQ(v.array().to_vector<float>(), (std::vector<float>{3, 4}));
}

TEST(AssignOnlyIf, AStepThatChangedNothingLeavesItsRandomNumbersToTheNext) {
  for (const char* backend : {"ref", "cpu"}) {
    SCOPED_TRACE(backend);
    auto step = compile(
        [](const Tensor& x) {
          assign_only_if(x > 0);
          const Tensor drawn = random_uniform({4});
          assign_only_if(x < 2);
          return drawn;
        },
        {.backend = backend});
    seed(5);
    std::vector<std::vector<float>> drawn;
    for (const float x : {1.0f, 0.0f, 3.0f, 1.0f, 1.0f}) {
      drawn.push_back(step(Array::of<float>({x}, {})).to_vector<float>());
    }
    EXPECT_NE(drawn[0], drawn[1]);
    EXPECT_EQ(drawn[1], drawn[2]);
    EXPECT_EQ(drawn[2], drawn[3]);
    EXPECT_NE(drawn[3], drawn[4]);
  }
}

}  // namespace
}  // namespace freight::train
