// `freight train --shard-optimizer`: each rank keeps a part of the optimizer's state, and the model has the same bytes;
// checkpoints are whole, and a run goes on from them on any number of devices, with the flag and without.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "freight/base/strings.h"
#include "freight/io/safetensors.h"
#include "rank_models.h"
#include "run_command.h"

namespace freight::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr const char* kNet = R"({"format": "freight-model-1", "name": "net", "input": [1, 28, 28], "net": [
    {"type": "Conv2d", "out": 6, "kernel": 5, "stride": 2, "bias": false}, {"type": "BatchNorm2d"}, {"type": "ReLU"},
    {"type": "MaxPool2d", "kernel": 2}, {"type": "Flatten"}, {"type": "Linear", "out": 40}, {"type": "ReLU"},
    {"type": "Dropout", "p": 0.2}, {"type": "Linear", "out": 10}]})";

class ShardOptimizer : public DigitRuns {
 protected:
  ShardOptimizer() { write_file(path("net.json"), kNet); }

  Words args(const std::string& run, const std::vector<Words>& parts) const {
    Words all = {"train", dir_, "--model", path("net.json"), "-b", "24", "--shards", "4", "-q", "-o", path(run)};
    for (const Words& more : parts) all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  void trained(const std::string& run, const std::vector<Words>& parts) const {
    const Ran r = run_freight(args(run, parts));
    ASSERT_EQ(r.code, 0) << r.err;
  }
  // The states in a run's last checkpoint, by name.
  std::vector<std::pair<std::string, std::string>> states(const std::string& run) const {
    std::vector<std::pair<std::string, std::string>> all;
    for (const auto& [name, array] : io::load_safetensors(path(run) + "/last/state.safetensors").tensors) {
      all.emplace_back(name, std::string(static_cast<const char*>(array.raw()), array.bytes()));
    }
    std::sort(all.begin(), all.end());
    return all;
  }
};

TEST_F(ShardOptimizer, ChangesNoByteOfModelAndCheckpoint) {
  int number = 0;
  for (const Words& optimizer :
       {Words{"--optimizer", "sgd", "--momentum", "0.9", "--lr", "0.05"},
        Words{"--optimizer", "adamw", "--clip-grad-norm", "0.5", "--model-ema", "0.9"},
        Words{"--optimizer", "lion", "--lr", "0.001"}, Words{"--optimizer", "rmsprop", "--lr", "0.001"},
        Words{"--optimizer", "muon", "--lr", "0.02", "--clip-grad-norm", "1"}}) {
    const Words length = {"--max-steps", "20"};
    const std::string whole = cat("whole", number);
    trained(whole, {optimizer, length, {"--devices", "2"}});
    for (const char* devices : {"2", "3"}) {
      const std::string run = cat("shared", number++);
      trained(run, {optimizer, length, {"--devices", devices, "--shard-optimizer"}});
      EXPECT_TRUE(model(run) == model(whole)) << optimizer[1] << " on " << devices;
      EXPECT_TRUE(states(run) == states(whole)) << optimizer[1] << " on " << devices;
    }
  }
}

// The update of a large matrix by muon takes more memory than a step, and one rank has it: all the same both evaluate
// in the same batches.
TEST_F(ShardOptimizer, RanksWhoseUpdatesDifferEvaluateInTheSameBatches) {
  const Words set = {"--model",  "mlp", "--optimizer", "muon", "--lr",      "0.001",
                     "--shards", "0",   "--max-steps", "2",    "--devices", "2"};
  trained("whole", {set});
  trained("shared", {set, {"--shard-optimizer"}});
  EXPECT_TRUE(model("shared") == model("whole"));
}

TEST_F(ShardOptimizer, ARunGoesOnWithAnyNumberOfDevicesWithTheFlagAndWithout) {
  const Words set = {"--optimizer", "adamw", "--lr", "0.002", "--lr-scheduler", "constant", "--model-ema", "0.9"};
  trained("whole", {set, {"--max-steps", "24", "--devices", "1"}});
  int number = 0;
  const std::vector<std::pair<Words, Words>> ways = {
      {{"--devices", "3", "--shard-optimizer"}, {"--devices", "1"}},
      {{"--devices", "1"}, {"--devices", "3", "--shard-optimizer"}},
      {{"--devices", "3", "--shard-optimizer"}, {"--devices", "2", "--shard-optimizer"}}};
  for (const auto& [before, after] : ways) {
    const std::string run = cat("run", number++);
    trained(run, {set, before, {"--max-steps", "10"}});
    Words more = {"train", "--resume", path(run), "--max-steps", "24", "-q"};
    more.insert(more.end(), after.begin(), after.end());
    const Ran r = run_freight(more);
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_TRUE(model(run) == model("whole")) << number;
  }
}

TEST_F(ShardOptimizer, ASignalToSaveSavesTheStatesOfAllRanks) {
  const Words set = {"--optimizer", "adamw", "--lr", "0.002", "--devices", "3", "--shard-optimizer"};
  Running running(args("run", {set, {"--max-steps", "100000", "--epochs", "0"}}));
  ASSERT_TRUE(running.wait_until([&] { return fs::exists(path("run") + "/log.txt"); }));
  // Ranks ignore the signal until they train, so it is sent until it has been heard.
  ASSERT_TRUE(running.wait_until([&] {
    running.send(SIGUSR1);
    return fs::exists(path("run") + "/last");
  }));
  running.send(SIGTERM);
  const Ran r = running.finish();
  EXPECT_EQ(r.code, 143) << r.err;
  size_t saved = 0;
  for (const auto& [name, bytes] : states("run")) {
    if (name.rfind("optimizer.v.", 0) != 0) continue;
    ++saved;
    EXPECT_NE(bytes, std::string(bytes.size(), '\0')) << name;  // whoever keeps it has updated it
  }
  EXPECT_EQ(saved, 7u);
}

TEST_F(ShardOptimizer, SaysWhatARankKeeps) {
  Words all = args("run", {{"--optimizer", "adamw", "--max-steps", "2", "--devices", "2", "--shard-optimizer"}});
  std::erase(all, "-q");
  const Ran r = run_freight(all);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("the optimizer state is sharded over 2 devices: "), std::string::npos) << r.err;
}

constexpr const char* kWide = R"({"format": "freight-model-1", "name": "wide", "input": [1, 28, 28], "net": [
    {"type": "Flatten"}, {"type": "Linear", "out": 1500}, {"type": "ReLU"}, {"type": "Linear", "out": 1500},
    {"type": "ReLU"}, {"type": "Linear", "out": 1500}, {"type": "ReLU"}, {"type": "Linear", "out": 10}]})";

TEST_F(ShardOptimizer, TakesTheMemoryThatIsPlanned) {
  write_file(path("wide.json"), kWide);
  double before = 0;
  for (const Words& flag : {Words{}, Words{"--shard-optimizer"}}) {
    Words all = {"train", dir_, "--model", path("wide.json"), "-b", "24", "--optimizer", "adamw", "--max-steps", "4"};
    all.insert(all.end(), {"--devices", "2", "-q", "--overwrite", "-o", path("run")});
    all.insert(all.end(), flag.begin(), flag.end());
    const Ran r = run_freight(all);
    ASSERT_EQ(r.code, 0) << r.err;
    const auto plan = nlohmann::json::parse(read_file(path("run") + "/run.json"))["plan"];
    const double planned = plan["planned_bytes"].get<double>(), measured = plan["measured_bytes"].get<double>();
    EXPECT_NEAR(measured / planned, 1, 0.08);
    EXPECT_TRUE(before == 0 || before - measured > 15e6) << before - measured;  // of 45e6 bytes of states
    before = measured;
  }
}

}  // namespace
}  // namespace freight::test
