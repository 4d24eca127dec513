// `freight train --elastic`: ranks are killed, stopped and come back while the run goes on, and what is stored in the
// end is what an undisturbed run stores, to the byte.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "freight/base/clock.h"
#include "freight/base/philox.h"
#include "rank_models.h"
#include "rank_processes.h"
#include "tests/comm/hosts.h"
#include "tests/support/small_digits.h"

namespace freight::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

bool is_long() { return std::getenv("FREIGHT_LONG") != nullptr; }

// Kills a rank, which the others tell as `lost`, and waits until it is back.
void kill_until_back(Running& running, int rank, const char* lost) {
  const int process = awaited_process(running.pid(), rank);
  ASSERT_GT(process, 0);
  ::kill(process, SIGKILL);
  ASSERT_TRUE(running.wait_for(cat("rank ", rank, " ", lost), 60));
  ASSERT_TRUE(running.wait_for(cat("rank ", rank, " is back"), 60));
}

class ElasticRuns : public ::testing::Test {
 protected:
  ElasticRuns() : dir_(scratch_dir()) {
    write_small_digits(dir_);
    write_file(path("normed.json"), kNormed);
  }
  std::string path(const std::string& name) const { return dir_ + "/" + name; }
  std::string model(const std::string& run) const { return read_file(path(run) + "/model.safetensors"); }

  Words args(const std::string& run, int64_t steps, const Words& more) const {
    Words all = {"train",        dir_,  "--model",      path("normed.json"),
                 "-b",           "32",  "--max-steps",  cat(steps),
                 "--epochs",     "0",   "--optimizer",  "adamw",
                 "--model-ema",  "0.9", "--eval-every", "3",
                 "--save-every", "7",   "-o",           path(run)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  void train_undisturbed(int64_t steps, const Words& more = {}) const {
    Words all = {"--shards", "8", "--devices", "1", "-q"};
    all.insert(all.end(), more.begin(), more.end());
    const Ran r = run_freight(args("undisturbed", steps, all));
    ASSERT_EQ(r.code, 0) << r.err;
  }
  // The rows of metrics.csv without what differs by time: each epoch's figures are over all of its samples.
  std::string rows(const std::string& run) const {
    std::istringstream file(read_file(path(run) + "/metrics.csv"));
    std::vector<size_t> columns;
    std::string out, line;
    for (bool head = true; std::getline(file, line); head = false) {
      const std::vector<std::string> cells = split(line, ',');
      for (size_t i = 0; head && i < cells.size(); ++i) {
        const bool kept = cells[i] == "step" || cells[i] == "epoch" || cells[i] == "split" || cells[i] == "loss" ||
                          cells[i] == "top1" || cells[i] == "lr";
        if (kept) columns.push_back(i);
      }
      for (const size_t i : columns) out += (i < cells.size() ? cells[i] : "?") + " ";
      out += "\n";
    }
    return out;
  }
  void expect_undisturbed(const Ran& r, const std::string& run) const {
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_TRUE(model(run) == model("undisturbed")) << r.err;
    EXPECT_EQ(rows(run), rows("undisturbed")) << r.err;
    EXPECT_FALSE(fs::exists(path(run) + "/.lock"));
    const Json j = Json::parse(read_file(path(run) + "/run.json"));
    EXPECT_EQ(j["status"], "complete");
  }
  // Trains "run" with `more` flags, kills those ranks one after the other, each until it is back, and compares.
  void train_losing(int64_t steps, const Words& more, const std::vector<int>& ranks, const char* lost, Ran& end) {
    train_undisturbed(steps);
    Running running(args("run", steps, more));
    ASSERT_TRUE(waited_for(path("run") + "/checkpoints/step-21"));
    for (const int rank : ranks) ASSERT_NO_FATAL_FAILURE(kill_until_back(running, rank, lost));
    end = running.finish();
    expect_undisturbed(end, "run");
  }
  static void expect_said(const Ran& r, const std::string& text) {
    EXPECT_NE(r.err.find(text), std::string::npos) << text << "\nin:\n" << r.err;
  }
  // The devices that the run last said to go on with, and how often it has said so.
  struct Said {
    int devices = 0, lines = 0;
  };
  Said said(const std::string& run, int at_first) const {
    Said all{.devices = at_first};
    std::istringstream log(read_file(path(run) + "/log.txt"));
    for (std::string line; std::getline(log, line);) {
      const size_t at = line.find(" on from step ");
      if (at == std::string::npos) continue;
      ++all.lines;
      all.devices = std::atoi(line.c_str() + line.rfind("; ", at) + 2);
    }
    return all;
  }
  // Gives random ranks random signals at random times, so many; sometimes two at once. One is left alive, since a run
  // without any is over.
  int disturb(const Running& running, const std::string& run, int devices, uint64_t seed, int count) const {
    PhiloxStream random(seed, 0, 0);
    int done = 0;
    for (int tries = 0; done < count && tries < 40 * count; ++tries) {
      usleep(10'000 + random.below(300'000));
      const std::map<int, int> ranks = ranks_of(running.pid());
      const Said before = said(run, devices);
      if (ranks.empty()) return done;
      if (before.devices < 2) continue;
      const uint32_t kills = before.devices > 2 && random.below(4) == 0 ? 2 : 1;
      for (uint32_t i = 0; i < kills; ++i) {
        auto who = ranks.begin();
        std::advance(who, random.below(static_cast<uint32_t>(ranks.size())));
        if (::kill(who->second, random.below(4) == 0 ? SIGSTOP : SIGKILL) == 0) ++done;
      }
      for (int i = 0; i < 150 && said(run, devices).lines == before.lines; ++i) usleep(10'000);
    }
    return done;
  }
  // The seconds that were lost by each regrouping, as the terminal says.
  static std::vector<double> lost_seconds(const std::string& err) {
    std::vector<double> all;
    std::istringstream lines(err);
    for (std::string line; std::getline(lines, line);) {
      const size_t at = line.find(" go on from step "), one = line.find(" goes on from step ");
      if (at == std::string::npos && one == std::string::npos) continue;
      all.push_back(std::atof(line.c_str() + line.rfind(", ") + 2));
    }
    return all;
  }

  // The events of a run of so many steps.
  void expect_no_change_by(int events, int64_t steps, const std::string& engine) const {
    train_undisturbed(steps);
    const auto start = std::chrono::steady_clock::now();
    Running running(args("run", steps, {"--devices", "cpu*4", "--elastic", "1:4", "--comm", engine}));
    ASSERT_TRUE(running.wait_for("output", 60));
    const int done = disturb(running, "run", 4, 11, events);
    const Ran r = running.finish();
    expect_undisturbed(r, "run");
    EXPECT_GE(done, events / 2) << "the run was over before";
    const std::vector<double> lost = lost_seconds(r.err);
    double sum = 0, most = 0;
    for (const double s : lost) {
      sum += s;
      most = std::max(most, s);
    }
    std::printf("%d events in %.1f s: %zu regroupings, %.2f s lost each, %.1f s at most\n", done, seconds_since(start),
                lost.size(), sum / static_cast<double>(std::max<size_t>(lost.size(), 1)), most);
  }

  const std::string dir_;
};

TEST_F(ElasticRuns, ARankThatIsKilledIsReplacedAndTheModelIsThatOfAnUndisturbedRun) {
  constexpr int64_t kSteps = 1200;
  train_undisturbed(kSteps);
  Running running(args("run", kSteps, {"--devices", "cpu*3", "--elastic", "1:3"}));
  ASSERT_TRUE(waited_for(path("run") + "/checkpoints/step-21"));
  const int second = process_of(running.pid(), 2);
  ASSERT_GT(second, 0);
  ::kill(second, SIGKILL);
  ASSERT_TRUE(running.wait_for("rank 2 is back; 3 devices go on", 60));
  const Ran r = running.finish();
  expect_undisturbed(r, "run");
  expect_said(r, "rank 2 was killed by signal 9; 2 devices go on from step ");
  const Json run = Json::parse(read_file(path("run") + "/run.json"));
  ASSERT_GE(run["regroupings"].size(), 2u);
  EXPECT_EQ(run["regroupings"][0]["who"], "rank 2 was killed by signal 9");
  EXPECT_EQ(run["regroupings"][0]["devices"], 2);
  EXPECT_NE(read_file(path("run") + "/log.txt").find("rank 2 was killed by signal 9; 2 devices go on"),
            std::string::npos);
}

TEST_F(ElasticRuns, TheNextRankTakesOverFromTheFirst) {
  constexpr int64_t kSteps = 1200;
  train_undisturbed(kSteps);
  Running running(args("run", kSteps, {"--devices", "cpu*3", "--elastic", "1:3"}));
  ASSERT_TRUE(waited_for(path("run") + "/checkpoints/step-21"));
  const int first = process_of(running.pid(), 0);
  ASSERT_GT(first, 0);
  ::kill(first, SIGKILL);
  ASSERT_TRUE(running.wait_for("rank 0 was killed by signal 9; 2 devices go on", 60));
  const int second = process_of(running.pid(), 1);
  ASSERT_GT(second, 0);
  ::kill(second, SIGSTOP);
  const Ran r = running.finish();
  expect_undisturbed(r, "run");
  expect_said(r, "rank 1 was stopped and is given up; ");
  EXPECT_NE(r.out.find("test accuracy"), std::string::npos) << r.out;
  const Json run = Json::parse(read_file(path("run") + "/run.json"));
  EXPECT_EQ(run["regroupings"][0]["who"], "rank 0 was killed by signal 9");  // which the first has told the next one
}

TEST_F(ElasticRuns, RanksThatAreLostWhileTheyStartAreReplaced) {
  constexpr int64_t kSteps = 1500;  // more than both are killed within
  train_undisturbed(kSteps);
  for (const int64_t milliseconds : {5, 60, 200}) {
    const std::string run = cat("run", milliseconds);
    Running running(args(run, kSteps, {"--devices", "cpu*3", "--elastic", "1:3"}));
    for (const int rank : {0, 1}) {  // the third stays: a run of which nobody is left is over
      int process = 0;
      for (int i = 0; i < 5000 && process == 0; ++i) {
        usleep(1000);
        process = process_of(running.pid(), rank);
      }
      ASSERT_GT(process, 0);
      usleep(static_cast<useconds_t>(milliseconds) * 1000);
      ::kill(process, SIGKILL);
    }
    expect_undisturbed(running.finish(), run);
  }
}

TEST_F(ElasticRuns, WhereTooFewAreLeftTheRunIsSavedAndNamesTheRank) {
  constexpr int64_t kSteps = 1500;
  train_undisturbed(kSteps);
  Running running(args("run", kSteps, {"--devices", "cpu*2", "--elastic", "2:2"}));
  ASSERT_TRUE(waited_for(path("run") + "/checkpoints/step-14"));
  const int second = process_of(running.pid(), 1);
  ASSERT_GT(second, 0);
  ::kill(second, SIGKILL);
  const Ran r = running.finish();
  EXPECT_EQ(r.code, 7) << r.err;
  expect_said(r, "rank 1 was killed by signal 9");
  expect_said(r, "1 is left, need 2");
  EXPECT_EQ(Json::parse(read_file(path("run") + "/run.json"))["exit_code"], 7);
  const Ran more = run_freight({"train", "--resume", path("run"), "--devices", "cpu*2"});
  expect_undisturbed(more, "run");
}

TEST_F(ElasticRuns, ASignalToTheCommandStopsAllAndTheRunCanBeResumed) {
  Running running(args("run", 100'000, {"--devices", "cpu*2", "--elastic", "1:2"}));
  ASSERT_TRUE(waited_for(path("run") + "/checkpoints/step-21"));
  running.send(SIGTERM);
  const Ran r = running.finish();
  EXPECT_EQ(r.code, 143) << r.err;
  EXPECT_NE(r.out.find("stopped after "), std::string::npos) << r.out;
  const Ran more = run_freight({"train", "--resume", path("run"), "--devices", "1", "--max-steps", "10", "-q"});
  EXPECT_EQ(more.code, 0) << more.err;
}

// An elastic run of three is stopped, one of two goes on and loses a rank on the way.
TEST_F(ElasticRuns, ARunThatWasStoppedGoesOnWithAnotherNumberOfRanksToTheSameModel) {
  constexpr int64_t kSteps = 1500;
  train_undisturbed(kSteps);
  Running first(args("run", kSteps, {"--devices", "cpu*3", "--elastic", "1:3"}));
  ASSERT_TRUE(waited_for(path("run") + "/checkpoints/step-21"));
  first.send(SIGTERM);
  EXPECT_EQ(first.finish().code, 143);
  const Words again = {"train", "--resume", path("run"), "--devices", "cpu*2", "--elastic", "1:2"};
  Running second(again);
  ASSERT_TRUE(second.wait_for("resumed from ", 60));
  for (const int rank : {1, 0}) ASSERT_NO_FATAL_FAILURE(kill_until_back(second, rank, "was killed by signal 9"));
  const Ran r = second.finish();
  expect_undisturbed(r, "run");
  const Ran over = run_freight(again);
  EXPECT_EQ(over.code, 0) << over.err;
  EXPECT_NE(over.err.find("the run is complete"), std::string::npos) << over.err;
  EXPECT_TRUE(model("run") == model("undisturbed"));
}

TEST_F(ElasticRuns, RanksThatGetShardsByWeightsAreReplacedToo) {
  Ran r;
  const Words more = {"--devices", "cpu*3", "--device-weights", "4,2,1", "--elastic", "1:3"};
  ASSERT_NO_FATAL_FAILURE(train_losing(1500, more, {0, 2}, "was killed by signal 9", r));
  expect_said(r, "shards are dealt by --device-weights to the devices that are there");
}

// States are on two ranks each, which is why the next three are lost one after the other.
TEST_F(ElasticRuns, RanksThatKeepAPartOfTheOptimizersStatesAreReplacedToo) {
  constexpr int64_t kSteps = 2000;
  train_undisturbed(kSteps);
  for (const char* engine : {"shared", "gloo"}) {
    const std::string run = cat("run-", engine);
    const Words on = {"--devices", "cpu*4", "--elastic", "1:4", "--shard-optimizer", "--comm", engine};
    Running running(args(run, kSteps, on));
    ASSERT_TRUE(waited_for(path(run) + "/checkpoints/step-21"));
    for (const int rank : {2, 0}) ASSERT_NO_FATAL_FAILURE(kill_until_back(running, rank, ""));
    const int process = awaited_process(running.pid(), 1);
    ASSERT_GT(process, 0);
    ::kill(process, SIGSTOP);
    ASSERT_TRUE(running.wait_for("rank 1 is back", 60));
    expect_undisturbed(running.finish(), run);
  }
}

TEST_F(ElasticRuns, TheLossOfBothRanksThatKeptAStateEndsTheRunWhichCanBeResumed) {
  constexpr int64_t kSteps = 1500;
  train_undisturbed(kSteps);
  for (const auto& [engine, how] : {std::pair("shared", "was killed by signal 9"), {"gloo", "ended or was killed"}}) {
    const std::string run = cat("run-", engine);
    const Words on = {"--devices", "cpu*4", "--elastic", "1:4", "--shard-optimizer", "--comm", engine};
    Running running(args(run, kSteps, on));
    ASSERT_TRUE(waited_for(path(run) + "/checkpoints/step-21"));
    const std::map<int, int> ranks = ranks_of(running.pid());
    for (const int rank : {1, 2}) ::kill(ranks.at(rank), SIGKILL);
    const Ran r = running.finish();
    EXPECT_EQ(r.code, 7) << r.err;
    for (const std::string& part :
         {cat("rank 1 ", how), cat("rank 2 ", how), std::string("both ranks that kept the optimizer's states of "),
          std::string("--resume")}) {
      expect_said(r, part);
    }
    EXPECT_EQ(Json::parse(read_file(path(run) + "/run.json"))["exit_code"], 7);
    const Words again = {"train", "--resume", path(run), "--devices", "cpu*3", "--elastic", "1:3", "--shard-optimizer"};
    expect_undisturbed(run_freight(again), run);
  }
}

TEST_F(ElasticRuns, WhereTooFewAreLeftToHaveAllStatesTheRunGoesOnFromItsCheckpoint) {
  constexpr int64_t kSteps = 1000;
  train_undisturbed(kSteps);
  Running running(args("run", kSteps, {"--devices", "cpu*3", "--elastic", "3:3", "--shard-optimizer"}));
  ASSERT_TRUE(waited_for(path("run") + "/checkpoints/step-14"));
  ::kill(process_of(running.pid(), 1), SIGKILL);
  const Ran r = running.finish();
  EXPECT_EQ(r.code, 7) << r.err;
  expect_said(r, "rank 1 was killed by signal 9");
  EXPECT_NE(read_file(path("run") + "/log.txt").find("not saved: a part of the optimizer's states is with other ranks"),
            std::string::npos);
  expect_undisturbed(run_freight({"train", "--resume", path("run"), "--devices", "cpu*2"}), "run");
}

TEST_F(ElasticRuns, ANewRunBeginsWhereThereIsNothingToResume) {
  train_undisturbed(30);
  const Ran r = run_freight(args("run", 30, {"--devices", "cpu*2", "--elastic", "1:2", "--resume", "auto"}));
  expect_undisturbed(r, "run");
  expect_said(r, "nothing to resume");
}

TEST_F(ElasticRuns, AResumedRunMayLeaveTheDirectoryOfItsCheckpointAlone) {
  ASSERT_EQ(run_freight(args("part", 14, {"--shards", "8", "--devices", "1", "-q"})).code, 0);
  const auto resumed = [&](const char* run, const Words& more) {
    Words all = {"train", "--resume", path("part"), "-o", path(run), "--max-steps", "30"};
    all.insert(all.end(), more.begin(), more.end());
    const Ran r = run_freight(all);
    EXPECT_EQ(r.code, 0) << r.err;
  };
  resumed("elastic", {"--devices", "cpu*2", "--elastic", "1:2"});
  resumed("plain", {"--devices", "1"});
  EXPECT_TRUE(model("elastic") == model("plain"));
  EXPECT_FALSE(model("elastic") == model("part"));
  EXPECT_TRUE(fs::exists(path("part") + "/checkpoints/step-14"));
}

// Between hosts the processes themselves find out who is there.
TEST_F(ElasticRuns, OverANetworkTheOthersGoOnTooAndARankComesBack) {
  Ran r;
  const Words more = {"--devices", "cpu*3", "--elastic", "1:3", "--comm", "gloo"};
  ASSERT_NO_FATAL_FAILURE(train_losing(2500, more, {2, 0}, "ended or was killed", r));
  EXPECT_NE(r.out.find("test accuracy"), std::string::npos) << r.out;
}

// Hosts are network namespaces, of which a stand-in for ssh reaches the second one.
class ElasticHosts : public ElasticRuns {
 protected:
  ElasticHosts() : hosts_(2) {
    the_hosts = &hosts_;
    stand_in_for_ssh("");
  }
  // `before` stands in front of the words that enter the other host. A process that is killed there is 255, as ssh
  // says.
  void stand_in_for_ssh(const std::string& before) const {
    write_file(path("ssh"), cat("#!/bin/sh\nshift $(($# - 1))\n", before, "ip netns exec ", hosts_.name(1),
                                " setsid -w sh -c \"$1\" || exit 255\n"));
    fs::permissions(path("ssh"), fs::perms::owner_all);
  }
  std::unique_ptr<Running> start(int64_t steps) const {
    const std::string list = Hosts::address(0) + "," + Hosts::address(1);
    return std::make_unique<Running>(args("run", steps, {"--devices", "cpu*3", "--hosts", list, "--elastic", "1:3"}),
                                     "", std::vector<std::string>{"FREIGHT_SSH=" + path("ssh")},
                                     [] { the_hosts->enter(0); });
  }
  // The process of a rank, on whichever host; 0 where there is none. The job is the one that uses this test's folder.
  int process_on_host(int rank) const {
    for (const auto& e : fs::directory_iterator("/proc")) {
      const int pid = std::atoi(e.path().filename().c_str());
      if (pid < 1) continue;
      const std::string at = "/proc/" + std::to_string(pid), environment = read_file(at + "/environ");
      const std::string name = std::string(1, '\0') + cat("FREIGHT_RANK=", rank) + std::string(1, '\0');
      if (environment.find(name) == std::string::npos) continue;
      if (read_file(at + "/cmdline").find(path("run")) != std::string::npos) return pid;
    }
    return 0;
  }

  const Hosts hosts_;
  static const Hosts* the_hosts;  // for a function without more, in the child
};
const Hosts* ElasticHosts::the_hosts = nullptr;

TEST_F(ElasticHosts, ARankOfAnotherHostThatIsKilledComesBack) {
  if (!hosts_.why_not().empty()) GTEST_SKIP() << hosts_.why_not();
  constexpr int64_t kSteps = 2500;
  train_undisturbed(kSteps);
  const auto running = start(kSteps);
  ASSERT_TRUE(waited_for(path("run") + "/checkpoints/step-21"));
  const int process = process_on_host(2);
  ASSERT_GT(process, 0);
  ::kill(process, SIGKILL);
  ASSERT_TRUE(running->wait_for("rank 2 ended or was killed; 2 devices go on", 60));
  ASSERT_TRUE(running->wait_for("rank 2 is back; 3 devices go on", 60));
  expect_undisturbed(running->finish(), "run");
}

TEST_F(ElasticHosts, TheOtherHostGoesOnWhereThatOfTheFirstRankAndOfTheCommandIsLost) {
  if (!hosts_.why_not().empty()) GTEST_SKIP() << hosts_.why_not();
  stand_in_for_ssh("(cat; exec sleep 100) | exec ");  // the other end of the connection stays open
  constexpr int64_t kSteps = 1000;
  train_undisturbed(kSteps);
  const auto running = start(kSteps);
  ASSERT_TRUE(waited_for(path("run") + "/checkpoints/step-21"));
  const int last = process_on_host(2);
  ASSERT_GT(last, 0);
  const std::vector<int> here = {process_on_host(0), process_on_host(1)};
  for (const int process : here) ASSERT_GT(process, 0);
  ASSERT_TRUE(hosts_.cut(0));
  for (const int process : here) ::kill(process, SIGKILL);
  running->send(SIGKILL);
  for (int i = 0; i < 6000 && ::kill(last, 0) == 0; ++i) usleep(10'000);
  expect_undisturbed({.code = 0, .out = {}, .err = read_file(path("run") + "/log.txt")}, "run");
  const Json run = Json::parse(read_file(path("run") + "/run.json"));
  EXPECT_EQ(run["regroupings"].back()["devices"], 1);
}

// The test plays another launcher: it says to each process who it is, and starts again whom it wants.
class ElasticLaunched : public ElasticRuns {
 protected:
  static constexpr int kWorld = 3;
  std::unique_ptr<Running> start(int rank, const Words& set, int64_t steps, const std::string& bounds) const {
    return std::make_unique<Running>(args("run", steps, {"--elastic", bounds}), "", with_cache(set, rank));
  }
  void start_all(int64_t steps, const std::string& bounds = "1:3") {
    for (int r = 0; r < kWorld; ++r) ranks_.push_back(start(r, torchrun(r), steps, bounds));
  }
  Words with_cache(Words set, int) const {
    set.push_back("FREIGHT_CACHE=" + path("cache"));  // has the secret of jobs on this host
    return set;
  }
  static int port() { return 20000 + ::getpid() % 9000; }
  static Words torchrun(int rank) {
    return {cat("RANK=", rank),       cat("WORLD_SIZE=", kWorld),
            cat("LOCAL_RANK=", rank), cat("LOCAL_WORLD_SIZE=", kWorld),
            "MASTER_ADDR=127.0.0.1",  cat("MASTER_PORT=", port())};
  }
  static Words slurm(int rank) {
    return {
        "SLURM_STEP_ID=0",           cat("SLURM_JOB_ID=", ::getpid()),     cat("SLURM_PROCID=", rank),
        cat("SLURM_LOCALID=", rank), cat("SLURM_STEP_NUM_TASKS=", kWorld), cat("SLURM_STEP_TASKS_PER_NODE=", kWorld)};
  }
  Running& rank(int r) const { return *ranks_[static_cast<size_t>(r)]; }
  void lose(int r) {
    rank(r).send(SIGKILL);
    rank(r).finish();
  }
  void expect_all_well() {
    std::string said;
    for (const auto& r : ranks_) {
      const Ran end = r->finish();
      EXPECT_EQ(end.code, 0) << end.err;
      said += end.err;
    }
    expect_undisturbed({.code = 0, .out = {}, .err = said}, "run");
  }

  std::vector<std::unique_ptr<Running>> ranks_;
};

TEST_F(ElasticLaunched, RanksOfAnotherLauncherGoOnAndOneThatItStartsAgainJoins) {
  constexpr int64_t kSteps = 2500;
  train_undisturbed(kSteps);
  start_all(kSteps);
  ASSERT_TRUE(waited_for(path("run") + "/checkpoints/step-21"));
  lose(2);
  ASSERT_TRUE(rank(0).wait_for("rank 2 ended or was killed; 2 devices go on", 60));
  ranks_[2] = start(2, torchrun(2), kSteps, "1:3");
  ASSERT_TRUE(rank(0).wait_for("rank 2 is back; 3 devices go on", 60));
  lose(0);  // the next one leads, and prints where it was started
  ASSERT_TRUE(rank(1).wait_for("rank 0 ended or was killed; 2 devices go on", 60));
  ranks_[0] = start(0, torchrun(0), kSteps, "1:3");
  ASSERT_TRUE(rank(1).wait_for("rank 0 is back; 3 devices go on", 60));
  expect_all_well();
}

TEST_F(ElasticLaunched, TasksOfSlurmGoOnWithoutOne) {
  constexpr int64_t kSteps = 1200;
  train_undisturbed(kSteps);
  for (int r = 0; r < kWorld; ++r) ranks_.push_back(start(r, slurm(r), kSteps, "1:3"));
  ASSERT_TRUE(waited_for(path("run") + "/checkpoints/step-21"));
  lose(1);
  ASSERT_TRUE(rank(0).wait_for("rank 1 ended or was killed; 2 devices go on", 60));
  ranks_.erase(ranks_.begin() + 1);
  expect_all_well();
}

TEST_F(ElasticLaunched, ARankThatIsStoppedIsGivenUpAndJoinsWhenItGoesOn) {
  constexpr int64_t kSteps = 4000;  // more than are done while the others wait for it
  train_undisturbed(kSteps);
  start_all(kSteps);
  ASSERT_TRUE(waited_for(path("run") + "/checkpoints/step-21"));
  rank(1).send(SIGSTOP);
  ASSERT_TRUE(rank(0).wait_for("2 devices go on", 60));
  rank(1).send(SIGCONT);
  ASSERT_TRUE(rank(0).wait_for("rank 1 is back; 3 devices go on", 60));
  expect_all_well();
}

TEST_F(ElasticLaunched, WhereTooFewAreLeftAllEndAndNameTheRank) {
  start_all(100'000, "3:3");
  ASSERT_TRUE(waited_for(path("run") + "/checkpoints/step-21"));
  lose(1);
  for (const int r : {0, 2}) {
    const Ran end = rank(r).finish();
    EXPECT_EQ(end.code, 7) << end.err;
    expect_said(end, "rank 1 ended or was killed; 2 are left, need 3");
  }
}

TEST_F(ElasticLaunched, ARankThatFailsOfItselfEndsTheJobForAll) {
  fs::create_directories(path("run"));
  write_file(path("run") + "/kept", "mine");
  start_all(100);
  std::vector<Ran> ends;
  for (const auto& r : ranks_) ends.push_back(r->finish());
  EXPECT_EQ(ends[0].code, 2) << ends[0].err;
  for (const int r : {1, 2}) {
    EXPECT_EQ(ends[static_cast<size_t>(r)].code, 7) << ends[static_cast<size_t>(r)].err;
    expect_said(ends[static_cast<size_t>(r)], "rank 0 failed: ");
  }
  EXPECT_EQ(read_file(path("run") + "/kept"), "mine");
  EXPECT_FALSE(fs::exists(path("run") + "/run.json"));
}

TEST_F(ElasticLaunched, LaunchersThatEndAllProcessesWithOneAreRefusedWithWhatToDo) {
  const auto refused = [&](Words set, const Words& more, const std::string& why) {
    Words all = {"--elastic", "1:3"};
    all.insert(all.end(), more.begin(), more.end());
    const Ran r = run_freight(args("never", 10, all), "", set);
    EXPECT_EQ(r.code, 2) << why << ": " << r.err;
    EXPECT_NE(r.err.find(why), std::string::npos) << r.err;
    EXPECT_FALSE(fs::exists(path("never")));
  };
  const auto with = [](Words set, const std::string& more) {
    set.insert(set.begin(), more);  // of two the first counts
    return set;
  };
  refused(with(torchrun(0), "TORCHELASTIC_RUN_ID=none"), {},
          "--elastic: torchrun ends all processes where one is lost");
  refused({"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=3", "OMPI_COMM_WORLD_LOCAL_RANK=0",
           "OMPI_COMM_WORLD_LOCAL_SIZE=3"},
          {}, "--elastic: mpirun ends all processes where one is lost: leave out --elastic and give --resume auto");
  refused({"PMI_RANK=0", "PMI_SIZE=3"}, {}, "--elastic: mpiexec ends all processes where one is lost");
  refused(with(slurm(0), "SLURM_KILL_BAD_EXIT=1"), {}, "need srun --kill-on-bad-exit=0");
  refused({"SKYPILOT_NODE_RANK=0", "SKYPILOT_NUM_NODES=3", "SKYPILOT_NODE_IPS=10.0.0.1"}, {},
          "--elastic: SkyPilot ends a task on all machines where one fails");
  refused(torchrun(0), {"--elastic", "1:2"}, "--elastic: got 1:2 for 3 processes of torchrun");
  refused(torchrun(0), {"--comm", "shared"}, "--elastic: goes by Gloo where torchrun starts the processes");
  refused(torchrun(0), {"--output-dir", ""}, "--elastic: needs --output-dir where torchrun starts the processes");
  const Words elsewhere = {
      "RANK=0", "WORLD_SIZE=3", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", "MASTER_ADDR=192.0.2.1", "MASTER_PORT=29500"};
  refused(elsewhere, {}, "--elastic: needs the hosts of all ranks");
  refused(elsewhere, {"--hosts", "192.0.2.1"}, "--hosts: got 1 hosts for 3 ranks");
  refused(elsewhere, {"--hosts", "192.0.2.1,192.0.2.2,192.0.2.3"}, "FREIGHT_TOKEN: is not set");
  refused(with(torchrun(0), "MASTER_PORT=65535"), {}, "MASTER_PORT: got 65535: --elastic needs a port for each of 3");
}

// Epochs of two steps, so that most of the time goes into evaluations and checkpoints.
TEST_F(ElasticRuns, RanksThatAreLostDuringEvaluationsAndCheckpointsChangeNothing) {
  constexpr int64_t kSteps = 200;
  write_idx_split(dir_, "train", data::draw_digits(0, 64));
  write_idx_split(dir_, "t10k", data::draw_digits(20000, 3000));
  const Words often = {"--eval-every", "1", "--save-every", "1"};
  train_undisturbed(kSteps, often);
  Words all = often;
  all.insert(all.end(), {"--devices", "cpu*3", "--elastic", "1:3"});
  Running running(args("run", kSteps, all));
  ASSERT_TRUE(waited_for(path("run") + "/checkpoints/step-2"));
  EXPECT_GE(disturb(running, "run", 3, 3, 4), 2) << "the run was over before";
  expect_undisturbed(running.finish(), "run");
}

TEST_F(ElasticRuns, RandomEventsChangeNoByte) {
  expect_no_change_by(is_long() ? 100 : 6, is_long() ? 12'000 : 2'000, "shared");
}

TEST_F(ElasticRuns, RandomEventsChangeNoByteOverANetwork) {
  expect_no_change_by(is_long() ? 100 : 3, is_long() ? 60'000 : 2'000, "gloo");
}

TEST_F(ElasticRuns, WrongBoundsAreRefusedByName) {
  const auto refused = [&](const Words& more, const std::string& why) {
    const Ran r = run_freight(args("never", 10, more));
    EXPECT_EQ(r.code, 2) << why << ": " << r.err;
    EXPECT_NE(r.err.find(why), std::string::npos) << r.err;
    EXPECT_FALSE(fs::exists(path("never")));
  };
  const std::string on = "--devices", four = "cpu*4", flag = "--elastic";
  refused({on, four, flag, "0:4"}, "--elastic: got 0:4, need at least 1 device");
  refused({on, four, flag, "4:2"}, "--elastic: got 4:2: the fewest are more than the most");
  refused({on, four, flag, "1:99"}, "--elastic: got 1:99 for 4 devices");
  refused({on, four, flag, "4"}, "--elastic: got '4', need the fewest and the most devices, as in 1:4");
  refused({on, four, flag, "1:4x"}, "--elastic: got '1:4x'");
  refused({flag, "1:4"}, "--elastic: needs --devices");
  refused({on, four, flag, "1:4", "--comm", "mpi"}, "--elastic: goes by shared memory or Gloo, not by MPI");
  refused({on, four, flag, "1:4", "--comm", "nccl", "--shard-optimizer"}, "leave out --comm nccl");
  refused({on, "1", flag, "1:1"}, "--elastic: got 1 device (--devices): need two or more");
  refused({on, "cpu,opencl:0", flag, "1:2"}, "--devices: got cpu,opencl:0: need devices of one kind");
  refused({on, "cuda:0,cuda:0", flag, "1:2"}, "--devices: got cuda:0,cuda:0: cuda:0 takes one process");
  refused({on, four, flag, "1:4", "--device-weights", "auto"}, "--elastic: does not go with --device-weights auto");
  refused({on, four, flag, "1:4", "--device-weights", "4,1"}, "--device-weights: got 2 numbers for 4 devices");
  refused({on, four, flag, "1:4", "--device-weights", "4,1,0,1"}, "--device-weights: got '4,1,0,1'");
  refused({on, four, flag, "1:4", "--shards", "2"}, "got 4 devices for 2 shards");
  refused({on, four, flag, "2147483648:4"}, "--elastic: got '2147483648:4'");
  refused({on, four, flag, "-1:4"}, "--elastic: got -1:4, need at least 1 device");
  refused({on, four, flag, "1:2:3"}, "--elastic: got '1:2:3'");
  refused({on, four, flag, "1:4", "--batch-size", "auto"}, "--elastic: does not go with --batch-size auto");
  refused({on, four, flag, "1:4", "--hosts", "192.0.2.1,b"}, "--hosts: got '192.0.2.1' for the first host");
  refused({on, four, flag, "1:4", "--overlap", "yes"}, "--elastic: does not go with --overlap yes");
  refused({on, four, flag, "1:4", "--shards", "0"}, "--shards: got 0 together with --elastic");
  refused({on, four, flag, "1:4", "--fit", "auto"}, "--elastic: does not go with --fit auto");
  write_file(path("rows.csv"), "a,b\n1,2\n2,4\n3,6\n");
  const Ran table = run_freight({"train", path("rows.csv"), "--target", "b", "--devices", "cpu*2", "--elastic", "1:2"});
  EXPECT_EQ(table.code, 2) << table.err;
  EXPECT_NE(table.err.find("--elastic: is for nets as yet, and --model gbdt is none"), std::string::npos) << table.err;
  run_freight(args("there", 10, {"-q"}));
  const Ran resumed = run_freight({"train", "--resume", path("there"), "--devices", "cpu*2", "--elastic", "1:2"});
  EXPECT_EQ(resumed.code, 2) << resumed.err;
  EXPECT_NE(resumed.err.find("--elastic: needs shards, and the run of "), std::string::npos) << resumed.err;
}

}  // namespace
}  // namespace freight::test
