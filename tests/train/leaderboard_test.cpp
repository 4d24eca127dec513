// The leaderboard as JSON in run.json, and back.
#include "freight/train/leaderboard.h"

#include <gtest/gtest.h>

namespace freight::train {
namespace {

TEST(Leaderboards, AreReadBackFromWhatRunsKeep) {
  const Leaderboard board{
      .metric = "auc",
      .higher = true,
      .folds = 5,
      .standings = {{.learner = "gbdt", .settings = "--lr 0.05", .mean = 0.93, .folds = 5, .bytes = 7},
                    {.learner = "forest", .settings = "", .mean = 0.875, .rows = 40, .whole = false}},
      .left_out = {"mlp: one class"},
      .seconds = 3.5};
  const Leaderboard read = leaderboard_in(to_json(board));
  EXPECT_EQ(to_json(read), to_json(board));
  EXPECT_EQ(read.best(), "gbdt --lr 0.05");
  EXPECT_FALSE(read.standings[1].whole);
}

TEST(Leaderboards, PartsThatAreMissingOrOfAnotherTypeStayEmpty) {
  EXPECT_EQ(leaderboard_in("{}").best(), "");
  const Leaderboard board = leaderboard_in(
      R"({"metric": 3, "folds": "five", "standings": [1, {"learner": "gbdt", "mean": "high", "rows": 1e300}], "left_out": [2]})");
  EXPECT_EQ(board.metric, "");
  EXPECT_EQ(board.folds, 0);
  ASSERT_EQ(board.standings.size(), 1u);
  EXPECT_EQ(board.best(), "gbdt");
  EXPECT_EQ(board.standings[0].mean, 0);
  EXPECT_EQ(board.standings[0].rows, 0);
  EXPECT_TRUE(board.left_out.empty());
}

}  // namespace
}  // namespace freight::train
