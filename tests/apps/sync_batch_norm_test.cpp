// `freight train --sync-batch-norm`: BatchNorm's statistics are those of the whole batch, whoever computes its parts.
#include <gtest/gtest.h>
#include <signal.h>

#include "freight/base/strings.h"
#include "freight/io/safetensors.h"
#include "rank_models.h"
#include "rank_processes.h"
#include "run_command.h"

namespace freight::test {
namespace {

using Words = std::vector<std::string>;

// A net of two normalizations, one of them over single values of a sample.
constexpr const char* kTwice = R"({"format": "freight-model-1", "name": "twice", "input": [1, 28, 28], "net": [
    {"type": "Conv2d", "out": 6, "kernel": 5, "stride": 2, "bias": false}, {"type": "BatchNorm2d"}, {"type": "ReLU"},
    {"type": "MaxPool2d", "kernel": 2}, {"type": "Flatten"}, {"type": "Linear", "out": 20}, {"type": "BatchNorm1d"},
    {"type": "ReLU"}, {"type": "Linear", "out": 10}]})";

class SyncBatchNorm : public DigitRuns {
 protected:
  SyncBatchNorm() {
    write_file(path("normed.json"), kNormed);
    write_file(path("twice.json"), kTwice);
  }
  Ran train(const std::string& run, const std::vector<Words>& parts) const {
    Words all = {"train", dir_, "-q", "-o", path(run)};
    for (const Words& more : parts) all.insert(all.end(), more.begin(), more.end());
    return run_freight(all);
  }
  io::SafeTensors trained(const std::string& run, const std::vector<Words>& parts) const {
    const Ran r = train(run, parts);
    EXPECT_EQ(r.code, 0) << r.err;
    return io::load_safetensors(path(run) + "/model.safetensors");
  }

  const Words sync_ = {"--sync-batch-norm"};
};

TEST_F(SyncBatchNorm, ShardsGiveTheSameModelToTheByteOnAnyNumberOfDevices) {
  int number = 0;
  // Shards have six of 24 samples each, and seven, six, six and six of 25; 26 batches of 24 leave the last one short.
  for (const Words& set : {Words{"--model", path("normed.json"), "-b", "24", "--flip", "--max-steps", "30"},
                           Words{"--model", path("normed.json"), "-b", "25", "--optimizer", "adamw", "--lr", "0.002",
                                 "--model-ema", "0.9", "--max-steps", "15"},
                           Words{"--model", path("twice.json"), "-b", "8", "--shards", "8", "--max-steps", "10"}}) {
    std::string first;
    for (const char* devices : {"1", "2", "3", "4"}) {
      const std::string run = cat("run", number++);
      trained(run, {{"--shards", "4"}, set, sync_, {"--devices", devices}});
      if (first.empty()) first = model(run);
      EXPECT_TRUE(model(run) == first) << set[1] << " on " << devices;
    }
  }
}

TEST_F(SyncBatchNorm, GivesWhatOneDeviceDoesWithTheWholeBatch) {
  const Words set = {
      "--model",       path("twice.json"), "-b", "30", "--max-steps", "12", "--lr", "0.02", "--momentum", "0",
      "--no-nesterov", "--deterministic"};
  const io::SafeTensors one = trained("one", {set});  // with its running statistics
  int number = 0;
  for (const Words& devices :
       {Words{"--devices", "2"}, Words{"--devices", "cpu*4"}, Words{"--devices", "cpu*2", "--device-weights", "4,1"},
        Words{"--shards", "5", "--devices", "1"}, Words{"--shards", "7", "--devices", "3"}}) {
    EXPECT_LT(difference(trained(cat("sync", number), {set, devices, sync_}), one), 1e-4) << devices[1];
    EXPECT_GT(difference(trained(cat("apart", number++), {set, devices}), one), 1e-2) << devices[1];
  }
  // The flag changes nothing where a batch is computed at once.
  trained("alone", {set, sync_});
  EXPECT_TRUE(model("alone") == model("one"));
}

TEST_F(SyncBatchNorm, ADeviceNeedsNoSecondSample) {
  const Words set = {"--model", path("twice.json"), "-b", "2", "--devices", "2", "--max-steps", "4"};
  const Ran apart = train("apart", {set});
  EXPECT_EQ(apart.code, 2);
  EXPECT_NE(apart.err.find("BatchNorm"), std::string::npos) << apart.err;
  const Words one = {"--model", path("twice.json"), "-b", "2", "--max-steps", "4", "--deterministic"};
  EXPECT_LT(difference(trained("sync", {set, sync_, {"--deterministic"}}), trained("one", {one})), 1e-3);
}

TEST_F(SyncBatchNorm, ARunGoesOnOnOtherDevicesToTheSameModel) {
  const Words set = {"--model", path("normed.json"), "-b", "24", "--shards", "4", "--lr-scheduler", "constant"};
  trained("whole", {set, sync_, {"--max-steps", "30", "--devices", "1"}});
  trained("parts", {set, sync_, {"--max-steps", "17", "--devices", "4"}});
  const Ran r = run_freight({"train", "--resume", path("parts"), "--devices", "2", "--max-steps", "30", "-q"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(model("parts") == model("whole"));
}

TEST_F(SyncBatchNorm, ARunThatLosesARankIsRestartedToTheSameModel) {
  const Words set = {"--model", path("normed.json"), "-b", "24",          "--shards",
                     "4",       "--epochs",          "0",  "--max-steps", "300"};
  trained("whole", {set, sync_, {"--devices", "1"}});
  Words all = {"train", dir_, "-o", path("loses"), "--save-every", "20", "--devices", "cpu*3", "--elastic", "1:3"};
  for (const Words* more : {&set, &sync_}) all.insert(all.end(), more->begin(), more->end());
  Running running(all);
  const int pid = awaited_process(running, 1);
  ASSERT_GT(pid, 0);
  ASSERT_TRUE(waited_for_step(running, path("loses"), 20));
  ::kill(pid, SIGKILL);
  const Ran r = running.finish();
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("rank 1 was killed by signal 9"), std::string::npos) << r.err;
  EXPECT_TRUE(model("loses") == model("whole"));
}

TEST_F(SyncBatchNorm, RefusesWhatNeedsPartsOneAfterTheOther) {
  const Words net = {"--model", path("normed.json")};
  const Ran parts = train("run", {net, sync_, {"--grad-accum", "2"}});
  EXPECT_EQ(parts.code, 2);
  EXPECT_NE(parts.err.find("--grad-accum"), std::string::npos) << parts.err;
  const Ran overlap = train("run", {net, sync_, {"--devices", "2", "--overlap", "yes"}});
  EXPECT_EQ(overlap.code, 2);
  EXPECT_NE(overlap.err.find("--overlap"), std::string::npos) << overlap.err;
}

TEST_F(SyncBatchNorm, SharesStatisticsOfOpenCLDevices) {
  if (run_freight({"devices"}).out.find("opencl:0") == std::string::npos) GTEST_SKIP() << "no OpenCL device";
  const Words set = {"--model", path("twice.json"), "-b", "12", "--max-steps", "4", "--lr", "0.02", "--deterministic"};
  const io::SafeTensors one = trained("one", {set, {"--device", "cpu"}});
  EXPECT_LT(difference(trained("two", {set, sync_, {"--devices", "opencl:0*2"}}), one), 1e-3);
}

}  // namespace
}  // namespace freight::test
