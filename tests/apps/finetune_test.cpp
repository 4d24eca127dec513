// Fine-tuning by the command: several devices, tables, and weights of a source that cannot be reached.
#include <gtest/gtest.h>

#include "freight/base/strings.h"
#include "run_command.h"

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
