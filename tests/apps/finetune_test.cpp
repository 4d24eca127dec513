// Fine-tuning by the command: several devices, tables, and weights of a source that cannot be reached.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "freight/base/strings.h"
#include "run_command.h"
#include "tests/support/small_digits.h"

namespace freight::test {
namespace {

TEST(FineTuneCommand, SeveralDevicesTrainTheModelOfOneWithTheSameLayersFrozen) {
  const std::string dir = scratch_dir();
  const auto train = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> args = {"train", "digits",       "--model", "convnet",         "--max-steps",
                                     "3",     "--batch-size", "16",      "--deterministic", "--fit",
                                     "off",   "-o",           dir + name};
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = run_freight(args);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran;
  };
  train("/before", {"--num-classes", "12"});
  const std::vector<std::string> tuned = {
      "--weights", dir + "/before/model.safetensors", "--freeze", "0,1,[34]", "--head-lr", "0.1", "--shards", "4"};
  train("/one", tuned);
  std::vector<std::string> several = tuned;
  several.insert(several.end(), {"--devices", "cpu*2"});
  const Ran ran = train("/two", several);
  EXPECT_NE(ran.err.find("initialized: 11.weight"), std::string::npos) << ran.err;
  EXPECT_EQ(read_file(dir + "/one/model.safetensors"), read_file(dir + "/two/model.safetensors"));
}

// Trains the head of convnet on features of a small set of digits, which is in `dir`.
Ran train_head(const std::string& dir, const std::vector<std::string>& more) {
  std::vector<std::string> args = {"train", dir, "--model", "convnet", "--freeze", "backbone", "--overwrite"};
  args.insert(args.end(), more.begin(), more.end());
  Ran ran = run_freight(args);
  EXPECT_NE(ran.err.find("the frozen layers are computed once"), std::string::npos) << ran.err;
  return ran;
}

TEST(FineTuneCommand, SeveralDevicesShareTheFeaturesAndTrainTheModelOfOne) {
  const std::string dir = scratch_dir();
  write_small_digits(dir);
  const auto train = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> args = {"--flip", "--augment-views", "2", "-o", dir + name};
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = train_head(dir, args);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return read_file(dir + name + "/model.safetensors");
  };
  const std::string one = train("/one", {"--shards", "3"});
  EXPECT_EQ(one, train("/two", {"--shards", "3", "--devices", "cpu*2"}));
  EXPECT_EQ(one, train("/three", {"--shards", "3", "--devices", "cpu*3", "--feature-cache", "disk"}));
  train("/uneven", {"--devices", "cpu*3"});
}

TEST(FineTuneCommand, ARunOnFeaturesChoosesItsBatchAndSaysWhatWouldFit) {
  const std::string dir = scratch_dir();
  write_small_digits(dir);
  const Ran chosen = train_head(dir, {"-b", "auto", "--json", "-o", dir + "/run"});
  EXPECT_EQ(chosen.code, 0) << chosen.err;
  EXPECT_NE(chosen.err.find(" was tried: "), std::string::npos) << chosen.err;
  const auto whole = train_head(dir, {"-b", "320", "--json", "-o", dir + "/run"});
  const double planned = nlohmann::json::parse(whole.out).at("planned_bytes").get<double>();
  const Ran refused = run_freight({"train", dir, "--model", "convnet", "--freeze", "backbone", "-b", "320",
                                   "--device-memory", cat(0.97 * planned / 0x1p30), "-o", dir + "/small"});
  EXPECT_EQ(refused.code, 5) << refused.err;
  EXPECT_NE(refused.err.find("would fit, with "), std::string::npos) << refused.err;
}

TEST(FineTuneCommand, ModelsOfTablesHaveNoLayersToFreeze) {
  const std::string dir = scratch_dir();
  std::string csv = "a,b,y\n";
  for (int i = 0; i < 60; ++i) csv += cat(i % 7, ",", i % 5, ",", i % 3, "\n");
  write_file(dir + "/t.csv", csv);
  for (const std::vector<std::string>& flag : std::vector<std::vector<std::string>>{{"--freeze", "backbone"},
                                                                                    {"--head-lr", "0.1"},
                                                                                    {"--lr-layer-decay", "0.5"},
                                                                                    {"--lr-scale", "fc=2"},
                                                                                    {"--feature-cache", "memory"},
                                                                                    {"--feature-cache-size", "1GiB"},
                                                                                    {"--augment-views", "2"}}) {
    for (const char* model : {"gbdt", "mlp"}) {
      const Ran ran = run_freight(
          {"train", dir + "/t.csv", "--target", "y", "--model", model, flag[0], flag[1], "-o", dir + "/run"});
      EXPECT_EQ(ran.code, 2) << ran.err;
      EXPECT_NE(ran.err.find(cat(flag[0], " is a flag of networks")), std::string::npos) << ran.err;
    }
  }
}

TEST(FineTuneCommand, SaysWhatANewUserOverlooks) {
  const std::string dir = scratch_dir();
  const Ran ran = run_freight({"train", "digits", "--model", "mlp", "--max-steps", "1", "--batch-size", "12000",
                               "--fit", "off", "--freeze", "backbone", "-o", dir + "/run"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.err.find("--freeze without --weights"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("8,000 of 20,000 samples are skipped in each epoch"), std::string::npos) << ran.err;
  const Ran folder = run_freight({"predict", dir + "/run", "x.png"});
  EXPECT_EQ(folder.code, 2) << folder.err;
  EXPECT_NE(folder.err.find("is the directory of a run, expected its model: " + dir + "/run/model.safetensors"),
            std::string::npos)
      << folder.err;
}

TEST(FineTuneCommand, WeightsThatCannotBeDownloadedNameAddressFileAndFolder) {
  const std::string dir = scratch_dir();
  const Ran ran =
      run_freight({"train", "digits", "--model", "resnet18", "--weights", "torchvision:resnet18", "-o", dir + "/run"},
                  {}, {"TORCH_HOME=" + dir, "FREIGHT_WEIGHTS_URL=http://127.0.0.1:1"});
  EXPECT_EQ(ran.code, 3) << ran.err;
  for (const char* part : {"resnet18-f37072fd.pth", "127.0.0.1", "/hub/checkpoints"}) {
    EXPECT_NE(ran.err.find(part), std::string::npos) << part << ": " << ran.err;
  }
}

}  // namespace
}  // namespace freight::test
