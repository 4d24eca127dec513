// Tests the times of trees against the published runs that they are made of.
#include "freight/plan/trees.h"

#include <gtest/gtest.h>

namespace freight::plan {
namespace {

constexpr double kColumns = 8, kTrees = 100, kLevels = 10;  // of the published runs

TreeWork published(double rows) { return {.rows = rows, .columns = kColumns, .trees = kTrees, .levels = kLevels}; }
// 32 cores: 40 s for 10 million rows.
TreeRate of_32_cores() {
  return {.seconds_of_cell = 40 / (1e7 * kColumns * kTrees * kLevels), .spread = {0.9, 1.1}, .from = "published"};
}
Estimate on(const char* name, double rows) {
  static const Catalog catalog = load_catalog();  // offers point into it
  return trees_on(catalog.device(name), catalog, published(rows), kTrees);
}

TEST(TreesOnDevices, TimesHoldThePublishedOnesBetweenThem) {
  const struct {
    const char* device;
    double rows, seconds;
  } runs[] = {{"Tesla V100 SXM2 16GB", 1e5, 0.7}, {"Tesla V100 SXM2 16GB", 1e6, 1.3}, {"Tesla V100 SXM2 16GB", 1e7, 5},
              {"A10G (AWS g5)", 1e7, 3.7},        {"A100 SXM4 40GB", 1e7, 3.7},       {"H100 SXM5 80GB", 1e7, 3.6}};
  for (const auto& run : runs) {
    const Estimate e = on(run.device, run.rows);
    ASSERT_TRUE(e.timed) << run.device;
    EXPECT_LE(e.run_hours.low * 3600, run.seconds) << run.device << " " << run.rows;
    EXPECT_GE(e.run_hours.high * 3600, run.seconds) << run.device << " " << run.rows;
    EXPECT_DOUBLE_EQ(e.step_seconds.high * kTrees, e.run_hours.high * 3600);
    EXPECT_TRUE(*e.fits);
  }
}

TEST(TreesOnDevices, BesideThirtyTwoCoresAGpuIsWorthItFromSome300000RowsOn) {
  const auto worth = [&](double rows) {
    const Estimate here = trees_here(published(rows), kTrees, 1e9, of_32_cores());
    EXPECT_NEAR(here.run_hours.middle() * 3600, 40 * rows / 1e7, 0.02 * 40 * rows / 1e7);
    return worth_of_gpu(published(rows), of_32_cores(), here,
                        {on("Tesla V100 SXM2 16GB", rows), on("H100 SXM5 80GB", rows)});
  };
  const GpuWorth large = worth(1e7), small = worth(1e4);
  EXPECT_GT(large.rows_here, 2e5);
  EXPECT_LT(large.rows_here, 4e5);
  EXPECT_EQ(large.outcome, GpuWorth::Outcome::pays);
  EXPECT_EQ(large.gpu, "H100 SXM5 80GB");
  EXPECT_EQ(small.outcome, GpuWorth::Outcome::loses);
  EXPECT_DOUBLE_EQ(small.rows_here, large.rows_here);
  EXPECT_EQ(worth(3e5).outcome, GpuWorth::Outcome::even);
}

TEST(TreesOnDevices, ATableThatFillsItsMemoryDoesNotFitAndOtherKindsHaveNoTimes) {
  const Estimate h100 = on("H100 SXM5 80GB", 1.5e9);
  EXPECT_EQ(h100.fits, std::optional<bool>(true)) << "16 + 28 bytes a row";
  EXPECT_EQ(on("H100 SXM5 80GB", 2e9).fits, std::optional<bool>(false));
  EXPECT_TRUE(h100.dollars && h100.watt_hours);
  EXPECT_NEAR(h100.dollars->high, h100.run_hours.high * h100.offer->usd(), 1e-9);
  for (const char* other : {"Gaudi 2", "TPU v4", "Tesla K80 (per GPU; board = 2)"}) {
    EXPECT_FALSE(on(other, 1e6).timed) << other;
  }
  const TreeWork work = published(2e9);
  const GpuWorth none =
      worth_of_gpu(work, of_32_cores(), trees_here(work, kTrees, 1e9, of_32_cores()), {on("H100 SXM5 80GB", 2e9)});
  EXPECT_TRUE(none.gpu.empty());
}

TEST(TreesOnDevices, AProcessorWhoseCellsTakeAsLongNeverNeedsAGpu) {
  TreeRate fast = of_32_cores();
  fast.seconds_of_cell /= 20;
  const TreeWork work = published(1e7);
  EXPECT_EQ(worth_of_gpu(work, fast, trees_here(work, kTrees, 1e9, fast), {}).rows_here, 0);
}

}  // namespace
}  // namespace freight::plan
