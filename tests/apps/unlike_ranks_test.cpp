// Devices that are not alike share a batch: `freight train --devices cpu,opencl:0`, --device-weights, and what
// `freight plan --devices` says of it beforehand. "ref" is a slow device that is always there.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "freight/base/strings.h"
#include "rank_models.h"
#include "run_command.h"

namespace freight::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class UnlikeRanks : public DigitRuns {
 protected:
  io::SafeTensors weights(const std::string& run) const {
    return io::load_safetensors(path(run) + "/model.safetensors");
  }
  Json run_json(const std::string& run) const { return Json::parse(read_file(path(run) + "/run.json")); }

  Ran train(const std::string& run, const Words& more) const {
    Words all = {"train", dir_, "--model", "mlp", "-b", "32", "--max-steps", "30", "-o", path(run)};
    all.insert(all.end(), more.begin(), more.end());
    return run_freight(all);
  }
  static bool has_opencl() { return run_freight({"devices"}).out.find("opencl:0") != std::string::npos; }
};

TEST_F(UnlikeRanks, UnequalPartsTrainWhatOneDeviceDoes) {
  const Words set = {"--clip-grad-norm", "0.5", "--momentum", "0.9", "--lr", "0.05", "--deterministic"};
  const Ran one = train("one", set);
  ASSERT_EQ(one.code, 0) << one.err;
  std::vector<Words> all = {{"--devices", "cpu*2", "--device-weights", "4,1"},
                            {"--devices", "cpu,ref", "--device-weights", "7,1"},
                            {"--devices", "cpu*3", "--device-weights", "1,3,2", "--grad-accum", "2"}};
  if (has_opencl()) {
    all.push_back({"--devices", "opencl:0*2"});
    all.push_back({"--devices", "cpu,opencl:0", "--device-weights", "3,1", "--grad-accum", "2"});
    all.push_back({"--devices", "opencl:0,cpu"});
  }
  int number = 0;
  for (Words& devices : all) {
    const std::string run = cat("several", number++);
    devices.insert(devices.end(), set.begin(), set.end());
    const Ran r = train(run, devices);
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_LT(difference(weights(run), weights("one")), 5e-5) << devices[1];
    EXPECT_NEAR(run_json(run)["result"]["test_loss"].get<double>(),
                run_json("one")["result"]["test_loss"].get<double>(), 2e-4);
    EXPECT_EQ(run_json(run)["result"]["test_top1"], run_json("one")["result"]["test_top1"]);
  }
  EXPECT_EQ(run_json("several0")["ranks"]["units"], (Json{26, 6}));
  EXPECT_EQ(run_json("several2")["ranks"]["units"], (Json{5, 16, 11}));
}

TEST_F(UnlikeRanks, WeightsDealShardsToTheSameModelToTheByte) {
  const Words shards = {"--shards", "6", "--optimizer", "adamw", "--lr", "0.002"};
  const auto with = [&](const Words& more) {
    Words all = shards;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  ASSERT_EQ(train("one", with({"--devices", "1"})).code, 0);
  const Ran r = train("three", with({"--devices", "cpu*3", "--device-weights", "4,1,1"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(run_json("three")["ranks"]["units"], (Json{4, 1, 1}));
  EXPECT_TRUE(model("three") == model("one"));
}

TEST_F(UnlikeRanks, ShareABatchAsMeasuredStepsSayAndARunThatGoesOnKeepsToIt) {
  const Ran r = train("run", {"--devices", "cpu,ref", "--max-steps", "10"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("ms a step predicted, of which"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("warning: together the devices take"), std::string::npos) << r.err;  // ref is that slow
  EXPECT_NE(r.err.find("rank 0 (cpu) alone would take"), std::string::npos) << r.err;
  const Json ranks = run_json("run")["ranks"];
  EXPECT_EQ(ranks["devices"], (Json{"cpu", "ref"}));
  EXPECT_EQ(ranks["units"][0].get<int>() + ranks["units"][1].get<int>(), 32);
  EXPECT_GT(ranks["units"][0], ranks["units"][1]);
  EXPECT_GT(ranks["predicted_step_seconds"], ranks["predicted_alone_seconds"][0]);

  const Ran more = run_freight({"train", "--resume", path("run"), "--devices", "cpu,ref", "--max-steps", "20"});
  ASSERT_EQ(more.code, 0) << more.err;
  EXPECT_EQ(more.err.find("predicted"), std::string::npos) << more.err;
  EXPECT_EQ(run_json("run")["ranks"]["units"], ranks["units"]);
  const Ran alike = run_freight({"train", "--resume", path("run"), "--devices", "cpu*2", "--max-steps", "30"});
  ASSERT_EQ(alike.code, 0) << alike.err;
  EXPECT_FALSE(run_json("run").contains("ranks"));
}

TEST_F(UnlikeRanks, ThePlanSaysBeforehandWhetherItIsWorthIt) {
  const Words command = {"plan", "--model", "mlp", "-b", "64", "--devices", "cpu,ref"};
  const Ran text = run_freight(command);
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("not worth it: cpu alone takes"), std::string::npos) << text.out;
  Words json = command;
  json.emplace_back("--json");
  const Ran r = run_freight(json);
  ASSERT_EQ(r.code, 0) << r.err;
  const Json j = Json::parse(r.out);
  EXPECT_EQ(j["fastest_alone"], "cpu");
  EXPECT_EQ(j["worth_it"], false);
  EXPECT_EQ(j["units"][0].get<int>() + j["units"][1].get<int>(), 64);
  EXPECT_GT(j["step_seconds"], j["alone_seconds"][0]);
  EXPECT_EQ(run_freight({"plan", "--model", "mlp", "--devices", "cpu,opencl:77"}).code, 4);
  const Ran means = run_freight({"plan", "--model", "mlp", "--devices", "cpu,ref", "--means"});
  EXPECT_EQ(means.code, 2);
  EXPECT_NE(means.err.find("--means"), std::string::npos) << means.err;
}

}  // namespace
}  // namespace freight::test
