// Training sets that lie on the test's device (device.h): its batches, steps and runs against the loader's.
#include "freight/train/trainer.h"

#include "tests/gpu/device.h"
#include "tests/support/device_data.h"
#include "tests/support/files.h"
#include "tests/support/small_digits.h"

namespace freight::train {
namespace {

TEST(GpuData, BatchesAreTheLoaders) {
  NEEDS_TEST_DEVICE();
  makes_the_loaders_batches(test::test_device(), small_set(DType::u8, {3, 7, 6}), kMovedAndErased);
  makes_the_loaders_batches(test::test_device(), small_set(DType::f32, {9}), {});
}

TEST(GpuData, StepsDoWhatTheyDoOnTheLoadersBatches) {
  NEEDS_TEST_DEVICE();
  steps_do_what_they_do_on_the_loaders_batches(test::test_device());
}

TEST(GpuData, StepsAreTheSameBitsInBlocksOfAnySize) {
  NEEDS_TEST_DEVICE();
  const SmallRun one = small_run(test::test_device(), 1), many = small_run(test::test_device(), 4);
  EXPECT_EQ(many.losses, one.losses);
  EXPECT_EQ(many.weights, one.weights);
}

TEST(GpuData, ATrainingPutsItsSetThereUnasked) {
  NEEDS_TEST_DEVICE();
  const freight::testing::TemporaryDir dir;
  test::write_small_digits(dir.path());
  struct Notes : Observer {
    void on_start(const RunSummary& s) override { text = join(s.notes, "\n"); }
    std::string text;
  };
  Config c = recipe(dir.path());
  c.model = "mlp";
  c.epochs = 1;
  c.shift = 1;
  c.deterministic = true;
  c.backend = test::test_device();
  const auto run = [&](const char* name, const char* how, double limit, bool there) {
    c.device_data = how;
    c.output_dir = dir / name;
    Notes notes;
    const Result r = prepare(c, {.device_memory = limit}).run(notes);
    EXPECT_EQ(notes.text.find("is on the device") != std::string::npos, there) << notes.text;
    return r;
  };
  const Result on_device = run("auto", "auto", 0, true), fed = run("no", "no", 0, false);
  const Result limited = run("limited", "auto", 1 << 20, false);  // of which the set would take half
  EXPECT_EQ(limited.train_loss, fed.train_loss);
  EXPECT_EQ(on_device.steps, 10);
  EXPECT_NEAR(on_device.train_loss, fed.train_loss, 1e-3);
  EXPECT_NEAR(on_device.test.loss, fed.test.loss, 1e-3);
}

}  // namespace
}  // namespace freight::train
