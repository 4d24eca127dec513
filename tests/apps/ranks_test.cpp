// `freight train --devices`: several processes train as one does, to rounding, and with --shards to the bit; they stop
// together, and one that is lost is named.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "freight/base/clock.h"
#include "freight/base/cpu_info.h"
#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "freight/io/npy.h"
#include "freight/io/safetensors.h"
#include "rank_models.h"
#include "rank_processes.h"
#include "run_command.h"

namespace freight::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

class Ranks : public DigitRuns {
 protected:
  Words args(const std::string& run, const Words& more) const {
    Words all = {"train", dir_, "--model", "mlp", "-b", "32", "--max-steps", "45", "-q", "-o", path(run)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Trains; the run's model afterwards.
  io::SafeTensors trained(const std::string& run, const Words& more) const {
    const Ran r = run_freight(args(run, more));
    EXPECT_EQ(r.code, 0) << r.err;
    return io::load_safetensors(path(run) + "/model.safetensors");
  }
  // "the-" and documents of two kinds of words, as a table of texts.
  std::string texts() const {
    PhiloxStream random(3, 0, 0);
    std::string rows = "text,label\n";
    for (int i = 0; i < 300; ++i) {
      const bool good = i % 2 == 0;
      const auto words = 3 + random.below(60);
      for (uint32_t w = 0; w < words; ++w) {
        rows += cat(w ? " " : "", random.below(3) == 0 ? (good ? "fine" : "poor") : "word", random.below(9));
      }
      rows += good ? ",yes\n" : ",no\n";
    }
    write_file(path("texts.csv"), rows);
    return path("texts.csv");
  }
  std::string corpus() const {
    std::string text;
    for (int i = 0; i < 400; ++i) text += cat("line ", i % 37, " of a song that goes on and on,\n");
    write_file(path("song.txt"), text);
    return path("song.txt");
  }
};

TEST_F(Ranks, SeveralDevicesTrainWhatOneDoes) {
  const Words set = {"--clip-grad-norm", "0.5", "--momentum", "0.9", "--lr", "0.05", "--deterministic"};
  const io::SafeTensors one = trained("one", set);
  int number = 0;
  for (const Words& devices : {Words{"--devices", "cpu*2"}, Words{"--devices", "cpu,cpu,cpu"},
                               Words{"--devices", "2", "--grad-accum", "3"}, Words{"--shards", "5"}}) {
    Words all = set;
    all.insert(all.end(), devices.begin(), devices.end());
    const std::string run = cat("several", number++);
    EXPECT_LT(difference(trained(run, all), one), 2e-5) << devices[1];
    const Json a = Json::parse(read_file(path(run) + "/run.json")),
               b = Json::parse(read_file(path("one") + "/run.json"));
    EXPECT_NEAR(a["result"]["test_loss"].get<double>(), b["result"]["test_loss"].get<double>(), 1e-4);
    EXPECT_EQ(a["result"]["test_top1"], b["result"]["test_top1"]);  // of 150 samples, each once
  }
}

TEST_F(Ranks, TextsOfUnequalBatchesTrainAsOnOneDevice) {
  const Words documents = {texts(),        "--model", "lstm_text",   "--width", "16",
                           "--max-length", "64",      "--val-split", "0.2"};
  const Words tokens = {corpus(), "--model", "gpt_char", "--layers", "1", "--width", "64", "--max-length", "16"};
  for (const Words* data : {&documents, &tokens}) {
    const auto model_on = [&](const std::string& run, const Words& devices) {
      Words all = {
          "train",   "-b",         "14",   "--max-steps",    "40",       "--dropout",       "0",  "--optimizer",
          "sgd",     "--lr",       "0.05", "--lr-scheduler", "constant", "--deterministic", "-q", "-o",
          path(run), "--overwrite"};
      all.insert(all.end(), data->begin(), data->end());
      all.insert(all.end(), devices.begin(), devices.end());
      const Ran r = run_freight(all);
      EXPECT_EQ(r.code, 0) << r.err;
      return io::load_safetensors(path(run) + "/model.safetensors");
    };
    EXPECT_LT(difference(model_on("three", {"--devices", "cpu*3"}), model_on("one", {})), 1e-3) << (*data)[2];
  }
}

TEST_F(Ranks, ShardsGiveTheSameModelToTheByteOnAnyNumberOfDevices) {
  write_file(path("normed.json"), kNormed);
  const Words net = {dir_, "--model", path("normed.json"), "-b", "24", "--flip", "--shift", "2"};
  const Words mixed = {dir_, "--model", path("normed.json"), "-b", "25", "--mixup-alpha", "0.2", "--model-ema", "0.9"};
  const Words lstm = {texts(), "--model", "lstm_text", "--width",   "16", "--max-length",
                      "32",    "-b",      "16",        "--dropout", "0.3"};
  const Words gpt = {corpus(), "--model",      "gpt_char", "--layers", "1", "--width",
                     "64",     "--max-length", "16",       "-b",       "12"};
  const Words sgd = {"--optimizer", "sgd", "--lr", "0.05", "--momentum", "0.9"};
  const Words adamw = {"--optimizer", "adamw", "--lr", "0.002", "--clip-grad-norm", "1"};
  int number = 0;
  for (const Words* data : {&net, &mixed, &lstm, &gpt}) {
    for (const Words* optimizer : {&sgd, &adamw}) {
      std::string first;
      for (const char* devices : {"1", "2", "3", "4"}) {
        const std::string run = cat("run", number++);
        Words all = {"train"};
        for (const Words* words : {data, optimizer}) all.insert(all.end(), words->begin(), words->end());
        for (const char* word : {"--shards", "4", "--max-steps", "20", "-q", "--devices", devices}) all.push_back(word);
        all.insert(all.end(), {"-o", path(run)});
        const Ran r = run_freight(all);
        ASSERT_EQ(r.code, 0) << r.err;
        if (first.empty()) first = model(run);
        EXPECT_TRUE(model(run) == first) << (*data)[2] << " by " << (*optimizer)[1] << " on " << devices;
      }
    }
  }
}

TEST_F(Ranks, ShardsGiveTheSameModelToTheByteByEveryEngine) {
  const Words shards = {"--shards", "4", "--devices", "2"};
  trained("shared", shards);
  const Ran gloo = run_freight(args("gloo", {"--shards", "4", "--devices", "2", "--comm", "gloo"}));
  if (gloo.code == 4) GTEST_SKIP() << gloo.err;
  ASSERT_EQ(gloo.code, 0) << gloo.err;
  EXPECT_TRUE(model("gloo") == model("shared"));
}

TEST_F(Ranks, SumsBesideTheBackwardHalfChangeNoBit) {
  write_file(path("normed.json"), kNormed);
  int number = 0;
  for (const Words& parts : {Words{"--shards", "4"}, Words{"--grad-accum", "2"}, Words{"--clip-grad-norm", "0.5"}}) {
    std::string first;
    for (const char* overlap : {"no", "yes"}) {
      const std::string run = cat("sums", number++);
      Words all = {"--model", path("normed.json"), "--deterministic", "--devices", "2", "--overlap", overlap};
      all.insert(all.end(), parts.begin(), parts.end());
      trained(run, all);
      if (first.empty()) first = model(run);
      EXPECT_TRUE(model(run) == first) << parts[0];
      const Json step = Json::parse(read_file(path(run) + "/run.json"))["timeline"];
      EXPECT_EQ(step["ranks"], 2);
      EXPECT_EQ(step["samples"], 32);
      EXPECT_LT(step["computed_s"], step["step_s"]);
      ASSERT_FALSE(step["sums"].empty());
      EXPECT_GT(step["sums"][0]["bytes"], 0);
      EXPECT_LE(step["sums"].back()["end_s"], step["step_s"]);
      if (overlap == std::string("no")) {
        EXPECT_GE(step["sums"][0]["begin_s"], step["computed_s"]);
      }
    }
  }
}

TEST_F(Ranks, ARankThatIsLostBesideTheBackwardHalfIsNamed) {
  Running running(args(
      "lost", {"--max-steps", "100000", "--epochs", "0", "--save-every", "20", "--devices", "3", "--overlap", "yes"}));
  const int pid = awaited_process(running, 1);
  ASSERT_GT(pid, 0);
  ASSERT_TRUE(waited_for_step(running, path("lost"), 20));
  ::kill(pid, SIGKILL);
  const Ran lost = running.finish();
  EXPECT_EQ(lost.code, 7) << lost.err;
  EXPECT_NE(lost.err.find("rank 1 was killed by signal 9"), std::string::npos) << lost.err;
}

// The others wait for it, and are asked to end when the command knows.
TEST_F(Ranks, ARankThatIsLostBeforeTheMeetingIsNamedWithinThreeSeconds) {
  for (const char* engine : {"shared", "gloo"}) {
    Running running(args(engine, {"--max-steps", "100000", "--epochs", "0", "--devices", "3", "--comm", engine}));
    const int pid = awaited_process(running, 1);
    ASSERT_GT(pid, 0);
    const auto start = std::chrono::steady_clock::now();
    ::kill(pid, SIGKILL);
    const Ran lost = running.finish();
    EXPECT_LT(seconds_since(start), 3.0);
    EXPECT_EQ(lost.code, 7) << lost.err;
    EXPECT_NE(lost.err.find("rank 1 was killed by signal 9"), std::string::npos) << lost.err;
  }
}

TEST_F(Ranks, ASignalBeforeTheMeetingEndsAll) {
  Running running(args("early", {"--max-steps", "100000", "--epochs", "0", "--devices", "3"}));
  const int last = awaited_process(running, 2);
  ASSERT_GT(last, 0);
  ::kill(last, SIGSTOP);  // so that nobody meets
  usleep(500'000);        // the others wait by now, or get the signal before
  running.send(SIGTERM);
  ::kill(last, SIGCONT);
  const Ran r = running.finish();
  EXPECT_EQ(r.code, 143) << r.err;
}

TEST_F(Ranks, ShardsGiveTheSameModelToTheByteForAnyNumberOfThreads) {
  write_file(path("normed.json"), kNormed);
  std::string first;
  for (const char* threads : {"1", "2", "3", "8"}) {
    const Ran r =
        run_freight(args("run", {"--model", path("normed.json"), "--shards", "4", "--overwrite", "--devices", "1"}), {},
                    {cat("OMP_NUM_THREADS=", threads)});
    ASSERT_EQ(r.code, 0) << r.err;
    if (first.empty()) first = model("run");
    EXPECT_TRUE(model("run") == first) << threads;
  }
}

// The test loss lies in the model, and kernels that were chosen by measurement round it otherwise.
TEST_F(Ranks, ShardsGiveTheSameModelToTheByteWhateverKernelsWouldBeMeasured) {
  std::string first;
  for (const char* tune : {"FREIGHT_TUNE=0", "FREIGHT_TUNE=1"}) {
    const Ran r = run_freight({"train", "digits", "--model", "lenet", "-b", "64", "--shards", "4", "--devices", "1",
                               "--max-steps", "3", "-q", "--overwrite", "-o", path("run")},
                              {}, {tune, "FREIGHT_CACHE=" + path(tune)});
    ASSERT_EQ(r.code, 0) << r.err;
    if (first.empty()) first = model("run");
    EXPECT_TRUE(model("run") == first) << tune;
  }
}

TEST_F(Ranks, ShardsOfOneDeviceAreSharedByProcessesToTheSameModel) {
  if (cpu_info().cores < 2) GTEST_SKIP() << "one processor";
  const auto on_two_threads = [&](const std::string& run, const Words& more) {
    Words all = {"train",    dir_, "--model",        "mlp",      "-b", "32",
                 "--shards", "4",  "--lr-scheduler", "constant", "-o", path(run)};
    all.insert(all.end(), more.begin(), more.end());
    return run_freight(all, {}, {"OMP_NUM_THREADS=2"});
  };
  const auto says = [](const Ran& r, const std::string& line) {
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.err.find(line), std::string::npos) << r.err;
  };
  const std::string by_two = "shards  4, by 2 processes of 1 thread\n", steps = "45";
  const Ran two = on_two_threads("two", {"--max-steps", steps});
  says(two, by_two);
  says(two, "32 = 1 device x 32 in 4 shards");
  const Ran one = on_two_threads("one", {"--max-steps", steps, "--devices", "1"});
  EXPECT_EQ(one.err.find("shards  "), std::string::npos) << one.err;
  EXPECT_TRUE(model("two") == model("one"));

  says(on_two_threads("dry", {"--dry-run"}), by_two);
  EXPECT_FALSE(fs::exists(path("dry")));
  const std::string alone = "shards  4, by 1 process of 2 threads: ";
  says(on_two_threads("fit", {"--max-steps", steps, "--fit", "auto"}), alone + "--fit auto");
  EXPECT_TRUE(model("fit") == model("one"));

  says(on_two_threads("resumed", {"--max-steps", "20"}), by_two);
  trained("resumed", {"--resume", path("resumed"), "--max-steps", steps, "--devices", "3"});
  EXPECT_TRUE(model("resumed") == model("one"));
  on_two_threads("back", {"--max-steps", "20", "--devices", "3"});
  says(on_two_threads("back", {"--resume", path("back"), "--max-steps", steps}), by_two);
  EXPECT_TRUE(model("back") == model("one"));
}

TEST_F(Ranks, ShardsWhoseProcessesDoNotFitTheMemoryAreComputedByOne) {
  if (cpu_info().cores < 2) GTEST_SKIP() << "one processor";
  const auto within = [&](const std::string& run, int64_t bytes) {
    return run_freight({"train", dir_, "--model", "mlp", "-b", "32", "--shards", "4", "--max-steps", "5",
                        "--device-memory", cat(bytes, "B"), "-o", path(run)},
                       {}, {"OMP_NUM_THREADS=2"});
  };
  const Ran plenty = within("plenty", int64_t{1} << 30);
  ASSERT_EQ(plenty.code, 0) << plenty.err;
  const Json run = Json::parse(read_file(path("plenty") + "/run.json"));
  const auto planned = run["plan"]["planned_bytes"].get<int64_t>();
  const Ran tight = within("tight", planned * 3 / 2);
  EXPECT_EQ(tight.code, 0) << tight.err;
  EXPECT_NE(tight.err.find("by 1 process of 2 threads: 2 do not fit the memory"), std::string::npos) << tight.err;
  EXPECT_TRUE(model("tight") == model("plenty"));
  const Ran never = within("never", planned / 4);
  EXPECT_EQ(never.code, 5) << never.err;
}

TEST_F(Ranks, TheCostOfShardsOnOneDeviceIsMeasuredAndTold) {
  Words all = {"train", "digits", "--model", "convnet", "-b", "64", "--shards", "4", "--max-steps", "3000"};
  all.insert(all.end(), {"--epochs", "0", "--eval-every", "100", "-o", path("run")});
  const Ran r = run_freight(all);
  ASSERT_EQ(r.code, 0) << r.err;
  const size_t at = r.err.rfind("\nshards  ");
  ASSERT_NE(at, std::string::npos) << r.err;
  double sharded = 0, without = 0;
  ASSERT_EQ(std::sscanf(r.err.c_str() + at, " shards %lf ms a step, %lf ms without: they cost", &sharded, &without), 2)
      << r.err;
  const Json run = Json::parse(read_file(path("run") + "/run.json"));
  EXPECT_NEAR(sharded, 1e3 * run["plan"]["measured_step_seconds"].get<double>(), 0.06);
  EXPECT_GT(without, 0);
}

TEST_F(Ranks, AStoppedRunOfFourGoesOnOnTwoToTheSameModel) {
  write_file(path("normed.json"), kNormed);
  const Words set = {"--model", path("normed.json"), "--shards", "8", "--max-steps", "240", "--save-every", "7"};
  const auto with = [&](const Words& more) {
    Words all = set;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  trained("whole", set);
  Running running(args("stopped", with({"--devices", "cpu*4"})));
  const int pid = awaited_process(running, 2);
  ASSERT_GT(pid, 0);
  ASSERT_TRUE(waited_for_step(running, path("stopped"), 14));
  ::kill(pid, SIGKILL);
  const Ran lost = running.finish();
  EXPECT_EQ(lost.code, 7) << lost.err;
  EXPECT_NE(lost.err.find("rank 2 was killed by signal 9"), std::string::npos) << lost.err;
  EXPECT_NE(lost.err.find("ranks/rank-2.log"), std::string::npos) << lost.err;
  const Json run = Json::parse(read_file(path("stopped") + "/run.json"));
  EXPECT_EQ(run["status"], "failed");
  EXPECT_EQ(run["exit_code"], 7);
  EXPECT_NE(read_file(path("stopped") + "/ranks/rank-2.log").find("rank 2 of 4 started"), std::string::npos);
  EXPECT_NE(lost.err.find("resume with: freight train --resume " + path("stopped") + " --devices 'cpu*4'\n"),
            std::string::npos)
      << lost.err;
  const Ran more = run_freight({"train", "--resume", path("stopped"), "--devices", "cpu*2", "-q"});
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_TRUE(model("stopped") == model("whole"));
  EXPECT_EQ(read_file(path("stopped") + "/metrics.csv").empty(), false);
}

TEST_F(Ranks, ASignalEndsAllInOrderAndTheRunCanBeResumed) {
  Running running(args("stopped", {"--max-steps", "100000", "--epochs", "0", "--save-every", "20", "--devices", "2"}));
  ASSERT_TRUE(waited_for_step(running, path("stopped"), 20));
  running.send(SIGTERM);
  const Ran r = running.finish();
  EXPECT_EQ(r.code, 143) << r.err;
  EXPECT_NE(r.out.find("stopped after "), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("\nresume  freight train --resume " + path("stopped") + " --devices 2\n"), std::string::npos)
      << r.out;
  EXPECT_FALSE(fs::exists(path("stopped") + "/.lock"));
  const Ran more = run_freight({"train", "--resume", path("stopped"), "--max-steps", "40", "-q"});
  EXPECT_EQ(more.code, 0) << more.err;
}

// The variables of one of two processes that torchrun starts.
Words environment(int rank) {
  return Words{cat("RANK=", rank),   "WORLD_SIZE=2",          cat("LOCAL_RANK=", rank),
               "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", cat("MASTER_PORT=", 20000 + ::getpid() % 20000)};
}

TEST_F(Ranks, ACommandThatAnotherLauncherStartsJoinsTheOthers) {
  const Words flags = {"--deterministic"};
  trained("command", {"--deterministic", "--devices", "2"});
  Running one(args("joined", flags), {}, environment(1));
  const Ran zero = run_freight(args("joined", flags), {}, environment(0));
  EXPECT_EQ(zero.code, 0) << zero.err;
  const Ran other = one.finish();
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_EQ(other.out, "");
  EXPECT_TRUE(model("joined") == model("command"));

  Running odd(args("odd", {"--seed", "3"}), {}, environment(1));
  const Ran refused = run_freight(args("odd", {"--seed", "0"}), {}, environment(0));
  EXPECT_EQ(refused.code, 2) << refused.err;
  // They differ behind what a line of an error shows of the beginning.
  EXPECT_NE(refused.err.find("rank 1 has the arguments ... --seed 3, rank 0 has ... --seed 0: all ranks"),
            std::string::npos)
      << refused.err;
  EXPECT_EQ(odd.finish().code, 2);
  Running more(args("odd", {"--seed", "3"}), {}, environment(1));
  const Ran fewer = run_freight(args("odd", {}), {}, environment(0));
  EXPECT_NE(fewer.err.find("rank 1 has the arguments ... --seed 3, rank 0 has ... (no more): all ranks"),
            std::string::npos)
      << fewer.err;
  EXPECT_EQ(more.finish().code, 2);
}

TEST_F(Ranks, EndWhereAStandardStreamIsClosed) {
  struct Row {
    void (*close)();
    int code;
  };
  const Row rows[] = {
      {[] { ::close(0); }, 0}, {[] { ::close(1); }, 1}, {[] { ::close(2); }, 0}, {[] { ::closefrom(0); }, 1}};
  for (const Row& row : rows) {
    const std::string run = cat("closed", &row - rows);
    Running running(args(run, {"--devices", "2"}), {}, {}, row.close);
    const Ran r = running.finish();
    EXPECT_EQ(r.code, row.code) << run << r.err;
    EXPECT_TRUE(fs::exists(path(run) + "/model.safetensors")) << run;
  }
}

TEST_F(Ranks, OfAnotherLauncherSayOnceWhatWouldBeDone) {
  for (const char* flag : {"--dry-run", "--print-config", "--help"}) {
    Running one(args("said", {flag}), {}, environment(1));
    const Ran zero = run_freight(args("said", {flag}), {}, environment(0));
    const Ran other = one.finish();
    EXPECT_EQ(zero.code, 0) << flag << zero.err;
    EXPECT_FALSE(zero.out.empty()) << flag;
    EXPECT_EQ(other.code, 0) << flag << other.err;
    EXPECT_EQ(other.out, "") << flag;
    EXPECT_FALSE(fs::exists(path("said"))) << flag;
  }
  Words flags = args("said", {"--dry-run"});
  std::erase(flags, "-q");
  EXPECT_NE(run_freight(flags, {}, environment(0)).err.find("32 = 2 devices x 16"), std::string::npos);
}

TEST_F(Ranks, OfAnotherLauncherRefuseFlagsThatSayOtherwise) {
  for (const char* command : {"train", "eval"}) {
    Words all = args("refused", {});
    if (command == std::string("eval")) all = {"eval", path("none.safetensors")};
    Words devices = all;
    devices.insert(devices.end(), {"--devices", "cpu*3"});
    const Ran more = run_freight(devices, {}, environment(0));
    EXPECT_EQ(more.code, 2) << command;
    EXPECT_NE(more.err.find("--devices: got 3: torchrun started 2 processes"), std::string::npos) << more.err;
  }
  EXPECT_FALSE(fs::exists(path("refused")));
}

TEST_F(Ranks, ThatAskOfOtherModelsGetNoAnswer) {
  trained("one", {});
  trained("two", {"--seed", "2"});
  const std::string one = path("one") + "/model.safetensors", two = path("two") + "/model.safetensors";
  struct Row {
    Words first, second;
    const char* part;
  };
  const Row rows[] = {
      {{"eval", one}, {"eval", two}, "two/model.safetensors, rank 0 has "},
      {{"eval", one}, {"eval", one, "--tta", "flip"}, "rank 1 has the arguments ... --tta flip, rank 0 has"},
      {{"predict", one, path("x.npy")}, {"predict", two, path("x.npy")}, "rank 1 has the arguments "},
  };
  for (const Row& row : rows) {
    Running other(row.second, {}, environment(1));
    const Ran refused = run_freight(row.first, {}, environment(0));
    EXPECT_EQ(refused.code, 2) << refused.err;
    EXPECT_NE(refused.err.find(row.part), std::string::npos) << refused.err;
    EXPECT_EQ(refused.out, "");
    EXPECT_EQ(other.finish().code, 2);
  }
}

TEST_F(Ranks, EvalCountsEverySampleOnce) {
  trained("run", {});
  const Json one = Json::parse(run_freight({"eval", path("run") + "/model.safetensors", "-b", "32", "--json"}).out);
  for (const char* devices : {"2", "3", "cpu*4"}) {
    const Ran r = run_freight({"eval", path("run") + "/model.safetensors", "-b", "32", "--json", "--devices", devices});
    ASSERT_EQ(r.code, 0) << r.err;
    const Json several = Json::parse(r.out);
    EXPECT_EQ(several["count"], 150);
    EXPECT_EQ(several["top1"], one["top1"]);
    EXPECT_NEAR(several["loss"].get<double>(), one["loss"].get<double>(), 1e-6);
  }
  for (const char* tta : {"none", "flip", "shift"}) {
    std::string first;
    for (const char* devices : {"1", "2", "3"}) {  // of batches of 16 one has 10, which is no full one
      const Ran r = run_freight(
          {"eval", path("run") + "/model.safetensors", "-b", "16", "--tta", tta, "--json", "--devices", devices});
      ASSERT_EQ(r.code, 0) << r.err;
      Json figures = Json::parse(r.out);
      figures.erase("seconds");
      if (first.empty()) first = figures.dump();
      EXPECT_EQ(figures.dump(), first) << tta << " on " << devices;
    }
  }
  const Ran lost = run_freight({"eval", path("nothing"), "--devices", "2"});
  EXPECT_NE(lost.code, 0);
  EXPECT_EQ(lost.err.find("rank 1"), std::string::npos) << lost.err;
}

TEST_F(Ranks, EvalNamesARankThatIsKilledAndLeavesNothing) {
  trained("run", {});
  fs::create_directory(path("tmp"));
  // Views of single samples take seconds, in which a rank is found.
  Running running({"eval", path("run") + "/model.safetensors", "--data", "digits", "--split", "train", "--tta", "shift",
                   "-b", "1", "--devices", "3"},
                  {}, {"TMPDIR=" + path("tmp")});
  const int pid = awaited_process(running, 2);
  ASSERT_GT(pid, 0);
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  const Ran r = running.finish();
  EXPECT_EQ(r.code, 7) << r.err;
  EXPECT_NE(r.err.find("eval: rank 2 was killed by signal 9"), std::string::npos) << r.err;
  EXPECT_TRUE(fs::is_empty(path("tmp")));
}

TEST_F(Ranks, ViewsInTheEvaluationOfTrainingCountEverySampleOnce) {
  std::string first;
  for (const char* devices : {"1", "2", "3"}) {
    const std::string run = cat("views", devices);
    trained(run, {"--shards", "4", "--tta", "shift", "--deterministic", "--devices", devices});
    const Json result = Json::parse(read_file(path(run) + "/run.json"))["result"];
    const std::string figures = cat(result["test_loss"].dump(), " ", result["test_top1"].dump());
    if (first.empty()) first = figures;
    EXPECT_EQ(figures, first) << devices;
  }
}

// The search was made in rank 0's last shard alone, and found "the loss alone" wherever the fault was in another.
TEST_F(Ranks, TheLayerOfAnInfiniteLossIsFoundInAnyShard) {
  Array x(DType::f32, {32, 6}), y(DType::i64, {32});
  PhiloxStream random(7, 0, 0);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = random.normal();
  for (int64_t i = 0; i < y.numel(); ++i) y.data<int64_t>()[i] = i % 3;
  for (int64_t i = 0; i < 6; ++i) x.data<float>()[10 * 6 + i] = 3e38F;  // products of some of the 512 outputs overflow
  io::save_npz(path("large.npz"), {{"x_train", x}, {"y_train", y}, {"x_test", x}, {"y_test", y}});
  write_file(path("net.json"), R"({"format": "freight-model-1", "name": "small", "input": [6], "net": [
      {"type": "Linear", "out": 512}, {"type": "ReLU"}, {"type": "Linear", "out": 3}]})");
  std::set<std::string> ranks;
  for (const char* seed : {"1", "4", "5", "6"}) {
    for (const Words& more : {Words{"--grad-accum", "4"}, Words{"--shards", "4"}, Words{"--devices", "cpu*2"},
                              Words{"--devices", "cpu*2", "--shards", "8", "--shard-optimizer"}}) {
      Words words = {"train",       path("large.npz"),
                     "--model",     path("net.json"),
                     "-b",          "32",
                     "--epochs",    "1",
                     "-q",          "--seed",
                     seed,          "-o",
                     path("large"), "--overwrite",
                     "--optimizer", "adam"};
      words.insert(words.end(), more.begin(), more.end());
      const Ran r = run_freight(words);
      EXPECT_EQ(r.code, 6) << r.err;
      const size_t at = r.err.find("first NaN or infinity: ");
      ASSERT_NE(at, std::string::npos) << r.err;
      const std::string found = r.err.substr(at, r.err.find(';', at) - at);
      EXPECT_NE(found.find("elements are NaN or infinite"), std::string::npos) << seed << join(more, " ") << r.err;
      const size_t rank = found.find("on rank ");
      EXPECT_EQ(rank != std::string::npos, more[0] != "--grad-accum") << found;  // --shards: by 2 processes
      if (rank != std::string::npos) ranks.insert(found.substr(rank, 9));
    }
  }
  EXPECT_EQ(ranks, (std::set<std::string>{"on rank 0", "on rank 1"}));
}

TEST_F(Ranks, AreNamedAndRefused) {
  const auto refused = [&](const Words& more, const std::string& part, int code = 2) {
    const Ran r = run_freight(args("refused", more));
    EXPECT_EQ(r.code, code) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
    EXPECT_FALSE(fs::exists(path("refused"))) << part;
  };
  refused({"--devices", "0,1"}, "expected names");
  refused({"--devices", "2.5"},
          "--devices: expected names like cuda:0,cuda:1, NAME*COUNT, all, or one number, got '2.5'");
  refused({"--devices", "99999999999999999999"}, "expected names");
  refused({"--hosts", "a,b"}, "--hosts");
  refused({"--devices", "nonsense*2"}, "nonsense", 4);
  refused({"--devices", "cpu,nonsense"}, "nonsense", 4);
  refused({"--devices", "cpu*3", "--device-weights", "4,1"}, "2 numbers for 3 devices");
  refused({"--devices", "cpu*2", "--device-weights", "4,0"}, "expected auto, or numbers above 0");
  refused({"--device-weights", "auto"}, "is for several devices");
  refused({"--devices", "cpu*2", "--device", "ref"}, "cannot be combined with --devices cpu*2");
  refused({"--devices", "4", "--shards", "3"}, "got 4 devices for 3 shards");
  refused({"--devices", "2", "-b", "1"}, "expected a sample for each");
  refused({"--shards", "33"}, "has no 33 shards");
  refused({"--shards", "4", "--grad-accum", "2"}, "--grad-accum");
  refused(
      {"--devices", "2", "--device-data", "yes"},
      "--device-data yes: cannot be combined with several devices: each epoch shuffles the samples over the devices");
  refused({"--shards", "4", "--devices", "1", "--device-data", "yes"},
          "--device-data yes: cannot be combined with --shards");
  const Ran dry = run_freight({"train", dir_, "--model", "mlp", "-b", "32", "--devices", "cpu*4", "--dry-run"});
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(dry.err.find("32 = 4 devices x 8"), std::string::npos) << dry.err;
  for (const auto& [more, product] : std::vector<std::pair<Words, std::string>>{
           {{"-b", "10", "--devices", "cpu*4"}, "10 = 4 devices x 2 or 3, "},
           {{"-b", "10", "--devices", "cpu*2", "--grad-accum", "2"}, "10 = 2 devices x 2 or 3 x accum 2, "},
           {{"-b", "12", "--devices", "cpu*2", "--grad-accum", "3"}, "12 = 2 devices x 2 x accum 3, "},
           {{"-b", "9", "--grad-accum", "2"}, "9 = 1 device x 4 or 5 x accum 2, "},
           {{"-b", "64", "--devices", "cpu*3", "--shards", "8"}, "64 = 3 devices x 16 to 24 in 8 shards, "}}) {
    Words words = {"train", dir_, "--model", "mlp", "--dry-run"};
    words.insert(words.end(), more.begin(), more.end());
    const Ran told = run_freight(words);
    EXPECT_NE(told.err.find("batch   " + product), std::string::npos) << told.err;
  }
  refused({"--devices", "cpu*3", "--device-weights", "4,1", "--dry-run"}, "2 numbers for 3 devices");
  refused({"--devices", "cpu,opencl:99", "--dry-run"}, "opencl:99", 4);
}

}  // namespace
}  // namespace freight::test
