// Metrics of a ranking: by scikit-learn's figures (ndcg_score of gains 2^relevance - 1, average_precision_score), and
// by counting all orders where answers are equal.
#include "freight/train/ranking.h"

#include <gtest/gtest.h>

#include <cmath>

#include "freight/store/row_model.h"
#include "freight/train/config.h"
#include "freight/train/row_learner.h"
#include "freight/train/scores.h"
#include "tests/support/files.h"

namespace freight::train {
namespace {

using freight::testing::expect_error;

std::vector<RankedRow> query(const std::vector<float>& answers, const std::vector<float>& relevances) {
  std::vector<RankedRow> rows;
  for (size_t i = 0; i < answers.size(); ++i) rows.push_back({answers[i], relevances[i]});
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

store::Rows ranked_rows(const std::vector<float>& relevances, const std::vector<int64_t>& queries) {
  const auto n = static_cast<int64_t>(relevances.size());
  store::Rows rows{Array(DType::f64, {n, 1}), Array(DType::f32, {n})};
  rows.groups = Array(DType::i64, {n});
  std::copy(relevances.begin(), relevances.end(), rows.labels.data<float>());
  std::copy(queries.begin(), queries.end(), rows.groups->data<int64_t>());
  rows.ranked = true;
  return rows;
}

TEST(Ranking, ScoresAreMeansOverQueriesAndIntervalsAreDrawnByThem) {
  const store::Rows rows = ranked_rows({3, 2, 0, 1, 2, 0, 0, 1, 0, 2}, {7, 7, 7, 7, 7, 7, 2, 2, 2, 2});
  const Array answers = Array::of<float>({0.9f, 0.8f, 0.7f, 0.6f, 0.5f, 0.4f, 0.5f, 0.5f, 0.5f, 0.1f}, {10, 1});
  const std::vector<Score> scores = scores_of(answers, rows, {.first = {.name = "ndcg@2"}});
  ASSERT_EQ(scores.size(), 4u);
  EXPECT_EQ(scores[0].name, "ndcg@2");
  EXPECT_EQ(scores[1].name, "ndcg");
  EXPECT_EQ(scores[2].name, "ndcg@10");
  EXPECT_EQ(scores[3].name, "map");
  EXPECT_NEAR(scores[1].value, (0.9686383655679716 + 0.5514674554383182) / 2, 1e-12);
  EXPECT_NEAR(scores[1].low, 0.5514674554383182, 1e-12) << "the worse query is drawn twice";
  EXPECT_NEAR(scores[1].high, 0.9686383655679716, 1e-12);
  EXPECT_NEAR(evaluate(answers, rows).loss, 1 - scores[1].value, 1e-12);
  EXPECT_FALSE(evaluate(answers, rows).top1);
  Array broken = Array::of<float>(std::vector<float>(10, NAN), {10, 1});
  expect_error(ErrorKind::diverged, {"NaN or infinite"}, [&] { evaluate(broken, rows); });
}

TEST(Ranking, AMetricOfAnotherTaskIsRefusedByName) {
  Config c;
  const auto refused = [&](const std::string& metric, size_t classes, const std::vector<std::string>& parts) {
    c.metric = metric;
    expect_error(ErrorKind::usage, parts, [&] { metric_for(c, classes); });
  };
  refused("ndcg", 0, {"--metric", "ndcg is for rankings (--task ranking)", "contains values", "rmse"});
  refused("map@5", 2, {"--metric", "map@5 is for rankings", "2 classes", "auc"});
  c.task = "ranking";
  refused("rmse", 0, {"--metric", "rmse is for values", "contains relevance labels", "ndcg, ndcg@10, map"});
  refused("ndcg@0", 0, {"--metric", "ndcg@0", "at least 1", "ndcg@10"});
  refused("ndcg@ten", 0, {"--metric", "ndcg@ten", "at least 1"});
  refused("auc@3", 0, {"--metric", "auc@3", "auc is computed on all rows"});
  refused("ndgc", 0, {"--metric", "unknown value", "did you mean ndcg?"});
  c.metric = "auto";
  EXPECT_EQ(metric_for(c, 0).name, "ndcg");
  c.metric = "ndcg@5";
  EXPECT_TRUE(metric_for(c, 0).higher);
  EXPECT_NO_THROW(validate(c));
  c.metric = "ndcg@";
  expect_error(ErrorKind::usage, {"--metric", "ndcg@"}, [&] { validate(c); });
}

}  // namespace
}  // namespace freight::train
