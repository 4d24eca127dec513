// `freight env` and `freight devices`.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "run_command.h"

namespace freight::test {
namespace {

using Json = nlohmann::json;

TEST(EnvCommand, ShowsValuesAndMeanings) {
  const Ran r = run_freight({"env", "--json"}, "", {"FREIGHT_DATA=/some/where"});
  ASSERT_EQ(r.code, 0) << r.err;
  bool found = false;
  for (const Json& v : Json::parse(r.out)) {
    EXPECT_FALSE(v.at("meaning").get<std::string>().empty());
    if (v.at("name") == "FREIGHT_DATA") found = v.at("value") == "/some/where" && v.at("flag") == "--data-dir";
    if (v.at("name") == "FREIGHT_CACHE") {
      EXPECT_TRUE(v.at("value").is_null());
    }
  }
  EXPECT_TRUE(found);
  EXPECT_NE(run_freight({"env"}).out.find("FREIGHT_CACHE"), std::string::npos);
}

TEST(EnvCommand, ABooleanFlagHasANegation) {
  EXPECT_EQ(run_freight({"env", "--json", "--no-json"}).out.rfind("variable", 0), 0u);
  EXPECT_EQ(run_freight({"env", "--json=true"}).out.rfind("[", 0), 0u);
}

TEST(OpsCommand, ListsFunctionsAndOpsWithTheirArguments) {
  const Ran all = run_freight({"ops", "--json"});
  ASSERT_EQ(all.code, 0) << all.err;
  const Json j = Json::parse(all.out);
  EXPECT_GT(j.at("functions").size(), 100u);
  EXPECT_GT(j.at("ops").size(), 80u);
  const Json one = Json::parse(run_freight({"ops", "conv2d", "--json"}).out);
  ASSERT_EQ(one.at("functions").size(), 1u);
  EXPECT_TRUE(one.at("ops").empty());
  const Json& parameters = one.at("functions").at(0).at("parameters");
  EXPECT_EQ(parameters.at(2).at("name"), "bias");
  EXPECT_TRUE(parameters.at(2).at("default").is_null());
  EXPECT_EQ(parameters.at(3).at("options"), "ConvOptions");
  EXPECT_EQ(parameters.at(3).at("default"), 1);
  EXPECT_NE(run_freight({"ops", "softmax"}).out.find("softmax(x, axis = -1) -> y"), std::string::npos);
  EXPECT_NE(run_freight({"ops", "softmax", "--graph"}).out.find("softmax: x -> y {axis=0}"), std::string::npos);
  const Ran wrong = run_freight({"ops", "sofmax"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("no function or op of this name; did you mean softmax?"), std::string::npos) << wrong.err;
}

TEST(DevicesCommand, ListsTheProcessorAndSaysWhyThereIsNoGpu) {
  const Ran r = run_freight({"devices", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json j = Json::parse(r.out);
  const Json& cpu = j.at("devices").at(0);
  EXPECT_EQ(cpu.at("name"), "cpu");
  EXPECT_GE(cpu.at("cores").get<int>(), 1);
  EXPECT_GT(cpu.at("memory_bytes").get<int64_t>(), int64_t{1} << 28);
  EXPECT_LE(cpu.at("memory_available_bytes").get<int64_t>(), cpu.at("memory_bytes").get<int64_t>());
  EXPECT_NE(run_freight({"devices"}).out.find("cuda    none: "), std::string::npos);
}

TEST(DevicesCommand, ListsEveryOpenClDeviceAndEachComputes) {
  if (run_freight({"devices"}).out.find("opencl:0") == std::string::npos) GTEST_SKIP() << "no OpenCL device";
  const std::string dir = scratch_dir();
  std::ofstream(dir + "/g.txt") << "graph {\n  %0 = iota {shape=[3], dtype=f32} : f32[3]\n  return %0\n}\n";
  const std::vector<std::string> two = {"POCL_DEVICES=pthread pthread"};
  const Json devices = Json::parse(run_freight({"devices", "--json"}, "", two).out).at("devices");
  for (size_t i = 1; i < devices.size(); ++i) {
    EXPECT_EQ(devices[i].at("name"), "opencl:" + std::to_string(i - 1));
    EXPECT_GT(devices[i].at("memory_bytes").get<int64_t>(), 0);
    const Ran r = run_freight({"run", dir + "/g.txt", "--device", devices[i].at("name"), "-o", dir + "/out"}, "", two);
    EXPECT_EQ(r.code, 0) << r.err;
  }
  const Ran r = run_freight({"run", dir + "/g.txt", "--device", "opencl:77", "-o", dir + "/out"});
  EXPECT_EQ(r.code, 4);
  EXPECT_NE(r.err.find("no OpenCL device 77"), std::string::npos) << r.err;
}

TEST(DevicesCommand, WithoutADriverThereIsAReasonAndExitCode4) {
  const std::vector<std::string> none = {"OCL_ICD_VENDORS=/nonexistent", "OPENCL_VENDOR_PATH=/nonexistent"};
  EXPECT_NE(run_freight({"devices"}, "", none).out.find("opencl  none: the OpenCL library finds no device"),
            std::string::npos);
  const Ran r = run_freight({"train", "digits", "--device", "opencl:0"}, "", none);
  EXPECT_EQ(r.code, 4);
  EXPECT_NE(r.err.find("finds no device"), std::string::npos) << r.err;
}

TEST(DevicesCommand, MeasuresWhenAskedTo) {
  const Ran r = run_freight({"devices", "--measure", "--seconds", "0.02", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json listed = Json::parse(r.out);
  for (const Json& d : listed.at("devices")) {
    if (!d.value("usable", true)) continue;
    for (const char* rate : {"matmul_f32_flops_per_s", "copy_bytes_per_s", "launch_s"}) {
      EXPECT_GT(d.at("measured").at(rate).get<double>(), 0) << d.dump();
    }
    EXPECT_EQ(d.at("measured").at("matmul_bf16_flops_per_s").is_null(), d.at("measured").contains("why_no_bf16"));
  }
  EXPECT_EQ(run_freight({"devices", "--json"}).out.find("measured"), std::string::npos);
}

TEST(DevicesCommand, CountsTheComputeThreads) {
  const Ran r = run_freight({"devices", "--json"}, "", {"OMP_NUM_THREADS=1"});
  EXPECT_EQ(Json::parse(r.out).at("devices").at(0).at("threads"), 1);
}

}  // namespace
}  // namespace freight::test
