// Metrics of a ranking: by scikit-learn's figures (ndcg_score of gains 2^relevance - 1, average_precision_score), and
// by counting all orders where predictions are equal.
#include "freight/metrics/ranking.h"

#include <gtest/gtest.h>

#include "freight/metrics/scores.h"

namespace freight::metrics {
namespace {

std::vector<RankedRow> query(const std::vector<float>& predictions, const std::vector<float>& relevances) {
  std::vector<RankedRow> rows;
  for (size_t i = 0; i < predictions.size(); ++i) rows.push_back({predictions[i], relevances[i]});
  return rows;
}

TEST(Ranking, NdcgIsThatOfScikitLearnWithEqualAnswersToo) {
  const auto clear = query({0.9f, 0.8f, 0.7f, 0.6f, 0.5f, 0.4f}, {3, 2, 0, 1, 2, 0});
  EXPECT_NEAR(query_ndcg(clear), 0.9686383655679716, 1e-12);
  EXPECT_NEAR(query_ndcg(clear, 3), 0.8556691603792903, 1e-12);
  EXPECT_NEAR(query_ndcg(clear, 100), 0.9686383655679716, 1e-12);
  const auto tied = query({0.5f, 0.5f, 0.5f, 0.1f}, {0, 1, 0, 2});
  EXPECT_NEAR(query_ndcg(tied), 0.5514674554383182, 1e-12);
  EXPECT_NEAR(query_ndcg(tied, 2), 0.14972563174920886, 1e-12);
  EXPECT_EQ(query_ndcg(query({1, 2}, {0, 0})), 1) << "as XGBoost counts it";
  EXPECT_NEAR(query_ndcg(query({2, 1}, {31, 0})), 1, 1e-12);
}

TEST(Ranking, AveragePrecisionIsTheMeanOverAllOrdersOfEqualAnswers) {
  EXPECT_NEAR(query_precision(query({0.9f, 0.8f, 0.7f, 0.6f, 0.5f, 0.4f}, {3, 2, 0, 1, 2, 0})),
              (1 + 1 + 3.0 / 4 + 4.0 / 5) / 4, 1e-12);
  EXPECT_NEAR(query_precision(query({0.9f, 0.8f, 0.7f, 0.6f, 0.5f, 0.4f}, {3, 2, 0, 1, 2, 0}), 3), 2.0 / 3, 1e-12);
  EXPECT_NEAR(query_precision(query({2, 1, 3}, {1, 0, 0})), 0.5, 1e-12);
  EXPECT_NEAR(query_precision(query({0.5f, 0.5f, 0.5f, 0.1f}, {0, 1, 0, 2})), 0.5555555555555555, 1e-12);
  EXPECT_NEAR(query_precision(query({0.5f, 0.5f, 0.5f, 0.1f}, {0, 1, 0, 2}), 2), 0.25, 1e-12);
  EXPECT_NEAR(query_precision(query({5, 5, 5, 5, 1}, {1, 1, 0, 0, 1})), 0.6537037037037037, 1e-12);
  EXPECT_NEAR(query_precision(query({5, 5, 5, 5, 1}, {1, 1, 0, 0, 1}), 3), 0.3703703703703704, 1e-12);
  EXPECT_EQ(query_precision(query({1, 2}, {0, 0})), 1);
}

TEST(Ranking, ScoresAreMeansOverQueriesAndIntervalsAreDrawnByThem) {
  Truth truth(Array::of<float>({3, 2, 0, 1, 2, 0, 0, 1, 0, 2}, {10}));
  truth.queries = Array::of<int64_t>({7, 7, 7, 7, 7, 7, 2, 2, 2, 2}, {10});
  const Array predictions = Array::of<float>({0.9f, 0.8f, 0.7f, 0.6f, 0.5f, 0.4f, 0.5f, 0.5f, 0.5f, 0.1f}, {10, 1});
  const std::vector<Score> scores = scores_of(predictions, truth, {.first = {.name = "ndcg@2"}});
  ASSERT_EQ(scores.size(), 4u);
  EXPECT_EQ(scores[0].name, "ndcg@2");
  EXPECT_EQ(scores[1].name, "ndcg");
  EXPECT_EQ(scores[2].name, "ndcg@10");
  EXPECT_EQ(scores[3].name, "map");
  EXPECT_NEAR(scores[1].value, (0.9686383655679716 + 0.5514674554383182) / 2, 1e-12);
  EXPECT_NEAR(scores[1].low, 0.5514674554383182, 1e-12) << "the worse query is drawn twice";
  EXPECT_NEAR(scores[1].high, 0.9686383655679716, 1e-12);
}

}  // namespace
}  // namespace freight::metrics
