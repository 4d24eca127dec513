// A first layer of init `whiten` gets its filters from the training images, once, and keeps them.
#include <signal.h>

#include <cmath>

#include "freight/data/catalog.h"
#include "freight/job/signals.h"
#include "freight/nn/whitening.h"
#include "freight/train/trainer.h"
#include "tests/support/files.h"
#include "tests/support/small_digits.h"

namespace freight::train {
namespace {

using freight::testing::expect_error;
using freight::testing::read_text;
using freight::testing::TemporaryDir;

constexpr const char* kStem = R"({"type": "Conv2d", "out": 8, "kernel": 2, "bias": false, "init": "whiten"})";

class Whitened : public ::testing::Test {
 protected:
  Whitened() {
    test::write_small_digits(dir_.path());
    net(cat("[", kStem, R"(, {"type": "ReLU"}, {"type": "Flatten"}, {"type": "Linear", "out": 10}])"));
    config_ = recipe(dir_.path());
    config_.model = dir_ / "net.json";
    config_.epochs = 2;
    config_.lr = 0.01;
    config_.deterministic = true;
  }
  void net(const std::string& layers) const {
    io::write_file_atomic(dir_ / "net.json",
                          cat(R"({"format": "freight-model-1", "input": [1, 28, 28], "net": )", layers, "}"));
  }
  Result run(const std::string& name, Observer& observer) {
    Config c = config_;
    c.output_dir = dir_ / name;
    return train(c, observer);
  }
  Result run(const std::string& name) {
    Observer silent;
    return run(name, silent);
  }
  static std::vector<float> stem(const store::Bundle& b) {
    return b.model.net->state_dict().front().variable.array().to_vector<float>();
  }
  static std::vector<float> stem(const Result& r) { return stem(store::load_bundle(r.model_path)); }

  TemporaryDir dir_;
  Config config_;
};

TEST_F(Whitened, FiltersAreThoseOfTheImagesWhateverSeedAndBatch) {
  const data::Dataset set = data::load(dir_.path()).train;
  ASSERT_LT(set.count(), 5120);
  Array images(DType::f32, set.images.shape());
  for (int64_t i = 0; i < images.numel(); ++i) {
    const float x = static_cast<float>(set.images.data<uint8_t>()[i]);
    const float scale = 1.0f / (255.0f * set.std[0]), bias = -set.mean[0] / set.std[0];
    images.data<float>()[i] = x * scale + bias;
  }
  nn::Whitening whitening({8, 1, 2, 2});
  whitening.add(images);
  const auto want = whitening.filters().to_vector<float>();
  const auto got = stem(run("first"));
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-3 * (1 + std::fabs(want[i])));
  config_.seed = 5;
  config_.batch_size = 17;
  config_.flip = true;
  config_.crop_padding = 2;
  config_.model_ema = 0.9;
  config_.epochs = 1;
  EXPECT_EQ(stem(run("second")), got);
}

TEST_F(Whitened, AResumedRunKeepsThem) {
  struct Stopper : Observer {
    int64_t steps = 7;
    bool wants_step() override {
      if (--steps == 0) raise(SIGTERM);
      return false;
    }
  } stopper;
  const Result whole = run("whole");
  signals::install();
  signals::reset();
  EXPECT_TRUE(run("parts", stopper).interrupted());
  signals::reset();
  config_.resume = "auto";
  EXPECT_EQ(run("parts").steps, whole.steps);
  EXPECT_EQ(read_text(dir_ / "parts/model.safetensors"), read_text(dir_ / "whole/model.safetensors"));
}

TEST_F(Whitened, WeightsThatAreGivenAreNotReplaced) {
  const store::Bundle b = store::load_bundle(run("first").model_path);
  b.model.net->state_dict().front().variable.set(0.5);
  store::save_bundle(dir_ / "other.safetensors", b);
  config_.weights = dir_ / "other.safetensors";
  EXPECT_EQ(stem(run("second")), std::vector<float>(32, 0.5f));
}

TEST_F(Whitened, ALayerThatDoesNotReadImagesIsRefused) {
  net(cat(R"([{"type": "Conv2d", "out": 2, "kernel": 3}, )",
          R"({"name": "late", "type": "Conv2d", "out": 8, "kernel": 2, "init": "whiten"},)",
          R"({"type": "Flatten"}, {"type": "Linear", "out": 10}])"));
  expect_error(ErrorKind::usage, {"whiten", "layer late", "not the network's first"}, [&] { run("late"); });
  EXPECT_FALSE(std::filesystem::exists(dir_ / "late"));
}

}  // namespace
}  // namespace freight::train
