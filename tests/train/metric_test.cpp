// The metric of a run, by its configuration.
#include "freight/train/metric.h"

#include <gtest/gtest.h>

#include "freight/train/config.h"
#include "tests/support/files.h"

namespace freight::train {
namespace {

using freight::testing::expect_error;

TEST(MetricOfARun, FollowsFromTheObjective) {
  Config c;
  EXPECT_EQ(metric_for(c, 2).name, "log_loss");
  EXPECT_EQ(metric_for(c, 0).name, "rmse");
  c.objective = "quantile";
  c.quantile = 0.9;
  EXPECT_EQ(metric_for(c, 0).name, "quantile_loss");
  EXPECT_EQ(metric_for(c, 0).quantile, 0.9);
  c.objective = "tweedie";
  EXPECT_EQ(metric_for(c, 0).name, "tweedie_deviance");
  c.metric = "mae";
  EXPECT_FALSE(metric_for(c, 0).higher);
}

TEST(MetricOfARun, OfAnotherTaskIsRefusedByName) {
  Config c;
  const auto refused = [&](const std::string& metric, size_t classes, const std::vector<std::string>& parts) {
    c.metric = metric;
    expect_error(ErrorKind::usage, parts, [&] { metric_for(c, classes); });
  };
  refused("ndcg", 0, {"--metric", "ndcg is for rankings (--task ranking)", "contains values", "rmse"});
  refused("map@5", 2, {"--metric", "map@5 is for rankings", "2 classes", "auc"});
  refused("quantile_loss", 0, {"--metric", "quantile_loss is for --objective quantile", "auto"});
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
