// Fitting a run into less memory: what is chosen holds the limit and trains to the same losses, or is not chosen.
#include <gtest/gtest.h>

#include <cmath>

#include "freight/backend/backend.h"
#include "freight/base/error.h"
#include "freight/plan/batch.h"
#include "freight/plan/estimate.h"
#include "freight/plan/preflight.h"
#include "freight/run/plan.h"
#include "freight/train/step.h"
#include "tests/plan/training_setup.h"

namespace freight::plan {
namespace {

// Of a few steps from the same start on the same batch.
std::vector<double> losses(const TrainingSetup& s, const StepPlanOptions& o) {
  const DeviceScope on("cpu");
  clear_plan_cache();
  seed(7);
  const models::Model model = s.make_model();
  model.net->train();
  StepPlanOptions unlimited = o;
  unlimited.device_bytes = 0;
  const ArenaLimit within{o.offload, arena_within(plan_step(s, unlimited), o.device_bytes), o.speed};
  train::Config c = s.config;
  c.offload = offload_names()[static_cast<size_t>(o.offload)];
  const auto optimizer = train::make_optimizer(c, model);
  train::TrainStep step(model, *optimizer, nullptr, {.parts = o.parts},
                        {.deterministic = true, .recompute = o.recompute, .limit = within});
  const auto [x, y] = s.batch_types(o.batch);
  const int64_t limit = model.reads_tokens() ? model.vocabulary() : model.classes();
  const Array inputs = filled(x, limit), targets = model.language_model() ? inputs : filled(y, model.classes());
  std::vector<double> all;
  for (int i = 0; i < 3; ++i) all.push_back(step.run(inputs, targets).loss);
  return all;
}

struct Row {
  const char *model, *shape, *optimizer;
  int64_t batch;
  // Of the limits of 80, 60 and 40 % of the unrestricted peak, how many can be kept without other results; and where
  // the host has memory beside the device's.
  int adapted, offloaded;
};

class FitWithin : public ::testing::TestWithParam<Row> {};

TEST_P(FitWithin, KeepsTheLossesOrSaysWhatChanges) {
  const Row& row = GetParam();
  const TrainingSetup s = setup(row.model, row.shape, row.optimizer);
  StepPlanOptions o;
  o.batch = row.batch;
  const StepPlan whole = plan_step(s, o);
  const auto total = static_cast<double>(whole.total());
  EXPECT_TRUE(fit_within(whole, s, {total}).fits);
  std::vector<double> before;
  for (const double host : {0.0, 1e12}) {
    int adapted = 0;
    for (const double share : {0.8, 0.6, 0.4}) {
      SCOPED_TRACE(cat(share, ", host ", host));
      const FitCheck fit = fit_within(whole, s, {share * total, host});
      EXPECT_FALSE(fit.fits);
      if (!fit.change.any()) continue;
      const auto then = static_cast<double>(plan_step(s, fit.options).total());
      EXPECT_EQ(then, fit.needed_then);
      EXPECT_LE(then, share * total);
      EXPECT_TRUE(host > 0 || fit.options.offload == Offload::none);
      if (!fit.changes.empty()) continue;
      ++adapted;
      EXPECT_EQ(fit.options.batch, o.batch);
      if (before.empty()) before = losses(s, o);
      const std::vector<double> now = losses(s, fit.options);
      for (size_t i = 0; i < before.size(); ++i) {
        if (fit.options.parts == 1) {
          EXPECT_EQ(now[i], before[i]) << fit.change.flags();
        } else {  // sums in another order
          EXPECT_NEAR(now[i], before[i], 1e-4 * std::fabs(before[i])) << fit.change.flags();
        }
      }
      EXPECT_NE(before[0], before[2]);
    }
    EXPECT_EQ(adapted, host == 0 ? row.adapted : row.offloaded);
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, FitWithin,
                         ::testing::Values(Row{"resnet50", "3x96x96", "sgd", 8, 1, 2},
                                           Row{"vgg16", "3x64x64", "sgd", 4, 0, 0},
                                           Row{"gpt_char", "64", "adamw", 8, 1, 3},
                                           Row{"lenet", "1x28x28", "sgd", 64, 2, 2},
                                           Row{"resnet20", "3x32x32", "sgd", 32, 2, 3}),
                         [](const auto& i) { return std::string(i.param.model); });

TEST(Fit, PartsAreNotChosenWhereTheyChangeTheResults) {
  const TrainingSetup norm = setup("resnet20", "3x32x32", "sgd");
  StepPlanOptions o;
  o.batch = 32;
  const StepPlan whole = plan_step(norm, o);
  const FitCheck fit = fit_within(whole, norm, {0.25 * static_cast<double>(whole.total())});
  ASSERT_TRUE(fit.change.any());
  EXPECT_NE(fit.changes.find("BatchNorm"), std::string::npos) << fit.changes;
  const std::string text = refusal(fit).what();
  EXPECT_NE(text.find("other results: BatchNorm"), std::string::npos) << text;
  EXPECT_EQ(text.find("--fit auto"), std::string::npos) << text;
  // Dropout draws by the shape of what runs.
  const TrainingSetup drops = setup("alexnet", "3x96x96", "sgd");
  o.batch = 64;
  EXPECT_TRUE(plan_step(drops, o).random);
  EXPECT_FALSE(whole.random);
}

TEST(Fit, WithoutTheCopyForACheckpointFirst) {
  TrainingSetup s = setup("mlp_wide", "1x28x28", "sgd");  // weights are most of its memory
  s.test_count = 1000;
  StepPlanOptions o;
  o.batch = 16;
  o.whole_run = true;
  const StepPlan whole = plan_step(s, o);
  const auto copy = static_cast<double>(whole.part(Part::checkpoint)), total = static_cast<double>(whole.total());
  ASSERT_GT(copy, 0.3 * (total - static_cast<double>(whole.part(Part::process))));
  const FitCheck fit = fit_within(whole, s, {total - 1});
  EXPECT_EQ(fit.change.flags(), "--save-in-place");
  EXPECT_EQ(fit.changes, "");
  EXPECT_EQ(fit.needed_then, total - copy);
  s.config.save_in_place = true;
  EXPECT_EQ(static_cast<double>(plan_step(s, o).total()), total - copy);
  // Where that is not enough, beside other means.
  const FitCheck both = fit_within(whole, s, {total - copy - 1, 1e12});
  ASSERT_TRUE(both.change.any());
  EXPECT_TRUE(both.change.save_in_place);
  EXPECT_NE(both.change.flags(), "--save-in-place");
  EXPECT_LE(both.needed_then, total - copy - 1);
}

TEST(Fit, WhatKeepsTheResultsGoesBeforeWhatChangesThem) {
  TrainingSetup s = setup("resnet20", "3x32x32", "sgd");
  s.test_count = 64;
  StepPlanOptions o;
  o.batch = 32;
  o.whole_run = true;
  const StepPlan whole = plan_step(s, o);
  StepPlanOptions again = o;
  again.recompute = Recompute::all;
  const StepPlan recomputed = plan_step(s, again);  // its evaluation takes less, too
  const auto copy = static_cast<double>(recomputed.part(Part::checkpoint)),
             least = static_cast<double>(recomputed.total()) - copy;
  // Two parts of the batch would fit beside the copy, but BatchNorm would take other statistics.
  const FitCheck fit = fit_within(whole, s, {least + copy / 2});
  EXPECT_EQ(fit.change.flags(), "--recompute all --save-in-place");
  EXPECT_EQ(fit.changes, "");
  EXPECT_EQ(fit.needed_then, least);
}

TEST(Fit, EvaluationTakesNoMoreThanTheStepDoes) {
  TrainingSetup s = setup("gpt_char", "64", "adamw");
  s.test_count = 1000;
  StepPlanOptions o;
  o.batch = 4;
  o.whole_run = true;
  const StepPlan small = plan_step(s, o);
  EXPECT_EQ(small.evaluation_batch, 4);
  EXPECT_LE(small.part(Part::evaluation), small.arena_bytes);
  o.batch = 256;
  EXPECT_EQ(plan_step(s, o).evaluation_batch, 256);
  s.test_count = 7;
  EXPECT_EQ(plan_step(s, o).evaluation_batch, 7);
}

// Test images may be larger than those of training, and their labels are not mixed.
TEST(Fit, EvaluationIsPlannedForTheSizeOfTestImages) {
  TrainingSetup alike = setup("resnet18", "3x32x32", "sgd"), larger = alike,
                large = setup("resnet18", "3x224x224", "sgd");
  for (TrainingSetup* s : {&alike, &larger, &large}) s->test_count = 8;
  larger.tested = {large.input, large.target};
  larger.target = {DType::f32, {1000}};
  StepPlanOptions o;
  o.batch = 8;
  o.whole_run = true;
  const StepPlan small = plan_step(alike, o), d = plan_step(larger, o);
  EXPECT_EQ(d.evaluation_batch, 8);
  EXPECT_EQ(d.part(Part::evaluation), plan_step(large, o).part(Part::evaluation));
  EXPECT_GT(d.part(Part::evaluation), 3 * small.part(Part::evaluation));
  EXPECT_EQ(d.arena_bytes > 0, small.arena_bytes > 0);
}

// What train knows of a run before it starts.
class Batch : public ::testing::Test {
 protected:
  template <class F>
  void planned(int64_t train_count, F f) {
    const DeviceScope on("cpu");
    train::Config c;
    c.data.clear();
    c.model = "lenet";
    c.batch_size = 16;
    const TrainingSetup s = make_setup(c);
    train::NetTraining net(c, s.make_model());
    net.plan_step(s.batch_types(c.batch_size), {.backend = "cpu", .deterministic = true});
    train::Planned planned = net.planned();
    planned.evaluation_batch = 256;
    planned.train_count = train_count;
    f(planned);
  }
};

TEST_F(Batch, TheLargestThatIsGood) {
  planned(60'000, [](const train::Planned& p) {
    const GoodBatch most = good_batch(p, 1e12, nullptr);  // 60,000 / 32 = 1,875
    EXPECT_EQ(most.size, 1024);
    EXPECT_NE(most.why.find("32 steps"), std::string::npos);
    // Memory for some 200 samples: 128 fit, 256 do not.
    StepPlanOptions o;
    o.batch = 200;
    const auto limit = static_cast<double>(plan_step(setup_of(p), o).total()) / 0.9;
    const GoodBatch held = good_batch(p, limit, nullptr);
    EXPECT_EQ(held.size, 128);
    EXPECT_NE(held.why.find("memory"), std::string::npos);
    EXPECT_EQ(good_batch(p, 1, nullptr).size, 1);  // preflight refuses that
  });
}

// Batches of 2 would give an epoch of 80 images 40 steps with noisy statistics.
TEST_F(Batch, OfASmallDatasetHasSixteenSamples) {
  const auto size = [&](int64_t samples) {
    int64_t chosen = 0;
    planned(samples, [&](const train::Planned& p) { chosen = good_batch(p, 1e12, nullptr).size; });
    return chosen;
  };
  EXPECT_EQ(size(2000), 32);
  EXPECT_EQ(size(1000), 16);
  EXPECT_EQ(size(80), 16);
  EXPECT_EQ(size(40), 8);  // of which an epoch has 5 steps
  EXPECT_EQ(size(3), 1);
}

TEST_F(Batch, NoLargerThanWhatTrainsFaster) {
  planned(60'000, [](const train::Planned& p) {
    // A machine whose kernels take time by their sizes alone: half a batch is as fast per sample.
    Rates linear;
    for (const double bytes : {1e3, 1e5, 1e7}) {
      Work w;
      w.kind = "map";
      w.bytes = bytes;
      linear.add({w, bytes * 1e-10});
      w = {};
      w.kind = "matmul";
      w.m = w.n = w.k = std::cbrt(bytes);
      w.flops = 2 * bytes;
      linear.add({w, bytes * 2e-11});
    }
    const GoodBatch good = good_batch(p, 1e12, &linear);
    EXPECT_LT(good.size, 1024);
    EXPECT_EQ(good.why, "it would not train faster");
  });
}

TEST_F(Batch, ARealStepIsTried) {
  planned(1000, [](const train::Planned& p) {
    const std::string before = models::to_spec(p.model);
    EXPECT_GT(try_step(p), 0);
    EXPECT_EQ(models::to_spec(p.model), before);
  });
}

}  // namespace
}  // namespace freight::plan
