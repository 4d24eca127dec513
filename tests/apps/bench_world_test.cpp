// `freight bench compare --world` as its users meet it: what it measures adds up, and it says why more devices are not
// as many times as fast.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "freight/base/cpu_info.h"
#include "freight/base/strings.h"
#include "freight/plan/rates.h"
#include "rank_processes.h"
#include "run_command.h"
#include "tests/support/simple_rates.h"

namespace freight::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class BenchScaling : public ::testing::Test {
 protected:
  BenchScaling() : dir_(scratch_dir()) { std::filesystem::create_directory(dir_ + "/tmp"); }
  Words args(const Words& more) const {
    Words all = {"bench", "compare", "--model", "mlp", "-b", "30", "--seconds", "0.05", "--quiet"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Ran scaling(const Words& more, const Words& environment = {}) const {
    Words all = {"TMPDIR=" + dir_ + "/tmp", "FREIGHT_CACHE=" + dir_ + "/cache"}, words = {"--world", "1,2,4"};
    all.insert(all.end(), environment.begin(), environment.end());
    words.insert(words.end(), more.begin(), more.end());
    const Ran r = run_freight(args(words), {}, all);
    EXPECT_TRUE(std::filesystem::is_empty(dir_ + "/tmp"));
    return r;
  }
  const std::string dir_;
};

TEST_F(BenchScaling, WhatRanksDoAddsUpToTheStep) {
  const std::string file = dir_ + "/scaling.json";
  const Ran r = scaling({"--world", "1,2,3", "--json", "--out", file});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json j = Json::parse(r.out);
  EXPECT_EQ(Json::parse(read_file(file)), j);
  ASSERT_EQ(j["worlds"].size(), 3u);
  const double one = j["worlds"][0]["step_seconds"];
  for (const Json& w : j["worlds"]) {
    const int devices = w["devices"];
    const double step = w["step_seconds"];
    EXPECT_EQ(w["batch_per_device"], 30 / devices);
    EXPECT_GE(w["steps"], 5);
    EXPECT_NEAR(w["samples_per_second"].get<double>() * step, 30, 1e-6);
    EXPECT_NEAR(w["efficiency"].get<double>(), one / (step * devices), 1e-9);
    ASSERT_EQ(w["ranks"].size(), static_cast<size_t>(devices));
    double mean = 0, lost = 0;
    for (const Json& rank : w["ranks"]) {
      EXPECT_GT(rank["compute_seconds"], 0);
      EXPECT_EQ(rank["sums_seconds"] > 0, devices > 1);
      EXPECT_EQ(rank["waiting_seconds"] > 0, devices > 1);
      for (const char* part : {"compute", "sums", "waiting", "data"}) {
        mean += rank[cat(part, "_seconds")].get<double>() / devices;
      }
    }
    EXPECT_NEAR(mean, step, 0.1 * step);  // the ranks' clocks start at other times
    for (const Json& loss : w["losses"]) lost += loss["seconds"].get<double>();
    EXPECT_NEAR(lost, mean - one / devices, 0.01 * step);
    EXPECT_EQ(w["sum_cost"]["seconds_per_byte"] > 0 || w["sum_cost"]["start_seconds"] > 0, devices > 1);
    EXPECT_TRUE(w["predicted_step_seconds"].is_null());  // not calibrated
  }
}

TEST_F(BenchScaling, SaysWhyAndWarnsWhereRanksShareProcessors) {
  const int more = cpu_info().cores + 1;
  const Ran r = scaling({"--world", cat("1,", more)});
  ASSERT_EQ(r.code, 0) << r.err;
  for (const std::string& part :
       {std::string("efficiency"), std::string("limited by"), cat(more, " devices are "), std::string("% of linear"),
        std::string("freight calibrate measures this machine once")}) {
    EXPECT_NE(r.out.find(part), std::string::npos) << part << "\n" << r.out;
  }
  EXPECT_NE(r.err.find(cat(more, " ranks share ", cpu_info().cores, " core")), std::string::npos) << r.err;
  const Ran own = scaling({"--world", "1", "--seconds", "0.01"});
  EXPECT_EQ(own.err.find("ranks share"), std::string::npos) << own.err;
}

TEST_F(BenchScaling, StandsBesideWhatThePlanPredicts) {
  const plan::Rates rates = plan::simple_rates();
  const std::string file = dir_ + "/rates.json";
  write_file(file, rates.to_json());
  const Ran r = scaling({"--world", "1,2", "--json", "--rates", file});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json worlds = Json::parse(r.out)["worlds"];
  EXPECT_FALSE(worlds[0].contains("beside_compute"));
  // freight plan tells the same of one device; of two it adds what sums and ranks that compute at once cost, as these
  // were measured here.
  const Json times = {{"worlds", Json::array({{{"world", 2},
                                               {"hosts", 1},
                                               {"figures", Json::array()},
                                               {"cost", worlds[1]["sum_cost"]},
                                               {"beside_compute", worlds[1].at("beside_compute")}}})}};
  write_file(dir_ + "/sums.json", times.dump());
  const Ran plan = run_freight({"plan", "digits", "--model", "mlp", "-b", "30", "--rates", file, "--world", "1,2",
                                "--link", dir_ + "/sums.json", "--json"});
  ASSERT_EQ(plan.code, 0) << plan.err;
  const Json planned = Json::parse(plan.out)["world"];
  for (size_t i = 0; i < 2; ++i) {
    const Json& range = worlds[i]["predicted_step_seconds"];
    ASSERT_FALSE(range.is_null());
    const Json& other = planned[i]["estimates"][0]["step_seconds"];
    EXPECT_NEAR(range["low"].get<double>(), other["low"].get<double>(), 1e-3 * other["low"].get<double>()) << other;
    EXPECT_NEAR(range["high"].get<double>(), other["high"].get<double>(), 1e-3 * other["high"].get<double>());
  }
}

TEST_F(BenchScaling, RefusesWhatItCannotMeasure) {
  const auto refused = [&](const Words& more, const std::string& part) {
    const Ran r = scaling(more);
    EXPECT_EQ(r.code, 2) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
    EXPECT_EQ(r.out, "");
  };
  refused({"--world", "0"}, "1,2,4,8, got '0'");
  refused({"--world", "a"}, "1,2,4,8, got 'a'");
  refused({"--world", "2,1"}, "in ascending order");
  refused({"--world", "1,31"}, "got 31 devices for a batch of 30");
  refused({"--world", "1,65", "-b", "100"}, "expected 1 to 64, got 65");
  refused({"--world", "1,4", "--shards", "3"}, "got 4 devices for 3 shards");
  refused({"--seconds", "0"}, "--seconds");
  refused({"--model", "gbdt"}, "gbdt");
  refused({"--batches", "30,60"}, "expected one batch size with --world");
  refused({"--devices", "cpu,ref"}, "expected one device with --world");
  refused({"--html", dir_ + "/page.html"}, "--html is a flag of networks, --workloads classic; this compares --world");
  // These are told before anything is measured.
  for (const auto& [flag, code] : {std::pair("--out", 1), {"--rates", 3}}) {
    const std::string path = dir_ + "/nowhere/x.json";
    const Ran r = scaling({"--seconds", "600", flag, path});
    EXPECT_EQ(r.code, code) << r.err;
    EXPECT_NE(r.err.find(path), std::string::npos) << r.err;
  }
}

TEST_F(BenchScaling, NamesARankThatIsKilledAndLeavesNothing) {
  Running running(args({"--world", "3", "--seconds", "600"}), {}, {"TMPDIR=" + dir_ + "/tmp"});
  const int pid = awaited_process(running, 1);
  ASSERT_GT(pid, 0);
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  const Ran r = running.finish();
  EXPECT_EQ(r.code, 7) << r.err;
  EXPECT_NE(r.err.find("bench compare: rank 1 was killed by signal 9"), std::string::npos) << r.err;
  EXPECT_TRUE(std::filesystem::is_empty(dir_ + "/tmp"));
}

TEST_F(BenchScaling, IsOneRankUnderAnotherLauncher) {
  const auto environment = [&](int rank) {
    return Words{cat("RANK=", rank), "WORLD_SIZE=2", cat("MASTER_PORT=", 20000 + ::getpid() % 20000),
                 "TMPDIR=" + dir_ + "/tmp", "FREIGHT_CACHE=" + dir_ + "/cache"};
  };
  Running other(args({"--json"}), {}, environment(1));
  const Ran first = run_freight(args({"--json"}), {}, environment(0)), second = other.finish();
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(second.out, "");
  EXPECT_EQ(Json::parse(first.out)["worlds"][0]["devices"], 2);
}

}  // namespace
}  // namespace freight::test
