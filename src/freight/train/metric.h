// The metric of a training run, as its configuration names it or its objective suggests.
#pragma once
#include <cstddef>

#include "freight/metrics/scores.h"

namespace freight::train {

struct Config;

// Words of --metric for networks alone, beside the metrics' names: the loss, and the metric that the program has given
// the model.
inline const char* const kByLoss = "loss";
inline const char* const kByOwnMetric = "own";

// The metric that --metric names, for `classes` classes (0: regression, or relevance labels for a ranking); "auto" is
// the objective's metric. Throws Error(usage) that names --metric if it does not suit the task.
metrics::Metric metric_for(const Config& config, size_t classes);

}  // namespace freight::train
