// Files that earlier versions wrote stay readable and give the predictions that they gave (golden/README.md).
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "freight/data/catalog.h"
#include "freight/deploy/predictor.h"
#include "freight/train/checkpoint.h"
#include "freight/train/trainer.h"
#include "tests/support/files.h"
#include "tests/support/folders.h"

namespace freight::deploy {
namespace {

using freight::testing::read_text;
using freight::testing::TemporaryDir;

const std::string kGolden = source_dir() + "/tests/deploy/golden/";

nlohmann::json expected() { return nlohmann::json::parse(read_text(kGolden + "expected.json")); }

void expect_row(const Array& predictions, size_t row, const std::vector<float>& need) {
  ASSERT_EQ(predictions.shape()[1], static_cast<int64_t>(need.size()));
  for (size_t k = 0; k < need.size(); ++k) {
    EXPECT_NEAR(predictions.data<float>()[row * need.size() + k], need[k], 1e-5) << row << " " << k;
  }
}

TEST(Golden, Bundle1OfImagesAnswersAsItDid) {
  Predictor predictor(store::load_bundle(kGolden + "pictures.safetensors"));
  const store::Bundle& b = predictor.bundle();
  EXPECT_EQ(b.model.name, "golden");
  EXPECT_EQ(b.classes.size(), 10u);
  EXPECT_EQ(b.preprocessing.mean.size(), 1u);
  EXPECT_EQ(b.provenance.at("data"), "data");
  const data::Dataset test = data::load(kGolden + "data").test;
  std::vector<Array> samples;
  for (int64_t i = 0; i < 3; ++i) samples.push_back(test.slice(i, 1).images.reshaped({1, 8, 8}));
  const Array predictions = predictor.run(samples);
  for (size_t i = 0; i < 3; ++i) expect_row(predictions, i, expected()["pictures"][i].get<std::vector<float>>());
}

TEST(Golden, Bundle1OfTextsAnswersAsItDid) {
  Predictor predictor(store::load_bundle(kGolden + "texts.safetensors"));
  EXPECT_EQ(predictor.bundle().classes, (std::vector<std::string>{"bad", "good"}));
  const nlohmann::json all = expected();
  for (const auto& [text, probabilities] : all["texts"].items()) {
    expect_row(predictor.run({predictor.sample_of_text(text)}), 0, probabilities.get<std::vector<float>>());
  }
}

// The run is a directory whose paths are those of the user then: "data", "net.json".
TEST(Golden, Checkpoint3GoesOnToTheSameEnd) {
  const TemporaryDir dir;
  std::filesystem::create_directories(dir / "run/checkpoints");
  const auto all = std::filesystem::copy_options::recursive;
  std::filesystem::copy(kGolden + "checkpoint", dir / "run/checkpoints/step-6", all);
  std::filesystem::copy(kGolden + "data", dir / "data", all);
  std::filesystem::copy(kGolden + "net.json", dir / "net.json");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  train::Config config = train::find_checkpoint("run", "").checkpoint->config;
  config.resume = "run";
  config.output_dir = "run";
  train::Observer silent;
  const train::Result result = train::train(config, silent);
  std::filesystem::current_path(before);
  EXPECT_EQ(result.steps, 12);
  EXPECT_NEAR(result.test.loss, expected()["resumed_test_loss"].get<double>(), 1e-3);
}

}  // namespace
}  // namespace freight::deploy
