// No figure and no stored weight rests on numbers that are not finite: NaN planted in samples, targets, weights and
// states of the optimizer stops a run, and the message names where it was.
#include <cmath>
#include <filesystem>
#include <limits>

#include "freight/data/finite.h"
#include "freight/io/npy.h"
#include "freight/train/checkpoint.h"
#include "freight/train/trainer.h"
#include "tests/support/arrays.h"
#include "tests/support/error_of.h"
#include "tests/support/files.h"

namespace freight::train {
namespace {

using freight::testing::expect_error;
using freight::testing::TemporaryDir;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class Finite : public ::testing::Test {
 protected:
  Finite() {
    x_ = test::random_array({{DType::f32, {40, 6}}, test::Fill::normal}, 3);
    x_test_ = test::random_array({{DType::f32, {12, 6}}, test::Fill::normal}, 4);
    config_.data = dir_ / "rows.npz";
    config_.model = "logistic_regression";
    config_.epochs = 2;
    config_.batch_size = 8;
    config_.deterministic = true;
    config_.output_dir = dir_ / "run";
  }

  Result run() {
    std::vector<int64_t> y, y_test;
    for (int64_t i = 0; i < x_.shape()[0]; ++i) y.push_back(i % 2);
    for (int64_t i = 0; i < x_test_.shape()[0]; ++i) y_test.push_back(i % 2);
    io::save_npz(config_.data, {{"x_train", x_},
                                {"y_train", Array::of<int64_t>(y, {x_.shape()[0]})},
                                {"x_test", x_test_},
                                {"y_test", Array::of<int64_t>(y_test, {x_test_.shape()[0]})}});
    Observer silent;
    return train(config_, silent);
  }

  TemporaryDir dir_;
  Config config_;
  Array x_, x_test_;
};

TEST_F(Finite, HeldOutSamplesThatAreNoNumbersAreNamed) {
  x_test_.data<float>()[3 * 6 + 2] = kNan;
  expect_error(ErrorKind::data, {"sample 3 of the test set", "column 2", "nan", "--on-bad-sample skip"},
               [&] { run(); });
  EXPECT_FALSE(std::filesystem::exists(dir_ / "run/model.safetensors"));
}

TEST_F(Finite, SamplesOfTrainingThatAreInfiniteAreNamed) {
  x_.data<float>()[39 * 6 + 5] = -std::numeric_limits<float>::infinity();
  expect_error(ErrorKind::data, {"sample 39 of the train set", "column 5", "-inf"}, [&] { run(); });
}

TEST_F(Finite, SamplesAreLeftOutWhereThatIsAskedForAndStatisticsAreOfTheRest) {
  x_.data<float>()[39 * 6 + 5] = kNan;
  x_test_.data<float>()[0] = kNan;
  config_.on_bad_sample = "skip";
  const Result r = run();
  EXPECT_EQ(r.bad_samples.size(), 2u);
  EXPECT_EQ(r.test.count, 11);
  EXPECT_TRUE(std::isfinite(r.test.loss));
}

TEST_F(Finite, NothingIsLeftOfSamplesThatAreAllBad) {
  for (int64_t i = 0; i < x_test_.numel(); ++i) x_test_.data<float>()[i] = kNan;
  config_.on_bad_sample = "skip";
  expect_error(ErrorKind::data, {"test", "every sample contains NaN or infinity"}, [&] { run(); });
}

// A rate at which the weights leave the range of f32 in the last step, whose own loss is still finite.
TEST_F(Finite, WeightsThatTheLastStepSpoiltAreNeitherMeasuredNorStored) {
  config_.model = "linear_regression";
  for (int64_t i = 0; i < x_.numel(); ++i) x_.data<float>()[i] = 1e15f * static_cast<float>(i % 7 + 1);
  std::vector<float> y(static_cast<size_t>(x_.shape()[0]), 1e18f);
  io::save_npz(config_.data, {{"x_train", x_},
                              {"y_train", Array::of<float>(y, {x_.shape()[0], 1})},
                              {"x_test", x_},
                              {"y_test", Array::of<float>(y, {x_.shape()[0], 1})}});
  config_.epochs = 1;
  config_.batch_size = x_.shape()[0];  // one step
  config_.lr = 1e30;
  Observer silent;
  expect_error(ErrorKind::diverged, {"after step 1", "weight", "NaN or infinite", "no weights were saved yet"},
               [&] { train(config_, silent); });
  EXPECT_FALSE(std::filesystem::exists(dir_ / "run/model.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "run/last"));
}

// Only a net that computed in f16 is told to leave it.
TEST_F(Finite, AnEvaluationWithoutAFigureSaysWhatTheArithmeticWas) {
  models::Model net = models::create("linear_regression", {.input = {3}});
  net.net->parameters().front().set(Array::of<float>({3e38f, 3e38f, 3e38f}, {1, 3}));
  data::Dataset set;
  set.name = "rows";
  set.split = "test";
  set.images = Array::of<float>({9, 9, 9}, {1, 3});
  set.labels = Array::of<float>({1}, {1});
  for (const DType compute : {DType::f32, DType::f16}) {
    Evaluator evaluator(net, {.backend = "ref", .compute = compute}, 1);
    try {
      evaluator.run(set);
      ADD_FAILURE() << "a figure of " << to_string(compute);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::diverged);
      EXPECT_EQ(std::string(e.what()).find("--precision bf16") != std::string::npos, compute == DType::f16) << e.what();
    }
    EXPECT_TRUE(net.net->training()) << "what trains goes on in training mode";
  }
}

TEST(FiniteSamples, PlacesAreNamedByTheirAxes) {
  data::Dataset set;
  set.name = "cubes";
  set.split = "train";
  set.images = test::random_array({{DType::f32, {3, 2, 4, 5}}, test::Fill::normal}, 1);
  set.labels = Array::of<float>({1, 2, 3}, {3});
  EXPECT_FALSE(data::leave_out_nonfinite(set, {}));
  set.images.data<float>()[1 * 40 + 1 * 20 + 2 * 5 + 3] = kNan;
  expect_error(ErrorKind::data, {"cubes, sample 1 of the train set", "element [1, 2, 3]", "nan"},
               [&] { data::leave_out_nonfinite(set, {}); });
  EXPECT_TRUE(data::leave_out_nonfinite(set, {.on_bad = data::OnBad::skip}));
  EXPECT_EQ(set.count(), 2);
  EXPECT_EQ(set.labels.to_vector<float>(), (std::vector<float>{1, 3}));
  set.labels.data<float>()[1] = kNan;
  expect_error(ErrorKind::data, {"sample 1", "the value of its target"}, [&] { data::leave_out_nonfinite(set, {}); });
}

TEST(FiniteSamples, WhatNeverChangesIsTold) {
  data::Dataset set;
  set.images = test::random_array({{DType::f32, {6, 3}}, test::Fill::normal}, 1);
  set.labels = Array::of<int64_t>({1, 0, 1, 1, 0, 1}, {6});
  set.classes = {"no", "yes"};
  EXPECT_EQ(data::nothing_to_learn(set), std::vector<std::string>());
  for (int64_t r = 0; r < 6; ++r) set.images.data<float>()[r * 3 + 1] = 4;
  set.labels = Array::of<int64_t>({1, 1, 1, 1, 1, 1}, {6});
  EXPECT_EQ(data::nothing_to_learn(set),
            (std::vector<std::string>{"all 6 training samples are of class yes: there is nothing to classify",
                                      "nothing can be learned from constant inputs: column 1"}));
  set.labels = Array::of<float>({2, 2, 2, 2, 2, 2}, {6, 1});
  EXPECT_EQ(data::nothing_to_learn(set)[0], "the targets are constant: column 0");
}

}  // namespace
}  // namespace freight::train
