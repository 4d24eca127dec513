// `freight train TABLE --devices`: several processes fit the trees of one, to rounding; they stop together, and one
// that is lost is named. They need XGBoost 2.1, which the tests' Python has.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "freight/base/strings.h"
#include "freight/io/npy.h"
#include "rank_processes.h"
#include "run_command.h"
#include "tests/support/files.h"
#include "tests/support/mixed_table.h"
#include "tests/support/python.h"

namespace freight::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

// The library of the Python that has XGBoost; "" where none has.
std::string new_xgboost() {
  std::string python = testing::python_with("xgboost");
  if (python.empty()) python = testing::peer_python();
  if (python.empty()) return {};
  const std::string ask =
      python + " -c 'from xgboost.libpath import find_lib_path; print(find_lib_path()[0])' 2>/dev/null";
  FILE* pipe = ::popen(ask.c_str(), "r");
  if (!pipe) return {};
  char line[4096] = {};
  const bool read = std::fgets(line, sizeof line, pipe) != nullptr;
  ::pclose(pipe);
  std::string path = read ? line : "";
  while (!path.empty() && path.back() == '\n') path.pop_back();
  return path;
}

class TableRanks : public ::testing::Test {
 protected:
  TableRanks() : dir_(scratch_dir()) {}
  void SetUp() override {
    static const std::string library = new_xgboost();
    if (library.empty()) GTEST_SKIP() << "no Python has the package xgboost";
    environment_ = {"FREIGHT_XGBOOST=" + library, "OMP_WAIT_POLICY=passive"};
  }
  std::string path(const std::string& name) const { return dir_ + "/" + name; }
  std::string table(testing::Told told) const {
    const std::string csv = path(cat("table-", static_cast<int>(told), ".csv"));
    testing::write_mixed_table(csv, told);
    return csv;
  }
  // 40 queries of unequal sizes, whose rows lie apart in the file, with a weight for each.
  std::string queries() const {
    std::string csv = "query,a,b,kind,w,told\n";
    for (int i = 0; i < 600; ++i) {
      const int query = i * i % 40, a = i * 37 % 101, b = i * 53 % 89;
      csv += cat("q", query, ",", a, ",", b, ",k", i % 5, ",", 1 + query % 3, ",", (a + b + 11 * (i % 5)) / 60, "\n");
    }
    write_file(path("queries.csv"), csv);
    return path("queries.csv");
  }
  Ran freight(const Words& args) const { return run_freight(args, {}, environment_); }
  Words args(const std::string& run, const std::string& csv, const Words& more) const {
    Words all = {"train", csv, "-q", "-o", path(run)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Trains, and gives the result of the run.
  Json trained(const std::string& run, const std::string& csv, const Words& more) const {
    const Ran r = freight(args(run, csv, more));
    EXPECT_EQ(r.code, 0) << r.err;
    const std::string text = fs::exists(path(run) + "/run.json") ? read_file(path(run) + "/run.json") : "{}";
    return Json::parse(text)["result"];
  }
  std::vector<float> answers(const std::string& run, const std::string& csv) const {
    const std::string npy = path(run + ".npy");
    const Ran r = freight(
        {"predict", path(run) + "/model.safetensors", csv, "--csv", "-q", "-o", path(run + ".csv"), "--npy", npy});
    EXPECT_EQ(r.code, 0) << r.err;
    return io::load_npy(npy).to_vector<float>();
  }
  // The trees of a stored model as XGBoost's JSON, without the numbers of nodes and leaves.
  Json splits(const std::string& run) const {
    const Ran r =
        freight({"export", path(run) + "/model.safetensors", "--format", "xgboost", "-q", "-o", path(run + ".json")});
    EXPECT_EQ(r.code, 0) << r.err;
    Json out;
    const Json all = Json::parse(read_file(path(run + ".json")));
    for (const Json& t : all["learner"]["gradient_booster"]["model"]["trees"]) {
      out.push_back({t["split_indices"], t["left_children"], t["default_left"], t["categories"]});
    }
    return out;
  }
  void expect_close(const std::vector<float>& got, const std::vector<float>& need, double limit) const {
    ASSERT_EQ(got.size(), need.size());
    for (size_t i = 0; i < got.size(); ++i) {
      const auto a = static_cast<double>(got[i]), b = static_cast<double>(need[i]);
      ASSERT_NEAR(a, b, limit * std::max(1.0, std::fabs(b))) << "answer " << i;
    }
  }
  // Waits until a run fits trees. The file is opened before that, and its rows are written afterwards: the processor
  // time of a rank shows that it is fitting in between.
  void wait_for_fit(Running& running, const std::string& run) const {
    ASSERT_TRUE(running.wait_until([&] { return fs::exists(path(run) + "/metrics.jsonl"); }));
    const int pid = process_of(running.pid(), 1);
    const double before = processor_seconds(pid);
    ASSERT_TRUE(running.wait_until([&] { return processor_seconds(pid) > before + 1; }));
  }
  void expect_refused(int code, const Words& more, const Words& parts, const Words& environment = {}) const {
    Words with = environment_;
    with.insert(with.end(), environment.begin(), environment.end());
    const Ran r = run_freight(args("refused", table(testing::Told::value), more), {}, with);
    EXPECT_EQ(r.code, code) << r.err;
    for (const std::string& part : parts) EXPECT_NE(r.err.find(part), std::string::npos) << part << ": " << r.err;
    EXPECT_FALSE(fs::exists(path("refused"))) << more[1];
  }

  const std::string dir_;
  Words environment_;
};

TEST_F(TableRanks, FitTheTreesOfOneDevice) {
  for (const testing::Told told :
       {testing::Told::two, testing::Told::three, testing::Told::value, testing::Told::count}) {
    const std::string csv = table(told);
    const Words set = {"--target", "y", "--rounds", "60", "--early-stop", "8"};
    const Json one = trained(cat("one", static_cast<int>(told)), csv, set);
    const std::vector<float> need = answers(cat("one", static_cast<int>(told)), csv);
    const Json trees = splits(cat("one", static_cast<int>(told)));
    for (const char* devices : {"2", "cpu*3"}) {
      SCOPED_TRACE(cat("table ", static_cast<int>(told), " on ", devices));
      Words all = set;
      all.insert(all.end(), {"--devices", devices, "--overwrite"});
      const Json several = trained("several", csv, all);
      EXPECT_EQ(several["steps"], one["steps"]);
      EXPECT_NEAR(several["val_loss"].get<double>(), one["val_loss"].get<double>(),
                  1e-5 * std::max(1.0, one["val_loss"].get<double>()));
      expect_close(answers("several", csv), need, 2e-6);
      EXPECT_EQ(splits("several"), trees);
    }
  }
}

TEST_F(TableRanks, WeighRowsAndColumnsAsOneDeviceDoes) {
  const std::string csv = table(testing::Told::two);
  for (const Words& set : {Words{"--class-weight", "balanced"}, Words{"--metric", "auc"}, Words{"--weight-column", "x"},
                           Words{"--colsample", "0.6"}, Words{"--monotone", "x=1"}}) {
    SCOPED_TRACE(set[0]);
    Words all = {"--target", "y", "--rounds", "25", "--on-bad-sample", "skip", "--overwrite"};
    all.insert(all.end(), set.begin(), set.end());
    const Json one = trained("one", csv, all);
    all.insert(all.end(), {"--devices", "2"});
    EXPECT_EQ(trained("two", csv, all)["steps"], one["steps"]);
    expect_close(answers("two", csv), answers("one", csv), 2e-6);
  }
}

TEST_F(TableRanks, KeepTheQueriesOfARankingWhole) {
  const std::string csv = queries();
  const Words set = {"--task",   "ranking", "--group-column", "query", "--target", "told",
                     "--rounds", "30",      "--drop",         "w"};
  trained("one", csv, set);
  for (const char* devices : {"2", "3"}) {
    Words all = set;
    all.insert(all.end(), {"--devices", devices, "--overwrite"});
    trained("several", csv, all);
    expect_close(answers("several", csv), answers("one", csv), 2e-6);
  }
  // With weights XGBoost gets cells, and merges the ranks' borders of bins, which are those of all values here.
  Words weighed = {"--task", "ranking", "--group-column", "query", "--target", "told", "--rounds", "30"};
  weighed.insert(weighed.end(), {"--weight-column", "w", "--overwrite"});
  const double alone = trained("one", csv, weighed)["val_loss"].get<double>();
  weighed.insert(weighed.end(), {"--devices", "2"});
  EXPECT_NEAR(trained("several", csv, weighed)["val_loss"].get<double>(), alone, 0.02);
}

TEST_F(TableRanks, FitForestsOfOtherDrawsThatAreAsGood) {
  const std::string csv = table(testing::Told::value);
  const double alone = trained("one", csv, {"--target", "y", "--model", "forest"})["test_loss"].get<double>();
  const double two =
      trained("two", csv, {"--target", "y", "--model", "forest", "--devices", "2"})["test_loss"].get<double>();
  EXPECT_NEAR(two, alone, 0.15 * alone);
}

TEST_F(TableRanks, CompareOnFoldsAsOneDeviceDoes) {
  const std::string csv = table(testing::Told::value);
  const auto board = [&](const std::string& run, const Words& more) {
    Words all = {"train", csv, "--target", "y", "--json", "-q", "-o", path(run)};
    all.insert(all.end(), more.begin(), more.end());
    const Ran r = freight(all);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.code == 0 ? Json::parse(r.out)["leaderboard"]["standings"] : Json();
  };
  const Json one = board("one", {"--folds", "3", "--rounds", "20"}),
             two = board("two", {"--folds", "3", "--rounds", "20", "--devices", "2"});
  ASSERT_EQ(two.size(), 1u);
  EXPECT_NEAR(two[0]["mean"].get<double>(), one[0]["mean"].get<double>(), 1e-4 * one[0]["mean"].get<double>());
  expect_close(answers("two", csv), answers("one", csv), 2e-6);
  // Others than trees are fitted by rank 0 alone, however long that takes.
  const Json all = board(
      "auto", {"--model", "auto", "--folds", "2", "--time-budget", "12s", "--devices", "2", "--comm-timeout", "1.5"});
  std::vector<std::string> names;
  for (const Json& s : all) names.push_back(s["learner"].get<std::string>());
  for (const char* name : {"gbdt", "forest", "ridge"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
  const Json tuned = board("tuned", {"--tune", "3", "--folds", "2", "--rounds", "10", "--devices", "2"});
  EXPECT_EQ(tuned.size(), 4u);
}

TEST_F(TableRanks, ALostRankIsNamed) {
  const Words endless = {"--target", "y", "--rounds", "1000000", "--early-stop", "0", "--devices", "3"};
  Running running(args("lost", table(testing::Told::value), endless), {}, environment_);
  wait_for_fit(running, "lost");
  const int pid = process_of(running.pid(), 1);
  ASSERT_GT(pid, 0);
  ::kill(pid, SIGKILL);
  const Ran lost = running.finish();
  EXPECT_EQ(lost.code, 7) << lost.err;
  EXPECT_NE(lost.err.find("rank 1 was killed by signal 9"), std::string::npos) << lost.err;
  EXPECT_NE(lost.err.find("ranks/rank-1.log"), std::string::npos) << lost.err;
  EXPECT_EQ(Json::parse(read_file(path("lost") + "/run.json"))["exit_code"], 7);
}

TEST_F(TableRanks, ASignalEndsAllAndTheTreesSoFarAreStored) {
  const std::string csv = table(testing::Told::value);
  const Words endless = {"--target", "y", "--rounds", "1000000", "--early-stop", "0", "--devices", "2"};
  Running running(args("stopped", csv, endless), {}, environment_);
  wait_for_fit(running, "stopped");
  running.send(SIGTERM);
  const Ran r = running.finish();
  EXPECT_EQ(r.code, 143) << r.err;
  EXPECT_NE(r.out.find("stopped after "), std::string::npos) << r.out;
  EXPECT_EQ(answers("stopped", csv).size(), 600u);
}

// Two processes that somebody else started.
TEST_F(TableRanks, JoinUnderAnotherLauncher) {
  const std::string csv = table(testing::Told::two);
  const Words set = {"--target", "y", "--rounds", "20"};
  trained("one", csv, set);
  const auto started = [&](int rank, const char* port) {
    Words with = environment_;
    with.insert(with.end(), {cat("RANK=", rank), "WORLD_SIZE=2", cat("LOCAL_RANK=", rank), "LOCAL_WORLD_SIZE=2",
                             "MASTER_ADDR=127.0.0.1", cat("MASTER_PORT=", port)});
    return with;
  };
  const std::string port = cat(20000 + ::getpid() % 20000);
  Running second(args("two", csv, set), {}, started(1, port.c_str()));
  Running first(args("two", csv, set), {}, started(0, port.c_str()));
  const Ran r = first.finish(), beside = second.finish();
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(beside.code, 0) << beside.err;
  EXPECT_EQ(beside.out, "");
  expect_close(answers("two", csv), answers("one", csv), 2e-6);
}

TEST_F(TableRanks, WhatSeveralDoNotFitIsSaid) {
  const Words two = {"--target", "y", "--devices", "2"};
  const auto with = [&](const Words& more) {
    Words all = two;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  for (const char* model : {"linear", "ridge", "baseline", "mlp"}) {
    const std::string named = cat("--model ", model, " is fitted by one device");
    expect_refused(2, with({"--model", model}), {"--devices", named, "gbdt, forest, auto"});
    expect_refused(2, with({"--model", model, "--dry-run"}), {named});
  }
  for (const char* objective : {"absoluteerror", "quantile"}) {
    expect_refused(2, with({"--objective", objective}), {"--devices", objective, "one device"});
  }
  expect_refused(2, with({"--external-memory", "on"}), {"--external-memory", "--devices"});
  expect_refused(2, with({"--lr-scheduler", "cosine"}), {"--lr-scheduler is a flag of networks"});
  expect_refused(2, with({"--device-weights", "2,1"}), {"--device-weights is a flag of networks"});
  expect_refused(2, with({"--shard-optimizer"}), {"--shard-optimizer is a flag of networks"});
  expect_refused(2, with({"--overlap", "yes", "--dry-run"}), {"--overlap is a flag of networks"});
  expect_refused(2, {"--target", "y", "--devices", "cuda:0,cuda:0"}, {"cuda:0 takes one process"});
  expect_refused(2, {"--target", "y", "--devices", "cpu,cuda:0"}, {"expected devices of one kind"});
  expect_refused(2, with({"--device", "cuda:0"}), {"a GPU takes one process", "--device cuda"});
  expect_refused(4, with({"--device", "cuda"}), {"cuda"});
  expect_refused(2, {"--target", "y", "--devices", "opencl:0,opencl:1"}, {"--device", "opencl:0"});
  write_file(path("few.csv"), "x,y\n1,1.5\n2,2.5\n3,3.25\n");
  const Ran few = freight(args("refused", path("few.csv"), {"--target", "y", "--devices", "4"}));
  EXPECT_EQ(few.code, 2) << few.err;
  EXPECT_NE(few.err.find("got 4 devices for 2 rows"), std::string::npos) << few.err;
}

TEST_F(TableRanks, AnOldLibrarySaysWhichIsNeeded) {
  const char* const debians = "/usr/lib/x86_64-linux-gnu/libxgboost.so.0";
  if (!fs::exists(debians)) GTEST_SKIP() << "there is no " << debians;
  const Ran r =
      freight(args("refused", table(testing::Told::value), {"--target", "y", "--devices", "2", "--xgboost", debians}));
  EXPECT_EQ(r.code, 4) << r.err;
  for (const char* part : {"XGBoost 2.1.0", "is 1.7.", "pip install xgboost-cpu", "--xgboost PATH"}) {
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  }
  EXPECT_FALSE(fs::exists(path("refused")));
}

}  // namespace
}  // namespace freight::test
