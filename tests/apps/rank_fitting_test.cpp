// `freight train --devices` with --fit auto and --batch-size auto: what one rank lacks is changed for all, and what
// they then train is what the same flags by hand train.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "freight/base/strings.h"
#include "run_command.h"

namespace freight::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class RankFitting : public ::testing::Test {
 protected:
  // Three steps of lenet on digits, which at a batch of 1024 take each of two ranks some 20 MiB.
  Ran train(const Words& more) const {
    Words all = {"train",     "digits", "--model",         "lenet", "--max-steps", "3",           "--eval-every", "9",
                 "--devices", "2",      "--deterministic", "-o",    run(),         "--overwrite", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return run_freight(all);
  }
  std::string run() const { return dir_ + "/run"; }
  Json config() const { return Json::parse(read_file(run() + "/config.json")); }
  static double planned(const Ran& r) { return Json::parse(r.out).at("planned_bytes"); }
  static double loss(const Ran& r) { return Json::parse(r.out).at("train_loss"); }
  static std::string bytes(double n) { return cat(static_cast<int64_t>(n), "B"); }

  const std::string dir_ = scratch_dir();
};

TEST_F(RankFitting, ARunThatDoesNotFitIsRefusedOrAdaptedOnAllRanks) {
  const Ran whole = train({"-b", "1024"});
  ASSERT_EQ(whole.code, 0) << whole.err;
  std::filesystem::remove_all(run());
  const double limit = 0.85 * planned(whole);
  const Ran refused = train({"-b", "1024", "--device-memory", bytes(limit)});
  EXPECT_EQ(refused.code, 5) << refused.err;
  EXPECT_NE(refused.err.find("largest tensors"), std::string::npos) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(run()));
  const Ran adapted = train({"-b", "1024", "--device-memory", bytes(limit), "--fit", "auto"});
  ASSERT_EQ(adapted.code, 0) << adapted.err;
  EXPECT_NE(adapted.err.find("does not fit the memory as it is: continuing with --grad-accum 2"), std::string::npos)
      << adapted.err;
  EXPECT_EQ(config().at("grad_accum"), 2);
  EXPECT_LE(planned(adapted), limit);
  EXPECT_NEAR(loss(adapted), loss(whole), 1e-4);
}

// Rank 1 has three quarters of each batch. Rank 0, which prints, would fit.
TEST_F(RankFitting, WhatOneRankAloneLacksIsChangedForAll) {
  const Ran even = train({"-b", "1024"});
  ASSERT_EQ(even.code, 0) << even.err;
  const Words set = {"-b", "1024", "--device-weights", "1,3"};
  const Ran whole = train(set);
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_LT(planned(whole), planned(even));  // rank 0's
  Words limited = set;
  limited.insert(limited.end(), {"--device-memory", bytes(planned(even))});
  const Ran refused = train(limited);
  EXPECT_EQ(refused.code, 5) << refused.err;
  EXPECT_NE(refused.err.find("rank 1 ended with exit code 5"), std::string::npos) << refused.err;
  limited.insert(limited.end(), {"--fit", "auto"});
  const Ran adapted = train(limited);
  ASSERT_EQ(adapted.code, 0) << adapted.err;
  EXPECT_NE(adapted.err.find("does not fit the memory as it is: continuing with --"), std::string::npos) << adapted.err;
  EXPECT_NEAR(loss(adapted), loss(whole), 1e-4);
}

TEST_F(RankFitting, TheBatchIsChosenForAllAndTried) {
  for (const int64_t devices : {2, 3}) {
    const Words set = {"--devices", cat(devices)};
    const auto with = [&](const std::string& batch) {
      Words all = set;
      all.insert(all.end(), {"-b", batch});
      return train(all);
    };
    const Ran r = with("auto");
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.err.find(" was tried: "), std::string::npos) << r.err;
    const int64_t batch = config().at("batch_size");
    EXPECT_EQ(batch % devices, 0);
    EXPECT_GE(batch, devices);
    EXPECT_LE(batch, 20000 / 32);  // 32 steps of an epoch; measured rates may choose fewer samples
    // Nothing is left of the trials.
    const Ran again = with(cat(batch));
    EXPECT_EQ(loss(again), loss(r));
  }
}

TEST_F(RankFitting, ABatchThatIsChosenFitsTheMemory) {
  const Ran plenty = train({"-b", "auto"});
  ASSERT_EQ(plenty.code, 0) << plenty.err;
  const int64_t most = config().at("batch_size");
  const double limit = 0.75 * planned(plenty);  // a half of which is the same for any batch
  const Ran r = train({"-b", "auto", "--device-memory", bytes(limit)});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_LT(config().at("batch_size"), most);
  EXPECT_LE(planned(r), limit);
}

TEST_F(RankFitting, WhereNothingHelpsARankSaysSo) {
  const Ran r = train({"-b", "1024", "--device-memory", "100KiB", "--fit", "auto"});
  EXPECT_EQ(r.code, 5) << r.err;
  EXPECT_NE(r.err.find("no batch size"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace freight::test
