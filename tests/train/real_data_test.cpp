// Real data, where it is: the accuracies that shipped recipes must reach in a short run.
#include <gtest/gtest.h>

#include "freight/train/trainer.h"
#include "tests/support/files.h"

namespace freight::train {
namespace {

using freight::testing::real_data;
using freight::testing::TemporaryDir;

TEST(RealData, TheFastRecipeReaches98Point5PercentOfMnistInOneEpoch) {
  const std::string root = real_data("mnist/train-images-idx3-ubyte.gz");
  if (root.empty()) GTEST_SKIP() << "no MNIST in $FREIGHT_DATA or beside the checkout";
  const TemporaryDir dir;
  Config c = recipe(data::Source("mnist", {.data_dir = root}), "fast");
  c.data_dir = root;
  c.deterministic = true;
  c.output_dir = dir / "run";
  Observer silent;
  const Result r = train(c, silent);
  EXPECT_EQ(r.epochs, 1);
  EXPECT_EQ(r.test.count, 10000);
  EXPECT_GE(r.test.top1.value(), 98.5);  // 99.07 to 99.27 with seeds 0 to 2
}

TEST(RealData, LenetReaches97Point5PercentOfMnistInOneEpoch) {
  const std::string root = real_data("mnist/train-images-idx3-ubyte.gz");
  if (root.empty()) GTEST_SKIP() << "no MNIST in $FREIGHT_DATA or beside the checkout";
  const TemporaryDir dir;
  Config c = recipe(data::Source("mnist", {.data_dir = root}), "default");
  c.data_dir = root;
  c.model = "lenet";
  c.epochs = 1;
  c.deterministic = true;
  c.output_dir = dir / "run";
  Observer silent;
  EXPECT_GE(train(c, silent).test.top1.value(), 97.5);
}

// Half a minute of training where the recipe takes eight epochs of 97 steps.
TEST(RealData, ThirtyStepsOfTheCifarRecipeReach45Percent) {
  const std::string root = real_data("cifar-10-batches-bin/test_batch.bin");
  if (root.empty()) GTEST_SKIP() << "no CIFAR-10 in $FREIGHT_DATA or beside the checkout";
  const TemporaryDir dir;
  Config c = recipe(data::Source("cifar10", {.data_dir = root}), "default");
  c.data_dir = root;
  c.max_steps = 30;
  c.tta = "none";
  c.deterministic = true;
  c.output_dir = dir / "run";
  Observer silent;
  const Result r = train(c, silent);
  EXPECT_EQ(r.test.count, 10000);
  EXPECT_GE(r.test.top1.value(), 45);  // 50.9 with seed 0
}

// One pass over smaller crops where the recipe takes forty; a quarter of the images are of the largest class.
TEST(RealData, APassOverPhotographsOfFlowersReaches35Percent) {
  const std::string root = real_data("flowers/daisy");
  if (root.empty()) GTEST_SKIP() << "no flowers in $FREIGHT_DATA or beside the checkout";
  const TemporaryDir dir;
  Config c = recipe(data::Source("pictures", {.data_dir = root}), "small");
  c.data = root + "/flowers";
  c.epochs = 1;
  c.eval_every = 1;
  c.lr = 0.05;
  c.mixup_alpha = 0;
  c.train_crop_size = 64;
  c.val_resize_size = c.val_crop_size = 80;
  c.deterministic = true;
  c.output_dir = dir / "run";
  Observer silent;
  const Result r = train(c, silent);
  EXPECT_EQ(r.test.count, 864);
  EXPECT_GE(r.test.top1.value(), 35);  // 43.1 and 42.0 with seeds 0 and 1
}

}  // namespace
}  // namespace freight::train
