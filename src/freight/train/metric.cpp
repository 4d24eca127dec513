// See metric.h.
#include "freight/train/metric.h"

#include "freight/base/error.h"
#include "freight/train/config.h"

namespace freight::train {

namespace {

std::string usual_metric(const Config& c, size_t classes) {
  if (classes > 0) return "log_loss";
  if (c.task == "ranking") return "ndcg";
  if (c.objective == "absoluteerror") return "mae";
  if (c.objective == "quantile") return "quantile_loss";
  if (c.objective == "tweedie") return "tweedie_deviance";
  return c.objective == "poisson" || c.model == "poisson" ? "poisson_deviance" : "rmse";
}

}  // namespace

metrics::Metric metric_for(const Config& c, size_t classes) {
  metrics::Metric metric =
      metrics::metric_named(c.metric == "auto" ? usual_metric(c, classes) : c.metric,
                            {.classes = classes, .ranking = c.task == "ranking", .labels = c.task == "multilabel"});
  if (metric.name == "quantile_loss" && c.objective != "quantile") {
    fail(ErrorKind::usage, "--metric", "quantile_loss is for --objective quantile: got ", c.objective);
  }
  metric.quantile = c.quantile;
  metric.tweedie_power = c.tweedie_power;
  return metric;
}

}  // namespace freight::train
