// `freight train --devices cuda:0,cuda:1` on the fake driver and the fake NCCL: devices sum gradients among themselves,
// train what one trains, and end with a message where a rank or the library is missing.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "freight/base/strings.h"
#include "freight/io/safetensors.h"
#include "rank_models.h"
#include "rank_processes.h"
#include "run_command.h"
#include "tests/support/folders.h"
#include "tests/support/small_digits.h"

namespace freight::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr const char* kTwo = "cuda:0,cuda:1";
constexpr const char* kThree = "cuda:0,cuda:1,cuda:2";
constexpr const char* kNote = "note    gradients are summed by NCCL 2.28.9, in the devices' memory";

class NcclCommand : public ::testing::Test {
 protected:
  // The samples are few, since the fakes execute kernels lane by lane.
  NcclCommand() : dir_(scratch_dir()) {
    write_idx_split(dir_, "train", data::draw_digits(0, 64));
    write_idx_split(dir_, "t10k", data::draw_digits(20000, 12));
  }
  std::string path(const std::string& name) const { return dir_ + "/" + name; }
  std::string model(const std::string& run) const { return read_file(path(run) + "/model.safetensors"); }

  // The fakes with three devices; `libraries` are looked for in front of them.
  Words environment(const std::string& run, const std::string& libraries = {}) const {
    const std::string fakes = binary_dir() + "/tests/cuda/fake_cuda";
    return {cat("FREIGHT_CUDA_LIBS=", libraries.empty() ? "" : cat(fakes, "/", libraries, ":"), fakes),
            "FREIGHT_CACHE=" + dir_ + "/cache", "FAKE_CUDA_DEVICES=3",
            cat("FAKE_CUDA_REPORT=", path(run), "-report-%d")};
  }
  Words args(const std::string& run, const Words& more) const {
    Words all = {"train",           dir_, "--model", "mlp", "-b", "8", "--max-steps", "6", "--no-progress",
                 "--deterministic", "-o", path(run)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Ran train(const std::string& run, const Words& more, const std::string& libraries = {}) const {
    return run_freight(args(run, more), "", environment(run, libraries));
  }
  io::SafeTensors trained(const std::string& run, const Words& more) const {
    const Ran r = train(run, more);
    EXPECT_EQ(r.code, 0) << r.err;
    return io::load_safetensors(path(run) + "/model.safetensors");
  }

  // Kills rank 1 when the run sums by NCCL and has stored a first state.
  void kill_rank_1(Running& running, const std::string& run) const {
    ASSERT_TRUE(running.wait_for(kNote));
    const int rank = awaited_process(running, 1);
    ASSERT_GT(rank, 0);
    ASSERT_TRUE(waited_for_step(running, path(run), 3));
    ::kill(rank, SIGKILL);
  }

  // The figures of that name in the reports of a run's processes that used the device, each of which must be without
  // faults and have left nothing.
  std::vector<int64_t> figures(const std::string& run, const std::string& name) const {
    std::vector<int64_t> all;
    for (const auto& e : fs::directory_iterator(dir_)) {
      if (e.path().filename().string().find(run + "-report-") != 0) continue;
      const std::string text = read_file(e.path().string());
      for (const char* none : {"faults 0\n", "blocks 0\n", "events 0\n", "contexts 0\n", "communicators 0\n"}) {
        EXPECT_NE(text.find(none), std::string::npos) << text;
      }
      const size_t at = text.find("\n" + name + " ");
      const int64_t n = at == std::string::npos ? 0 : std::atoll(text.c_str() + at + name.size() + 2);
      if (n > 0) all.push_back(n);
    }
    return all;
  }

  const std::string dir_;
};

TEST_F(NcclCommand, DevicesSumAmongThemselvesAndTrainWhatOneDoes) {
  const Words set = {"--clip-grad-norm", "0.5", "--momentum", "0.9", "--lr", "0.05"};
  const auto with = [&](const Words& more) {
    Words all = set;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const io::SafeTensors one = trained("one", with({"--device", "cuda:0"}));
  EXPECT_TRUE(figures("one", "collectives").empty());

  const Ran two = train("two", with({"--devices", kTwo}));
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_NE(two.err.find(kNote), std::string::npos) << two.err;
  EXPECT_LT(difference(io::load_safetensors(path("two") + "/model.safetensors"), one), 2e-5);
  EXPECT_LT(difference(trained("three", with({"--devices", kThree})), one), 2e-5);
  EXPECT_LT(difference(trained("parts", with({"--devices", kTwo, "--grad-accum", "3"})), one), 2e-5);
  constexpr int64_t kSteps = 6, kParameters = 4;  // of two layers
  EXPECT_EQ(figures("two", "collectives"), (std::vector<int64_t>(2, kSteps * kParameters)));
  EXPECT_EQ(figures("three", "collectives"), (std::vector<int64_t>(3, kSteps * kParameters)));

  // Through memory of the host each gradient is copied there.
  const Ran host = train("host", with({"--devices", kTwo, "--comm", "shared"}));
  ASSERT_EQ(host.code, 0) << host.err;
  EXPECT_EQ(host.err.find("NCCL"), std::string::npos) << host.err;
  EXPECT_TRUE(figures("host", "collectives").empty());
  const std::vector<int64_t> copies = figures("two", "copies_to_host"), through = figures("host", "copies_to_host");
  ASSERT_EQ(copies.size(), 2u);
  ASSERT_EQ(through.size(), 2u);
  EXPECT_LE(copies[0] + copies[1] + 2 * kSteps * kParameters, through[0] + through[1]);
}

TEST_F(NcclCommand, SumsAreMadeWithinTheStepAndBesideItsBackwardHalf) {
  constexpr int64_t kSteps = 9;
  write_file(path("normed.json"), kNormed);
  // The epoch's last batch has one sample, of which one device gets none.
  const Words set = {"--devices", kTwo, "--model", path("normed.json"), "-b", "9", "--max-steps", cat(kSteps)};
  const auto with = [&](const Words& more) {
    Words all = set;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  trained("within", with({}));
  trained("behind", with({"--overlap", "no"}));
  trained("host", with({"--comm", "shared"}));
  EXPECT_TRUE(model("within") == model("behind"));
  EXPECT_TRUE(model("within") == model("host"));
  const std::vector<int64_t> within = figures("within", "graph_collectives"), all = figures("within", "collectives");
  ASSERT_EQ(within.size(), 2u);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all, figures("behind", "collectives"));
  // Each gradient and statistic of a step is one sum. The first step is launched kernel by kernel, and so is that of
  // one sample, and the one behind it where weights or memory have moved.
  EXPECT_GE(within[0] * kSteps, all[0] * (kSteps - 4));
  EXPECT_EQ(within[0], within[1]);
  const std::vector<int64_t> hidden = figures("within", "collectives_hidden");
  ASSERT_EQ(hidden.size(), 2u);
  EXPECT_GE(hidden[0], kSteps - 1);
  EXPECT_TRUE(figures("behind", "graph_collectives").empty());
  EXPECT_TRUE(figures("behind", "collectives_hidden").empty());
}

TEST_F(NcclCommand, PartsOfADeviceAreAddedBeforeThePiecesOfTheLastOneTravel) {
  for (const char* parts : {"2", "3", "4"}) {
    const Words set = {"--devices", kTwo, "-b", "9", "--max-steps", "9", "--grad-accum", parts};
    const auto run = [&](const std::string& name, const Words& more) {
      Words all = set;
      all.insert(all.end(), more.begin(), more.end());
      trained(cat(name, parts), all);
      return model(cat(name, parts));
    };
    const std::string within = run("within", {});
    EXPECT_TRUE(within == run("behind", {"--overlap", "no"})) << parts;
    EXPECT_TRUE(within == run("host", {"--comm", "shared"})) << parts;
    EXPECT_EQ(figures(cat("within", parts), "graph_collectives").size(), 2u);
    EXPECT_EQ(figures(cat("within", parts), "collectives"), figures(cat("behind", parts), "collectives"));
  }
}

TEST_F(NcclCommand, StatisticsOfTheWholeBatchAreSummedWithinTheStep) {
  write_file(path("normed.json"), kNormed);
  const auto set = [&](const Words& more) {
    Words all = {"--sync-batch-norm", "--model", path("normed.json"), "-b", "9", "--max-steps", "9"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const Ran two = train("two", set({"--devices", kTwo, "--comm", "nccl", "--overlap", "yes"}));
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_NE(two.err.find(kNote), std::string::npos) << two.err;
  trained("behind", set({"--devices", kTwo, "--overlap", "no"}));
  trained("host", set({"--devices", kTwo, "--comm", "shared"}));
  EXPECT_TRUE(model("two") == model("behind"));
  EXPECT_TRUE(model("two") == model("host"));
  EXPECT_EQ(figures("two", "graph_collectives").size(), 2u);
  EXPECT_EQ(figures("behind", "graph_collectives").size(), 2u);  // those of statistics
  EXPECT_LT(difference(trained("three", set({"--devices", kThree})),
                       trained("host three", set({"--devices", kThree, "--comm", "shared"}))),
            2e-4);
  EXPECT_EQ(figures("three", "graph_collectives").size(), 3u);
}

TEST_F(NcclCommand, ShardsGiveTheSameModelToTheByteOnAnyNumberOfDevices) {
  write_file(path("normed.json"), kNormed);
  const Words shards = {"--shards", "4", "--model", path("normed.json"), "--max-steps", "4"};
  const auto bytes = [&](const std::string& run, const Words& more) {
    Words all = shards;
    all.insert(all.end(), more.begin(), more.end());
    const Ran r = train(run, all);
    EXPECT_EQ(r.code, 0) << r.err;
    return model(run);
  };
  const std::string one = bytes("one", {"--device", "cuda:0"});
  EXPECT_TRUE(bytes("two", {"--devices", kTwo}) == one);
  EXPECT_TRUE(bytes("three", {"--devices", kThree}) == one);  // of 2, 1 and 1 shards: all meet before they are added
  EXPECT_TRUE(bytes("host", {"--devices", kTwo, "--comm", "shared"}) == one);
  EXPECT_EQ(figures("two", "collectives").size(), 2u);
  EXPECT_EQ(figures("three", "collectives").size(), 3u);
}

TEST_F(NcclCommand, SharedStatesOfTheOptimizerGiveTheSameModel) {
  const Words adam = {"--devices", kTwo, "--optimizer", "adamw", "--lr", "0.002", "--model-ema", "0.9"};
  Words shared = adam;
  shared.emplace_back("--shard-optimizer");
  trained("whole", adam);
  trained("shared", shared);
  EXPECT_TRUE(model("shared") == model("whole"));
  figures("shared", "collectives");
}

TEST_F(NcclCommand, WithoutTheLibrarySumsGoThroughTheHostUnlessItIsAskedFor) {
  const Ran asked = train("asked", {"--devices", kTwo, "--comm", "nccl"}, "old");
  EXPECT_EQ(asked.code, 4) << asked.err;
  EXPECT_NE(asked.err.find("--comm nccl: "), std::string::npos) << asked.err;
  EXPECT_NE(asked.err.find("install a newer one"), std::string::npos) << asked.err;
  EXPECT_FALSE(fs::exists(path("asked")));

  const Ran usual = train("usual", {"--devices", kTwo}, "old");
  EXPECT_EQ(usual.code, 0) << usual.err;
  EXPECT_NE(usual.err.find("note    gradients go through memory of the host: rank 0: "), std::string::npos)
      << usual.err;
  EXPECT_TRUE(figures("usual", "collectives").empty());
}

TEST_F(NcclCommand, IsForCudaDevicesThatTrain) {
  const Ran processors = train("cpus", {"--devices", "cpu*2", "--comm", "nccl"});
  EXPECT_EQ(processors.code, 2) << processors.err;
  EXPECT_NE(processors.err.find("nccl reduces between CUDA devices: rank 0 computes on cpu"), std::string::npos)
      << processors.err;
  const Ran synced = train("synced", {"--devices", kTwo, "--comm", "nccl", "--sync-batch-norm", "--shards", "4"});
  EXPECT_EQ(synced.code, 2) << synced.err;
  EXPECT_NE(synced.err.find("cannot be combined with --sync-batch-norm and --shards"), std::string::npos) << synced.err;
  const Ran timed = run_freight({"bench", "comm", "--world", "2", "--comm", "nccl"});
  EXPECT_EQ(timed.code, 2) << timed.err;
  EXPECT_NE(timed.err.find("for freight train alone"), std::string::npos) << timed.err;
}

TEST_F(NcclCommand, TwoRanksShareADeviceWhereNcclIsToldSo) {
  Words environment_of = environment("shared");
  environment_of.emplace_back("NCCL_MULTI_RANK_GPU_ENABLE=1");
  const Ran r = run_freight(args("shared", {"--devices", "cuda:0*2", "--comm", "nccl"}), "", environment_of);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(figures("shared", "collectives").size(), 2u);
}

TEST_F(NcclCommand, ARankThatIsKilledIsNamed) {
  Words all = args("killed", {"--devices", kTwo, "--epochs", "0", "--save-every", "3"});
  *std::find(all.begin(), all.end(), "6") = "100000";
  Running run(all, "", environment("killed"));
  ASSERT_NO_FATAL_FAILURE(kill_rank_1(run, "killed"));
  const Ran r = run.finish();
  EXPECT_EQ(r.code, 7) << r.err;
  EXPECT_NE(r.err.find("rank 1 was killed by signal 9"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace freight::test
