// Ranks of a run: how shards are dealt, and who is slow. Runs by several processes: tests/apps/ranks_test.cpp.
#include "freight/job/ranks.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/train/rank_shares.h"

namespace freight::train {
namespace {

TEST(Deal, GivesShardsInOrderAndAsEvenlyAsPossible) {
  const auto counts = [](int64_t shards, int world) {
    std::vector<int64_t> all;
    int64_t next = 0;
    for (int r = 0; r < world; ++r) {
      const job::ShardAssignment d{shards, r, world};
      EXPECT_EQ(d.first(), next);
      EXPECT_LE(d.count(), d.most());
      next += d.count();
      all.push_back(d.count());
    }
    EXPECT_EQ(next, shards);
    return all;
  };
  EXPECT_EQ(counts(8, 3), (std::vector<int64_t>{3, 3, 2}));
  EXPECT_EQ(counts(8, 4), (std::vector<int64_t>{2, 2, 2, 2}));
  EXPECT_EQ(counts(5, 5), (std::vector<int64_t>{1, 1, 1, 1, 1}));
  EXPECT_EQ(counts(7, 2), (std::vector<int64_t>{4, 3}));
}

TEST(Deal, KnowsWhereSumsOfRanksMeetInTheTreeOverShards) {
  EXPECT_TRUE((job::ShardAssignment{8, 0, 2}.aligned()));
  EXPECT_TRUE((job::ShardAssignment{12, 0, 3}.aligned()));  // of four each
  EXPECT_FALSE((job::ShardAssignment{6, 0, 2}.aligned()));  // (0 + 1) + (2 + 3), then 4 + 5: not three and three
  EXPECT_FALSE((job::ShardAssignment{8, 0, 3}.aligned()));
}

TEST(Deal, GivesUnlikeRanksMoreShardsOrLargerOnes) {
  const job::ShardAssignment of_shards{.shards = 8, .rank = 1, .world = 3, .counts = {5, 2, 1}};
  EXPECT_EQ(of_shards.first(), 5);
  EXPECT_EQ(of_shards.count(), 2);
  EXPECT_EQ(of_shards.most(), 5);
  EXPECT_FALSE(of_shards.aligned());
  EXPECT_TRUE((job::ShardAssignment{.shards = 8, .rank = 0, .world = 2, .counts = {4, 4}}.aligned()));

  // 100 samples as 70 and 30, each in two parts.
  for (int r = 0; r < 2; ++r) {
    const job::ShardAssignment deal{.shards = 4, .rank = r, .world = 2, .widths = {70, 30}};
    const data::Share share = deal.pieces();
    EXPECT_EQ(share.rows(share.first, 100), (std::pair<int64_t, int64_t>(r == 0 ? 0 : 70, r == 0 ? 35 : 15)));
    EXPECT_EQ(share.most_rows(100), r == 0 ? 35 : 15);
    EXPECT_EQ(deal.least_rows(100), 15);
    int64_t next = 0;
    for (int64_t i = 0; i < 4; ++i) {  // pieces of a short batch are together the batch
      EXPECT_EQ(share.rows(i, 13).first, next);
      next += share.rows(i, 13).second;
    }
    EXPECT_EQ(next, 13);
  }
}

TEST(Deal, PartsAreWholeNumbersThatAddUp) {
  EXPECT_EQ(job::dealt(128, {4, 1}, 1), (std::vector<int64_t>{102, 26}));
  EXPECT_EQ(job::dealt(8, {1, 1, 1}, 1), (std::vector<int64_t>{3, 3, 2}));
  EXPECT_EQ(job::dealt(4, {1000, 1, 1}, 1), (std::vector<int64_t>{2, 1, 1}));  // nobody goes without
  EXPECT_EQ(job::dealt(6, {5, 1, 1}, 2), (std::vector<int64_t>{2, 2, 2}));
}

TEST(DeviceWeights, AreReadOrRefused) {
  using Kind = job::DeviceWeights::Kind;
  EXPECT_EQ(job::parse_device_weights("", 2).kind, Kind::usual);
  EXPECT_EQ(job::parse_device_weights("auto", 2).kind, Kind::automatic);
  EXPECT_EQ(job::parse_device_weights("4,1.5", 2).given, (std::vector<double>{4, 1.5}));
  for (const char* bad : {"4", "4,1,1", "4,0", "4,-1", "4,x", "4,inf", "4,nan", ",", "4,1 "}) {
    EXPECT_THROW(job::parse_device_weights(bad, 2), Error) << bad;
  }
}

TEST(RankShares, AreReadyTogether) {
  // 1 and 0.4 of a core, both with 10 ms that are fixed.
  const std::vector<StepLine> lines = {{0.010, 0.001}, {0.010, 0.0025}};
  const std::vector<int64_t> units = shares_of(lines, 140, 1);
  EXPECT_EQ(units, (std::vector<int64_t>{100, 40}));
  // One whose fixed part is longer than the other takes for all: the least, no more.
  EXPECT_EQ(shares_of({{0.001, 0.001}, {1, 0.001}}, 64, 2), (std::vector<int64_t>{62, 2}));
  EXPECT_EQ(shares_of({{0, 1}, {0, 1}, {0, 1}}, 8, 1), (std::vector<int64_t>{3, 3, 2}));
}

TEST(RankShares, SayWhenOneAloneWouldBeFaster) {
  RankShares s{.devices = {"cpu", "opencl:0"}, .units = {100, 40}, .lines = {{0.010, 0.001}, {0.010, 0.0025}}};
  s.sums = 0.002;
  EXPECT_NEAR(s.together(), 0.112, 1e-12);
  EXPECT_NEAR(s.alone(0), 0.150, 1e-12);
  EXPECT_EQ(s.fastest(), 0u);
  EXPECT_EQ(s.warning(), "");
  EXPECT_EQ(s.note(),
            "a batch is shared as cpu 100 + opencl:0 40 samples: 112.0 ms a step predicted, of which 2.0 ms "
            "of all-reduce; alone cpu 150.0 ms, opencl:0 360.0 ms");
  s.sums = 0.05;
  EXPECT_NE(s.warning().find("rank 0 (cpu) alone would take 150.0 ms"), std::string::npos) << s.warning();
}

TEST(RankShares, ALineThroughCloseMeasurementsStaysSound) {
  const StepLine through = line_through({50, 0.060}, {100, 0.110});
  EXPECT_NEAR(through.fixed, 0.010, 1e-12);
  EXPECT_NEAR(through.per_unit, 0.001, 1e-12);
  // Noise would make of these a negative slope, or a negative start.
  EXPECT_NEAR(line_through({90, 0.120}, {100, 0.110}).per_unit, 0.00055, 1e-12);
  EXPECT_NEAR(line_through({90, 0.050}, {100, 0.110}).fixed, 0, 1e-12);
  EXPECT_NEAR(line_through({100, 0.100}, {100, 0.110}).per_unit, 0.0011, 1e-12);
}

TEST(RankShares, OfARunThatGoesOnAreThoseBeforeWhereTheDevicesAre) {
  RankShares s{.devices = {"cpu", "ref"}, .units = {30, 2}, .of_shards = false, .batch_size = 32};
  const std::string run = cat("{\"ranks\": ", to_json(s), "}");
  RankShares like = s;
  like.units.clear();
  ASSERT_TRUE(shares_in(run, like));
  EXPECT_EQ(shares_in(run, like)->units, s.units);
  like.batch_size = 64;
  EXPECT_FALSE(shares_in(run, like));
  like.batch_size = 32;
  like.devices = {"ref", "cpu"};
  EXPECT_FALSE(shares_in(run, like));
  like.devices = s.devices;
  for (const char* damaged :
       {"", "{", "[]", "{\"ranks\": 3}", "{\"ranks\": {\"units\": [1, -2]}}",
        R"({"ranks": {"devices": ["cpu", "ref"], "units": [0, 2], "of": "samples", "batch_size": 32}})"}) {
    EXPECT_FALSE(shares_in(damaged, like)) << damaged;
  }
}

TEST(StepRequest, OfAllRanksAreMerged) {
  const job::StepRequest both =
      job::merged({{.interrupts = 1, .lr = 0.25}, {.terminations = 2, .stop = 1, .saves = 3}});
  EXPECT_EQ(both.interrupts, 1);
  EXPECT_EQ(both.terminations, 2);
  EXPECT_EQ(both.stop, 1);
  EXPECT_EQ(both.saves, 3);
  EXPECT_EQ(both.lr, 0.25);
  EXPECT_TRUE(both.any_stop());
}

}  // namespace
}  // namespace freight::train
