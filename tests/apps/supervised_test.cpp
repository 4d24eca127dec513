// `freight train --elastic`: where a rank is killed all are restarted from the last checkpoint, and what is stored in
// the end is what an undisturbed run stores, to the byte. tests/restarts.py has more ways to fail.
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "rank_models.h"
#include "rank_processes.h"

namespace freight::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

class Supervised : public DigitRuns {
 protected:
  Supervised() { write_file(path("normed.json"), kNormed); }

  Words args(const std::string& run, int64_t steps, const Words& more) const {
    Words all = {"train",
                 dir_,
                 "--model",
                 path("normed.json"),
                 "-b",
                 "32",
                 "--max-steps",
                 cat(steps),
                 "--epochs",
                 "0",
                 "--optimizer",
                 "adamw",
                 "--model-ema",
                 "0.9",
                 "--eval-every",
                 "3",
                 "--save-every",
                 "7",
                 "-o",
                 path(run),
                 "--lr-scheduler",
                 "constant"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  void train_undisturbed(int64_t steps) const {
    const Ran r = run_freight(args("undisturbed", steps, {"--shards", "8", "--devices", "1", "-q"}));
    ASSERT_EQ(r.code, 0) << r.err;
  }
  void expect_undisturbed(const Ran& r, const std::string& run) const {
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_TRUE(model(run) == model("undisturbed")) << r.err;
    EXPECT_FALSE(fs::exists(path(run) + "/.lock"));
    EXPECT_EQ(Json::parse(read_file(path(run) + "/run.json"))["status"], "complete");
  }
  static void expect_said(const Ran& r, const std::string& text) {
    EXPECT_NE(r.err.find(text), std::string::npos) << text << "\nin:\n" << r.err;
  }
  // Kills a rank of a run once it has a checkpoint of that step or a later one. The process is found first, so that
  // little time passes between the checkpoint and the signal.
  void kill_rank(Running& running, const std::string& run, int rank, int64_t step) const {
    const int process = awaited_process(running, rank);
    ASSERT_GT(process, 0);
    ASSERT_TRUE(waited_for_step(running, path(run), step));
    ::kill(process, SIGKILL);
  }
};

TEST_F(Supervised, RanksThatAreKilledOneAfterTheOtherAreRestartedToTheModelOfAnUndisturbedRun) {
  constexpr int64_t kSteps = 1200;
  train_undisturbed(kSteps);
  Running running(args("run", kSteps, {"--devices", "cpu*3", "--elastic", "1:3"}));
  ASSERT_NO_FATAL_FAILURE(kill_rank(running, "run", 2, 21));
  ASSERT_TRUE(running.wait_for("rank 2 was killed by signal 9 (Killed); last completed step "));
  ASSERT_TRUE(running.wait_for("resumed from"));
  ASSERT_NO_FATAL_FAILURE(kill_rank(running, "run", 0, 21));
  const Ran r = running.finish();
  expect_undisturbed(r, "run");
  expect_said(r, "rank 0 was killed by signal 9 (Killed); last completed step ");
  expect_said(r, "; 3 devices restart from the last checkpoint");
  EXPECT_NE(read_file(path("run") + "/log.txt").find("rank 0 was killed by signal 9"), std::string::npos);
}

TEST_F(Supervised, OverANetworkWithSharedStatesARankIsRestartedToo) {
  constexpr int64_t kSteps = 300;  // over a network each takes 10 ms
  train_undisturbed(kSteps);
  Running running(args(
      "run", kSteps,
      {"--devices", "cpu*2", "--elastic", "2:2", "--comm", "gloo", "--shard-optimizer", "--device-weights", "3,1"}));
  ASSERT_NO_FATAL_FAILURE(kill_rank(running, "run", 1, 21));
  const Ran r = running.finish();
  expect_undisturbed(r, "run");
  expect_said(r, "rank 1 was killed by signal 9 (Killed); last completed step ");
  expect_said(r, "; 2 devices restart from the last checkpoint");
}

TEST_F(Supervised, ASupervisorThatIsKilledIsStartedAgainByTheSameCommand) {
  constexpr int64_t kSteps = 600;
  train_undisturbed(kSteps);
  const Words all = args("run", kSteps, {"--devices", "cpu*2", "--elastic", "1:2"});
  Running first(all);
  const int rank = awaited_process(first, 1);
  ASSERT_TRUE(waited_for_step(first, path("run"), 21));
  first.send(SIGKILL);
  first.finish();
  for (int i = 0; i < 30'000 && lives(rank); ++i) usleep(10'000);
  const Ran r = run_freight(all);
  expect_undisturbed(r, "run");
  expect_said(r, "resumed from");
}

TEST_F(Supervised, ASignalToTheCommandStopsAllAndTheRunCanBeResumed) {
  constexpr int64_t kSteps = 2000;
  Running running(args("run", kSteps, {"--devices", "cpu*2", "--elastic", "1:2"}));
  ASSERT_TRUE(waited_for_step(running, path("run"), 21));
  running.send(SIGTERM);
  const Ran r = running.finish();
  EXPECT_EQ(r.code, 143) << r.err;
  EXPECT_EQ(Json::parse(read_file(path("run") + "/run.json"))["status"], "interrupted");
  EXPECT_NE(r.out.find(cat("resume  freight train --resume ", path("run"),
                           " --devices 'cpu*2' --elastic 1:2 --output-dir ", path("run"))),
            std::string::npos)
      << r.out;
}

TEST_F(Supervised, ARestartGoesOnInItsOwnFolderWhereTheRunBeganWithACheckpointOfAnother) {
  constexpr int64_t kSteps = 600;
  train_undisturbed(kSteps);
  ASSERT_EQ(run_freight(args("part", 14, {"--shards", "8", "-q"})).code, 0);
  Running running(args("run", kSteps, {"--resume", path("part"), "--devices", "cpu*2", "--elastic", "1:2"}));
  ASSERT_NO_FATAL_FAILURE(kill_rank(running, "run", 1, 28));
  expect_undisturbed(running.finish(), "run");
  EXPECT_FALSE(fs::exists(path("part") + "/checkpoints/step-28"));
}

TEST_F(Supervised, WrongBoundsAreRefusedByName) {
  const auto refused = [&](const Words& more, const std::string& why, const Words& set = {}) {
    const Ran r = run_freight(args("never", 10, more), "", set);
    EXPECT_EQ(r.code, 2) << why << ": " << r.err;
    EXPECT_NE(r.err.find(why), std::string::npos) << r.err;
    EXPECT_FALSE(fs::exists(path("never")));
  };
  const std::string on = "--devices", four = "cpu*4", flag = "--elastic";
  refused({on, four, flag, "0:4"}, "--elastic: devices: expected at least 1, got 0");
  refused({on, four, flag, "4:2"}, "--elastic: got 4:2: the minimum is above the maximum");
  refused({on, four, flag, "1:99"}, "--elastic: got 1:99 for 4 devices");
  refused({on, four, flag, "4"}, "--elastic: expected MIN:MAX devices, as in 1:4, got '4'");
  refused({on, four, flag, "1:4x"}, "as in 1:4, got '1:4x'");
  refused({flag, "1:4"}, "--elastic: needs --devices");
  refused({on, four, flag, "1:4", "-o", ""}, "--elastic: needs --output-dir");
  refused({on, four, flag, "1:4", "--device-weights", "4,1"}, "got 2 numbers for 4 devices");
  refused({on, four, flag, "1:4", "--device-weights", "4,1,0,1"}, "numbers above 0 like 4,1, got '4,1,0,1'");
  refused({on, four, flag, "1:4", "--shards", "2"}, "got 4 devices for 2 shards");
  refused({on, four, flag, "2147483648:4"}, "as in 1:4, got '2147483648:4'");
  refused({on, four, flag, "-1:4"}, "--elastic: devices: expected at least 1, got -1");
  refused({on, four, flag, "1:2:3"}, "as in 1:4, got '1:2:3'");
  refused({on, four, flag, "1:4", "--batch-size", "auto"}, "--batch-size");
  refused({on, four, flag, "1:4", "--shards", "0"}, "--elastic: cannot be combined with --shards 0");
  refused({on, four, flag, "1:4", "--fit", "auto"}, "--elastic: cannot be combined with --fit auto");
  refused(
      {flag, "1:2"}, "--elastic: restarts processes that this command starts: torchrun restarts those",
      {"RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500"});
  write_file(path("rows.csv"), "a,b\n1,2\n2,4\n3,6\n");
  const Ran table = run_freight(
      {"train", path("rows.csv"), "--target", "b", "--devices", "cpu*2", "--elastic", "1:2", "-o", path("never")});
  EXPECT_EQ(table.code, 2) << table.err;
  EXPECT_NE(table.err.find("--elastic is a flag of networks; this run trains gbdt"), std::string::npos) << table.err;
}

// Shards cannot be turned on within a run.
TEST_F(Supervised, ARunThatWasBegunWithoutShardsDoesNotGoOn) {
  ASSERT_EQ(run_freight(args("there", 10, {"-q"})).code, 0);
  const Ran r = run_freight(args("there", 20, {"--devices", "cpu*2", "--elastic", "1:2"}));
  EXPECT_EQ(r.code, 2) << r.err;
  expect_said(r, "--elastic: needs shards, and the run of ");
}

}  // namespace
}  // namespace freight::test
