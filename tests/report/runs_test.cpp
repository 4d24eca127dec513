// Lists of runs, from directories as runs leave them.
#include "freight/report/runs.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "freight/train/run_lock.h"
#include "tests/support/files.h"

namespace freight::report {
namespace {
using namespace freight::testing;
namespace fs = std::filesystem;

std::string metrics_row(int step, int epoch, const std::string& split, double loss, double top1, double time) {
  return io::to_json_line({.step = step,
                           .epoch = static_cast<double>(epoch),
                           .split = split,
                           .loss = loss,
                           .top1 = top1,
                           .time = time}) +
         "\n";
}

void put_run(const std::string& path, const std::string& status, const std::string& lr, double time) {
  put(path + "/run.json",
      cat(R"({"status":")", status, R"(","time":)", time, R"(,"data":{"name":"digits"},"result":)",
          status == "complete" ? R"({"steps":20,"train_seconds":7200,"test_top1":80,"test_loss":0.5})" : "null", "}"));
  put(path + "/config.json", cat(R"({"model":"mlp","output_dir":")", path, R"(","optimizer":{"lr":)", lr,
                                 R"(,"name":"sgd"},"workers":)", lr.size(), "}"));
  put(path + "/metrics.jsonl",
      metrics_row(10, 1, "test", 0.4, 90, time - 100) + metrics_row(20, 2, "test", 0.5, 80, time - 50));
}

TEST(ListedRuns, HaveStatusBestMetricTimeAndTheSettingsThatDiffer) {
  const TemporaryDir dir;
  put_run(dir / "a", "complete", "0.1", 2000);
  put_run(dir / "group/b", "running", "0.01", 3000);
  put_run(dir / "c", "interrupted", "0.1", 1000);
  put(dir / "notes.txt", "no run");
  const train::RunLock lock(dir / "group/b");
  const std::vector<ListedRun> runs = list_runs(dir.path());
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].path, dir / "c");  // the last one that changed comes last
  EXPECT_EQ(runs[0].status, "interrupted");
  EXPECT_EQ(runs[0].seconds, 50);
  EXPECT_EQ(runs[1].path, dir / "a");
  EXPECT_EQ(runs[1].status, "complete");
  EXPECT_EQ(runs[1].metric, "top1");
  EXPECT_EQ(runs[1].value, 90);
  EXPECT_EQ(runs[1].epoch, 1);
  EXPECT_EQ(runs[1].steps, 20);
  EXPECT_EQ(runs[1].seconds, 7200);
  EXPECT_EQ(runs[1].model, "mlp");
  EXPECT_EQ(runs[1].data, "digits");
  EXPECT_EQ(runs[1].settings, (Facts{{"optimizer.lr", "0.1"}}));  // neither the directory nor the number of workers
  EXPECT_EQ(runs[2].status, "running");
  EXPECT_EQ(runs[2].settings, (Facts{{"optimizer.lr", "0.01"}}));
}

TEST(ListedRuns, ARunWithoutItsProcessWasKilled) {
  const TemporaryDir dir;
  put_run(dir / "a", "running", "0.1", 1000);
  EXPECT_EQ(list_runs(dir.path()).at(0).status, "killed");
  put(dir / "a/.lock", "process 1 on nowhere");  // what a killed process leaves
  EXPECT_EQ(list_runs(dir.path()).at(0).status, "killed");
}

TEST(ListedRuns, TheBestCheckpointDecidesWhichRowIsTheBest) {
  const TemporaryDir dir;
  put_run(dir / "a", "complete", "0.1", 1000);
  fs::create_directories(dir / "a/checkpoints/step-20");
  fs::create_directory_symlink("checkpoints/step-20", dir / "a/best");
  EXPECT_EQ(list_runs(dir.path()).at(0).value, 80);
}

TEST(ListedRuns, TheMetricThatWasAskedForComesBeforeTheAccuracy) {
  const TemporaryDir dir;
  put_run(dir / "a", "complete", "0.1", 1000);
  put(dir / "a/metrics.jsonl",
      io::to_json_line(
          {.step = 10, .split = "test", .loss = 0.4, .top1 = 90, .metric_name = "macro_f1", .metric = 0.7}) +
          "\n");
  const ListedRun run = list_runs(dir.path()).at(0);
  EXPECT_EQ(run.metric, "macro_f1");
  EXPECT_EQ(run.value, 0.7);
}

TEST(ListedRuns, TheFigureOfTheSavedModelStandsInForMissingRows) {
  const TemporaryDir dir;
  put(dir / "run/run.json", R"({"status":"complete","result":{"test_auc":0.75,"test_loss":0.6,"train_seconds":1}})");
  const ListedRun run = list_runs(dir / "run").at(0);
  EXPECT_EQ(run.metric, "auc");
  EXPECT_EQ(run.value, 0.75);
  EXPECT_TRUE(run.settings.empty());
}

TEST(ListedRuns, ADirectoryWithoutRunsIsRefused) {
  const TemporaryDir dir;
  expect_error(ErrorKind::data, {dir.path(), "contains no run"}, [&] { list_runs(dir.path()); });
  expect_error(ErrorKind::data, {dir / "none", "no such directory"}, [&] { list_runs(dir / "none"); });
}

}  // namespace
}  // namespace freight::report
