// `freight plan`, and what `freight train` makes of a run that does not fit.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "run_command.h"

namespace freight::test {
namespace {

using Json = nlohmann::json;

TEST(PlanCommand, TellsMemoryFormulaAndDevices) {
  const Ran r = run_freight({"plan", "--model", "lenet", "-b", "32", "--samples", "60000", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json j = Json::parse(r.out);
  EXPECT_EQ(j.at("parameters"), 61706);
  int64_t sum = 0;
  for (const auto& [kind, bytes] : j.at("memory").items()) sum += bytes.get<int64_t>();
  EXPECT_EQ(j.at("total_bytes"), sum);
  EXPECT_GT(j.at("formula").at("bytes_per_sample"), 0);
  EXPECT_FALSE(j.at("peak").at("tensors").empty());
  EXPECT_GE(j.at("devices").size(), 84u);  // and this machine
  for (const Json& d : j.at("devices")) EXPECT_TRUE(d.contains("assumed")) << d;
  const Json& second = j.at("devices")[1];
  EXPECT_GT(second.at("run_hours").at("high"), 0);
  EXPECT_FALSE(second.at("source").empty());
  const Ran text = run_freight({"plan", "--model", "lenet", "-b", "32", "--means"});
  for (const char* part : {"formula", "largest batch", "--recompute all", "--precision bf16", "dense"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part;
  }
}

TEST(PlanCommand, CsvHasALinePerDevice) {
  const Ran r = run_freight({"plan", "--model", "mlp", "--csv", "--sort", "name"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_GE(std::count(r.out.begin(), r.out.end(), '\n'), 85);
  EXPECT_EQ(r.out.rfind("device,fits,", 0), 0u);
}

TEST(PlanCommand, ADescribedDeviceComesWithItsPrice) {
  const Ran r = run_freight({"plan", "--model", "mlp", "--samples", "1000", "--device-name", "mine", "--device-memory",
                             "8", "--device-bandwidth", "200", "--device-tflops", "5", "--device-price", "0.5",
                             "--sort", "dollars", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json devices = Json::parse(r.out).at("devices");
  const auto mine =
      std::find_if(devices.begin(), devices.end(), [](const Json& d) { return d.at("device") == "mine"; });
  ASSERT_NE(mine, devices.end());
  EXPECT_GT(mine->at("dollars").at("high"), 0);
}

TEST(PlanCommand, RefusesWhatItCannotPlan) {
  struct Row {
    std::vector<std::string> args;
    const char* part;
  };
  const Row rows[] = {
      {{}, "name a model"},
      {{"--model", "lenett"}, "lenet"},
      {{"--model", "lenet", "--batch-size", "0"}, "--batch-size"},
      {{"--model", "lenet", "--input-shape", "3xq"}, "--input-shape"},
      {{"--model", "alexnet", "--input-shape", "3x16x16"}, "alexnet"},
      {{"digits", "--model", "lenet", "--input-shape", "1x28x28"}, "--input-shape"},
      {{"--model", "lenet", "--device-memory", "8"}, "--device-bandwidth"},
      {{"--model", "lenet", "--device-price", "1"}, "--device-price"},
      {{"--model", "lenet", "--device-memory", "8", "--device-bandwidth", "9", "--device-tflops", "1", "--device-price",
        "-1"},
       "dollars above 0"},
      {{"--model", "lenet", "--sort", "beauty"}, "--sort"},
  };
  for (const Row& row : rows) {
    std::vector<std::string> args = {"plan"};
    args.insert(args.end(), row.args.begin(), row.args.end());
    const Ran r = run_freight(args);
    EXPECT_EQ(r.code, 2) << row.part << r.out;
    EXPECT_NE(r.err.find(row.part), std::string::npos) << r.err;
  }
  EXPECT_EQ(run_freight({"plan", "--model", "lenet", "--prices", "/nowhere.json"}).code, 3);
}

TEST(PlanCommand, AFileWithASparsePeakIsQuestioned) {
  const std::string file = scratch_dir() + "/devices.json";
  write_file(file, R"({"format": "freight-devices-1", "devices": [{"name": "Card", "kind": "gpu", "vendor": "NVIDIA",
      "year": 2022, "memory_gib": 80, "bandwidth_gb_per_s": 3350, "dense_tflops": {"fp32": 67, "bf16": 1979},
      "source": "headline", "date": "2026-01-01"}]})");
  const Ran r = run_freight({"plan", "--model", "mlp", "--devices", file});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("sparse"), std::string::npos) << r.err;
  EXPECT_NE(r.out.find("Card"), std::string::npos);
}

class FitOfTrain : public ::testing::Test {
 protected:
  // Without --fit a run of lenet on digits takes some 6 MiB.
  Ran train(const std::vector<std::string>& more) {
    std::vector<std::string> args = {
        "train",        "digits", "--model",    "lenet", "--max-steps",     "3",  "-b",          "256",
        "--eval-every", "9",      "--momentum", "0.9",   "--deterministic", "-o", dir_ + "/run", "--json",
        "--overwrite"};
    args.insert(args.end(), more.begin(), more.end());
    return run_freight(args);
  }
  std::string dir_ = scratch_dir();
};

TEST_F(FitOfTrain, IsRefusedWithTheCommandThatWouldFit) {
  const Ran whole = train({});
  ASSERT_EQ(whole.code, 0) << whole.err;
  const Json result = Json::parse(whole.out);
  EXPECT_GT(result.at("planned_bytes"), 0);
  EXPECT_GT(result.at("measured_bytes"), 0);
  const Json kept = Json::parse(read_file(dir_ + "/run/run.json")).at("plan");
  EXPECT_EQ(kept.at("planned_bytes"), result.at("planned_bytes"));
  EXPECT_EQ(kept.at("measured_step_seconds"), result.at("measured_step_seconds"));
  EXPECT_GT(kept.at("measured_step_seconds"), 0);
  EXPECT_NE(whole.err.find("memory  planned"), std::string::npos) << whole.err;

  std::filesystem::remove_all(dir_ + "/run");
  const double gib = result.at("planned_bytes").get<double>() / (1 << 30);
  const std::string limit = std::to_string(0.8 * gib);
  const Ran refused = train({"--memory-limit", limit});
  EXPECT_EQ(refused.code, 5);
  for (const char* part : {"need", "free", "largest tensors", "--grad-accum 2"}) {
    EXPECT_NE(refused.err.find(part), std::string::npos) << refused.err;
  }
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/run"));

  const Ran adapted = train({"--memory-limit", limit, "--fit", "auto"});
  ASSERT_EQ(adapted.code, 0) << adapted.err;
  EXPECT_NE(adapted.err.find("going on with --grad-accum 2"), std::string::npos) << adapted.err;
  const Json then = Json::parse(adapted.out);
  EXPECT_LE(then.at("planned_bytes").get<double>(), 0.8 * gib * (1 << 30));
  EXPECT_NEAR(then.at("train_loss").get<double>(), result.at("train_loss").get<double>(), 1e-4);
}

TEST_F(FitOfTrain, SaysWhereNothingHelps) {
  const Ran r = train({"--memory-limit", "0.0001", "--fit", "auto"});
  EXPECT_EQ(r.code, 5);
  EXPECT_NE(r.err.find("no batch size"), std::string::npos) << r.err;
  EXPECT_EQ(train({"--memory-limit", "0.0001", "--fit", "off"}).code, 0);
}

}  // namespace
}  // namespace freight::test
