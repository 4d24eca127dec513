// Training sets that lie on the device: the same batches, steps and runs as with the loader. Here on the backends of
// the host, which are asked to; tests/gpu and tests/cuda do the same on devices.
#include <signal.h>

#include <nlohmann/json.hpp>

#include "freight/job/signals.h"
#include "freight/train/trainer.h"
#include "tests/support/device_data.h"
#include "tests/support/files.h"
#include "tests/support/small_digits.h"

namespace freight::train {
namespace {

using freight::testing::expect_error;
using freight::testing::read_text;
using freight::testing::TemporaryDir;

TEST(DeviceBatches, AreTheLoaders) {
  for (const char* backend : {"ref", "cpu"}) {
    SCOPED_TRACE(backend);
    makes_the_loaders_batches(backend, small_set(DType::u8, {3, 7, 6}), kMovedAndErased);
    makes_the_loaders_batches(backend, small_set(DType::u8, {1, 5, 5}), {.shift = 1});
    makes_the_loaders_batches(backend, small_set(DType::f32, {3, 4, 4}), {.flip = true});
    makes_the_loaders_batches(backend, small_set(DType::f32, {9}), {});
  }
}

TEST(DeviceBatches, AreRefusedWhereTheyAreMadeInAnotherWay) {
  const auto why_not = [](const data::LoaderOptions& options) {
    std::string why;
    EXPECT_FALSE(data::Loader(small_set(DType::u8, {3, 7, 6}), options).recipe(why).has_value());
    return why;
  };
  data::LoaderOptions o = small_batches({.color_jitter = {.brightness = 0.5}});
  EXPECT_EQ(why_not(o), "its colors are changed");
  o = small_batches({});
  o.mix.mixup_alpha = 0.2;
  EXPECT_EQ(why_not(o), "its samples are mixed");
  o = small_batches({});
  o.drop_last = false;
  EXPECT_EQ(why_not(o), "the last batch is shorter");
}

TEST(DeviceSteps, DoWhatTheyDoOnTheLoadersBatches) { steps_do_what_they_do_on_the_loaders_batches("cpu"); }

TEST(DeviceSteps, AreTheSameBitsInBlocksOfAnySize) {
  const SmallRun one = small_run("cpu", 1);
  for (const int64_t block : {2, 5, 100}) {
    const SmallRun many = small_run("cpu", block);
    EXPECT_EQ(many.losses, one.losses) << block;
    EXPECT_EQ(many.weights, one.weights) << block;
  }
}

// Stops after a number of steps; 0: before the first.
struct Stopper : Observer {
  explicit Stopper(int64_t after) : left(after) {}
  bool wants_step() override {
    if (--left == 0) raise(SIGTERM);
    return false;
  }
  void on_start(const RunSummary& s) override {
    notes = join(s.notes, "\n");
    if (left == 0) raise(SIGTERM);
  }
  int64_t left;
  std::string notes;
};

class DeviceRun : public ::testing::Test {
 protected:
  DeviceRun() {
    signals::install();
    signals::reset();
    test::write_small_digits(dir_.path());
    config_ = recipe(dir_.path());
    config_.model = "mlp";
    config_.epochs = 3;  // of 10 steps
    config_.shift = 1;
    config_.lr_scheduler = "onecycle";
    config_.model_ema = 0.9;
    config_.deterministic = true;
    config_.device_data = "yes";
    config_.steps_per_launch = 4;
  }
  ~DeviceRun() override { signals::reset(); }
  Result run(const std::string& name, int64_t stop_after = -1) {
    signals::reset();
    config_.output_dir = dir_ / name;
    Stopper observer(stop_after);
    const Result r = train(config_, observer);
    notes_ = observer.notes;
    signals::reset();
    return r;
  }
  std::string model(const std::string& name) const { return read_text(dir_ / (name + "/model.safetensors")); }

  TemporaryDir dir_;
  Config config_;
  std::string notes_;
};

TEST_F(DeviceRun, EndsAsTheOneThatTheLoaderFeeds) {
  const Result on_device = run("device");
  EXPECT_NE(notes_.find("makes its batches itself, 4 steps at a time"), std::string::npos) << notes_;
  config_.device_data = "no";
  const Result fed = run("fed");
  EXPECT_EQ(on_device.steps, 30);
  EXPECT_EQ(on_device.epochs, fed.epochs);
  EXPECT_NEAR(on_device.train_loss, fed.train_loss, 1e-3);
  EXPECT_NEAR(on_device.test.loss, fed.test.loss, 1e-3);
  const auto rows = [&](const char* name) {
    std::vector<nlohmann::json> all;
    for (const std::string& line : split(read_text(dir_ / (std::string(name) + "/metrics.jsonl")), '\n')) {
      if (!line.empty()) all.push_back(nlohmann::json::parse(line));
    }
    return all;
  };
  const auto got = rows("device"), expected = rows("fed");
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    for (const char* key : {"step", "epoch", "split", "lr"})
      EXPECT_EQ(got[i].value(key, nlohmann::json()), expected[i].value(key, nlohmann::json()));
    EXPECT_NEAR(got[i].at("loss").get<double>(), expected[i].at("loss").get<double>(), 1e-3);
  }
}

TEST_F(DeviceRun, GoesOnWhereItStoppedToTheSameBits) {
  const Result whole = run("whole");
  const Result first = run("parts", 14);
  EXPECT_TRUE(first.interrupted());
  EXPECT_GE(first.steps, 14);
  EXPECT_LT(first.steps, 14 + 3 * 4);  // what was enqueued is done
  config_.resume = "auto";
  const Result rest = run("parts");
  EXPECT_EQ(rest.steps, 30);
  EXPECT_EQ(rest.train_loss, whole.train_loss);
  EXPECT_EQ(model("parts"), model("whole"));
}

TEST_F(DeviceRun, AStopBeforeTheFirstStepIsAStop) {
  const Result r = run("run", 0);
  EXPECT_TRUE(r.interrupted());
  EXPECT_GE(r.steps, 1);
  EXPECT_FALSE(model("run").empty());
}

TEST_F(DeviceRun, SavesAfterTheStepsThatWereAskedFor) {
  config_.save_every = 7;
  config_.keep = 0;
  run("run");
  for (const int step : {7, 14, 21, 28}) {
    EXPECT_TRUE(std::filesystem::exists(dir_ / cat("run/checkpoints/step-", step))) << step;
  }
}

TEST_F(DeviceRun, DivergesAtTheStepThatDivergesWithTheLoader) {
  config_.lr_scheduler = "constant";
  config_.lr = 1e30;
  const auto step_of = [&](const char* name) {
    try {
      run(name);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::diverged);
      const std::string said = e.what();
      EXPECT_NE(said.find("the weights before that step are in"), std::string::npos) << said;
      return said.substr(0, said.find("; the weights"));
    }
    return std::string("no error");
  };
  const std::string on_device = step_of("device");
  EXPECT_NE(on_device.find("at step"), std::string::npos) << on_device;
  config_.device_data = "no";
  EXPECT_EQ(step_of("fed"), on_device);
}

// Those of a block that stand behind it have run by then; what is saved must not say so.
TEST_F(DeviceRun, ADivergedStepLeavesTheRandomNumbersWhereItBegan) {
  io::write_file_atomic(dir_ / "net.json", std::string_view(R"({"format": "freight-model-1", "input": [1, 28, 28],
      "net": [{"type": "Flatten"}, {"type": "Dropout", "p": 0.2}, {"type": "Linear", "out": 10}]})"));
  config_.model = dir_ / "net.json";
  config_.lr_scheduler = "constant";
  config_.lr = 1e30;
  for (const char* where : {"yes", "no"}) {
    SCOPED_TRACE(where);
    config_.device_data = where;
    expect_error(ErrorKind::diverged, {"at step 3"}, [&] { run(where); });
    EXPECT_EQ(rng_state().array().to_vector<int64_t>(), (std::vector<int64_t>{0, 2}));
  }
}

TEST_F(DeviceRun, SaysWhyItCannotBe) {
  config_.grad_accum = 2;
  expect_error(ErrorKind::usage, {"--device-data", "divided into 2 micro-batches", "--grad-accum"}, [&] { run("a"); });
  config_.grad_accum = 1;
  config_.mixup_alpha = 0.2;
  expect_error(ErrorKind::usage, {"--device-data", "samples are mixed"}, [&] { run("b"); });
}

}  // namespace
}  // namespace freight::train
