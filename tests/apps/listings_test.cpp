// `freight env` and `freight devices`.
#include <gtest/gtest.h>

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

TEST(DevicesCommand, CountsTheComputeThreads) {
  const Ran r = run_freight({"devices", "--json"}, "", {"OMP_NUM_THREADS=1"});
  EXPECT_EQ(Json::parse(r.out).at("devices").at(0).at("threads"), 1);
}

}  // namespace
}  // namespace freight::test
