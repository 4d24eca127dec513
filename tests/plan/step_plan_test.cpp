// Step plans: planned memory against what training really allocates, the formula over the batch, and that nothing is
// allocated for a plan.
#include "freight/plan/step_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "freight/base/error.h"
#include "freight/base/storage_use.h"
#include "freight/optim/create.h"
#include "freight/run/executable.h"
#include "freight/train/step.h"
#include "tests/plan/training_setup.h"

namespace freight::plan {
namespace {

// Bytes that one training step leaves allocated: variables and arenas.
int64_t allocated_by_a_step(const TrainingSetup& s, const StepPlanOptions& o) {
  const DeviceScope on("cpu");
  clear_plan_cache();
  const models::Model model = s.make_model();
  model.net->train();
  const auto [x, y] = s.batch_types(o.batch);
  const int64_t limit = model.reads_tokens() ? model.vocabulary() : model.classes();
  const Array inputs = filled(x, limit), targets = model.language_model() ? inputs : filled(y, model.classes());
  const auto optimizer = optim::create(s.config.optimizer, *model.net, {.lr = 0.001, .momentum = 0.9});
  const int64_t before = storage_bytes();
  train::TrainStep step(model, *optimizer, nullptr, {.parts = o.parts},
                        {.deterministic = true, .recompute = o.recompute});
  step.run(inputs, targets);
  return storage_bytes() - before;
}

// While folds are trained, the network of the run keeps its weights and states.
TEST(Draft, FoldsNeedTheMemoryOfASecondNetwork) {
  TrainingSetup s = setup("lenet", "", "adam");
  StepPlanOptions o;
  const StepPlan alone = plan_step(s, o);
  s.config.folds = 3;
  const StepPlan folds = plan_step(s, o);
  EXPECT_EQ(folds.part(Part::folds), alone.part(Part::weights) + alone.part(Part::optimizer));
  EXPECT_EQ(folds.total(), alone.total() + folds.part(Part::folds));
  EXPECT_STREQ(to_string(Part::folds), "folds");
}

// The memory that micro-batches keep for their sums makes no thread decode images.
TEST(Draft, OnlyImagesInFilesNeedMemoryForDecoding) {
  TrainingSetup s = setup("lenet", "", "sgd");
  StepPlanOptions o;
  o.whole_run = true;
  const size_t plain = plan_step(s, o).part(Part::process);
  s.kept_bytes = 1 << 20;
  EXPECT_EQ(plan_step(s, o).part(Part::process), plain);
  s.images_in_files = true;
  EXPECT_GT(plan_step(s, o).part(Part::process), plain);
}

TEST(Draft, PlannedBytesAreThoseThatAStepAllocates) {
  struct Row {
    const char *model, *shape, *optimizer;
  };
  const Row rows[] = {{"mlp", "", "adamw"},
                      {"lenet", "", "sgd"},
                      {"convnet", "", "sgd"},
                      {"resnet20", "3x16x16", "sgd"},
                      {"resnet18", "3x32x32", "adam"},
                      {"textcnn", "", "lion"},
                      {"gpt_char", "16", "adamw"},
                      {"gru_text", "12", "adam"}};
  for (const Row& row : rows) {
    const TrainingSetup s = setup(row.model, row.shape, row.optimizer);
    for (const int64_t batch : {2, 5, 8}) {
      SCOPED_TRACE(std::string(row.model) + " " + std::to_string(batch));
      StepPlanOptions o;
      o.batch = batch;
      const StepPlan d = plan_step(s, o);
      const auto planned = static_cast<int64_t>(d.total() - d.part(Part::staging));
      // Beside it: the loss and the random state.
      EXPECT_NEAR(static_cast<double>(allocated_by_a_step(s, o)), static_cast<double>(planned), 4096);
    }
  }
}

TEST(Draft, ARunIsCountedWithWholePagesAndItsThreads) {
  const TrainingSetup s = setup("resnet18", "3x32x32");
  StepPlanOptions o;
  o.batch = 4;
  const StepPlan step = plan_step(s, o);
  o.whole_run = true;
  const StepPlan run = plan_step(s, o);
  EXPECT_EQ(step.part(Part::process), 0u);
  EXPECT_GT(run.part(Part::process), size_t{8} << 20);
  // Three weights of 9 MiB, and one of 4.5, take 10 and 6 on pages of 2 MiB.
  EXPECT_EQ(run.part(Part::weights) - step.part(Part::weights), size_t{9} << 19);
}

TEST(Draft, PartsAndRecomputationAreCountedToo) {
  const TrainingSetup s = setup("resnet20", "3x16x16");
  StepPlanOptions o;
  o.batch = 9;
  o.parts = 4;  // 3 + 3 + 3, and 2 parts of 5 would leave a shorter one
  const auto check = [&] {
    const StepPlan d = plan_step(s, o);
    EXPECT_GT(d.part(Part::accumulators), 0u);
    EXPECT_NEAR(static_cast<double>(allocated_by_a_step(s, o)), static_cast<double>(d.total() - d.part(Part::staging)),
                4096);
  };
  check();
  o.parts = 2;
  o.recompute = Recompute::all;
  check();
}

TEST(Draft, EveryNamedModelIsPlannedWithoutWeights) {
  for (const models::Entry& e : models::registry()) {
    SCOPED_TRACE(e.name);
    // Those of photographs plan slowly: one or two of a family stand for it.
    static const std::set<std::string> kAsOthers = {
        "resnet101",       "resnet152",       "resnext50_32x4d",    "wide_resnet50_2", "densenet121",
        "squeezenet1_0",   "mobilenet_v2",    "mobilenet_v3_large", "efficientnet_b0", "efficientnet_b1",
        "efficientnet_b2", "efficientnet_b3", "regnet_y_400mf",     "vit_b_16",        "squeezenet1_1"};
    if (kAsOthers.contains(e.name)) continue;
    const TrainingSetup s = setup(e.name);
    StepPlanOptions o;
    o.batch = 2;
    clear_plan_cache();
    const int64_t before = storage_bytes();
    const StepPlan d = plan_step(s, o);
    clear_plan_cache();
    EXPECT_LT(storage_bytes() - before, 1 << 16);
    EXPECT_GE(d.part(Part::weights), static_cast<size_t>(d.parameters) * 4);
    size_t at_peak = d.part(Part::packing), previous = SIZE_MAX;
    for (const LiveTensor& h : d.live) {
      at_peak += h.bytes;
      EXPECT_LE(h.bytes, previous);
      previous = h.bytes;
    }
    EXPECT_EQ(at_peak, d.arena_bytes);
  }
}

TEST(Draft, TheFormulaTellsOtherBatches) {
  for (const char* model : {"mlp", "textcnn", "vgg11"}) {
    SCOPED_TRACE(model);
    const TrainingSetup s = setup(model);
    StepPlanOptions o;
    o.batch = 32;
    const Formula line = formula(plan_steps(s, o));
    EXPECT_EQ(line.third, 64);
    EXPECT_LT(line.error, 0.002);
    o.batch = 48;
    EXPECT_NEAR(line.at(48) / static_cast<double>(plan_step(s, o).total()), 1, 0.002);
    EXPECT_EQ(line.largest(line.at(20) + 1), 20);
    EXPECT_EQ(line.largest(line.at(1) - 1), 0);
  }
}

TEST(Draft, AThirdBatchTellsWhereTheFormulaIsNoLine) {
  const TrainingSetup s = setup("lenet");
  StepPlanOptions o;
  o.batch = 32;
  const std::vector<StepPlan> all = plan_steps(s, o);
  const Formula line = formula(all);
  o.batch = 64;
  EXPECT_NEAR(line.error, std::fabs(line.at(64) / static_cast<double>(plan_step(s, o).total()) - 1), 1e-9);
  EXPECT_GT(line.error, 0.002);  // the workspaces of its small convolutions grow in steps
}

TEST(Draft, ABatchHalfAsLongInBfloatAndLessWithRecompute) {
  const TrainingSetup s = setup("resnet20");
  StepPlanOptions o;
  o.batch = 32;
  const StepPlan base = plan_step(s, o);
  o.compute = DType::bf16;
  EXPECT_LT(plan_step(s, o).part(Part::activations), base.part(Part::activations) * 3 / 4);
  o.compute = DType::f32;
  o.recompute = Recompute::all;
  const StepPlan less = plan_step(s, o);
  EXPECT_LT(less.total(), base.total() * 4 / 5);
  EXPECT_GT(less.flops, base.flops);
}

TEST(Subject, TheCatalogOfDataStandsForSetsThatAreNotHere) {
  train::Config c;
  c.data = "cifar10";
  c.data_dir = "/nowhere";
  c.model = "resnet20";
  const TrainingSetup s = make_setup(c);
  EXPECT_EQ(s.train_count, 50000);
  EXPECT_EQ(s.batch_types(7).first, (Type{DType::f32, {7, 3, 32, 32}}));
  EXPECT_EQ(s.batch_types(7).second, (Type{DType::i64, {7}}));
  EXPECT_THROW(make_setup(c, {3, 8, 8}), Error);  // data say their shape themselves
}

TEST(Subject, InputShapesAreNumbers) {
  EXPECT_EQ(parse_input_shape("3x224x192"), (Shape{3, 224, 192}));
  for (const char* bad : {"", "3x", "x", "3xa", "0", "-1x2", "3 x 4"})
    EXPECT_THROW(parse_input_shape(bad), Error) << bad;
}

}  // namespace
}  // namespace freight::plan
