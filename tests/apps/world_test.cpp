// `freight verify --world`: that several devices store the same model is proven by training it, and a difference is
// named by its place and both values.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "freight/base/strings.h"
#include "freight/io/safetensors.h"
#include "rank_processes.h"
#include "run_command.h"
#include "tests/support/small_digits.h"

namespace freight::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

class VerifyWorld : public ::testing::Test {
 protected:
  VerifyWorld() : dir_(scratch_dir()) {
    fs::create_directory(dir_ + "/data");
    write_small_digits(dir_ + "/data");
    fs::create_directory(dir_ + "/tmp");
  }
  // All are run with a temporary folder of their own, in which nothing stays.
  Ran verify(const Words& more) const {
    Words all = {"verify", dir_ + "/data", "--model", "mlp", "-b", "32"};
    all.insert(all.end(), more.begin(), more.end());
    const Ran r = run_freight(all, {}, {"TMPDIR=" + dir_ + "/tmp"});
    EXPECT_TRUE(fs::is_empty(dir_ + "/tmp"));
    return r;
  }
  const std::string dir_;
};

TEST_F(VerifyWorld, SaysThatAllDevicesStoreTheSameModel) {
  const Ran r = verify({"--world", "1,2,3", "--max-steps", "6"});
  ASSERT_EQ(r.code, 0) << r.err;
  std::istringstream lines(r.out);
  std::string head, line;
  std::getline(lines, head);
  EXPECT_NE(head.find("mlp: 6 steps of batch 32 in 8 shards"), std::string::npos) << head;
  std::vector<std::string> fingerprints;
  for (const char* begin : {"1 device ", "2 devices ", "3 devices "}) {
    ASSERT_TRUE(std::getline(lines, line)) << r.out;
    EXPECT_EQ(line.find(begin), 0u) << line;
    const size_t at = line.find(" ms a step  model ");
    ASSERT_NE(at, std::string::npos) << line;
    fingerprints.push_back(line.substr(at + 18, 32));
    EXPECT_EQ(line.find("  equal") != std::string::npos, fingerprints.size() > 1) << line;
  }
  EXPECT_EQ(fingerprints[0], fingerprints[1]);
  EXPECT_EQ(fingerprints[0], fingerprints[2]);
  EXPECT_EQ(fingerprints[0].find_first_not_of("0123456789abcdef"), std::string::npos) << fingerprints[0];
}

TEST_F(VerifyWorld, TrainsAsARunDid) {
  const Ran run = run_freight({"train", dir_ + "/data", "--model", "mlp", "-b", "24", "--optimizer", "adamw",
                               "--shards", "4", "--max-steps", "3", "-q", "-o", dir_ + "/run"});
  ASSERT_EQ(run.code, 0) << run.err;
  const Ran r = run_freight({"verify", dir_ + "/run", "--world", "1,4", "--max-steps", "5", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json j = Json::parse(r.out);
  EXPECT_EQ(j["data"], dir_ + "/data");
  EXPECT_EQ(j["batch_size"], 24);
  EXPECT_EQ(j["shards"], 4);
  EXPECT_EQ(j["steps"], 5);
  EXPECT_TRUE(j["passed"].get<bool>());
  ASSERT_EQ(j["worlds"].size(), 2u);
  EXPECT_EQ(j["worlds"][1]["devices"], 4);
  EXPECT_GT(j["worlds"][1]["step_seconds"].get<double>(), 0);
  EXPECT_EQ(j["worlds"][1]["xxh3_128"], j["worlds"][0]["xxh3_128"]);
}

// Without shards sums have another order on two devices.
TEST_F(VerifyWorld, NamesTheFirstElementThatDiffersWithBothValues) {
  const Words flags = {"--max-steps", "6", "--deterministic", "--shards", "0"};
  Words all = flags;
  all.insert(all.end(), {"--world", "1,2"});
  const Ran r = verify(all);
  ASSERT_EQ(r.code, 9) << r.out << r.err;
  EXPECT_NE(r.err.find("the model of 1 device differs from that of 2"), std::string::npos) << r.err;
  io::SafeTensors models[2];
  for (const int devices : {1, 2}) {
    const std::string to = cat(dir_, "/by-", devices);
    Words train = {"train", dir_ + "/data", "--model", "mlp", "-b",        "32",        "--epochs",
                   "0",     "-q",           "-o",      to,    "--devices", cat(devices)};
    train.insert(train.end(), flags.begin(), flags.end());
    const Ran trained = run_freight(train);
    ASSERT_EQ(trained.code, 0) << trained.err;
    models[devices - 1] = io::load_safetensors(to + "/model.safetensors");
  }
  std::string wanted;
  for (size_t t = 0; t < models[0].tensors.size() && wanted.empty(); ++t) {
    const auto& [name, one] = models[0].tensors[t];
    const Array& two = *models[1].find(name);
    const std::vector<float> x = one.to_vector<float>(), y = two.to_vector<float>();
    for (size_t i = 0; i < x.size() && wanted.empty(); ++i) {
      if (x[i] == y[i]) continue;
      std::string at;
      auto rest = static_cast<int64_t>(i);
      for (int axis = one.shape().rank() - 1; axis >= 0; --axis) {
        at = cat(rest % one.shape()[axis], at.empty() ? "" : ",", at);
        rest /= one.shape()[axis];
      }
      wanted = cat("DIFFERS first at ", name, "[", at, "]: ", y[i], " by 2 devices, ", x[i], " by 1\n");
    }
  }
  ASSERT_FALSE(wanted.empty()) << "the two are equal";
  EXPECT_NE(r.out.find(wanted), std::string::npos) << wanted << r.out;
}

TEST_F(VerifyWorld, RefusesWhatItCannotCompare) {
  const auto refused = [&](const Words& more, const std::string& part) {
    const Ran r = verify(more);
    EXPECT_EQ(r.code, 2) << r.err << r.out;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
    EXPECT_EQ(r.out, "");
  };
  refused({"--world", "0"}, "1,2,4,8, got '0'");
  refused({"--world", "a"}, "1,2,4,8, got 'a'");
  refused({"--world", "2,1"}, "in ascending order");
  refused({"--world", "2"}, "expected two numbers to compare");
  refused({"--world", ""}, "--world");
  refused({"--world", "1,9"}, "got 9 devices for 8 shards");
  refused({"--world", "1,40", "--shards", "0"}, "got 40 devices for a batch of 32");
  refused({"--world", "1,2", "--shards", "33"}, "has no 33 shards");
  refused({"--world", "1,2", "--max-steps", "0"}, "--max-steps");
  refused({"--world", "1,2", "--resume", "auto"}, "--resume");
  refused({"--world", "1,2", "--model", "gbdt"}, "gbdt");
  const Ran other = run_freight({"verify", dir_ + "/data", "--world", "1,2"}, {}, {"RANK=0", "WORLD_SIZE=1"});
  EXPECT_EQ(other.code, 2) << other.err;
  EXPECT_NE(other.err.find("torchrun"), std::string::npos) << other.err;
  const Ran nothing = run_freight({"verify", dir_ + "/nothing", "--world", "1,2"});
  EXPECT_EQ(nothing.code, 3) << nothing.err;
}

TEST_F(VerifyWorld, NamesARankThatIsKilledAndLeavesNothing) {
  Running running({"verify", dir_ + "/data", "--model", "mlp", "-b", "32", "--world", "2,3", "--max-steps", "1000000"},
                  {}, {"TMPDIR=" + dir_ + "/tmp"});
  const int pid = awaited_process(running, 1);
  ASSERT_GT(pid, 0);
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  const Ran r = running.finish();
  EXPECT_EQ(r.code, 7) << r.err;
  EXPECT_NE(r.err.find("verify: rank 1 was killed by signal 9"), std::string::npos) << r.err;
  EXPECT_TRUE(fs::is_empty(dir_ + "/tmp"));
}

TEST_F(VerifyWorld, ASignalEndsItAndLeavesNothing) {
  Running running({"verify", dir_ + "/data", "--model", "mlp", "-b", "32", "--world", "2,3", "--max-steps", "1000000"},
                  {}, {"TMPDIR=" + dir_ + "/tmp"});
  ASSERT_GT(awaited_process(running, 1), 0);
  usleep(500'000);
  running.send(SIGTERM);
  const Ran r = running.finish();
  EXPECT_EQ(r.code, 143) << r.err;
  EXPECT_TRUE(fs::is_empty(dir_ + "/tmp"));
}

}  // namespace
}  // namespace freight::test
