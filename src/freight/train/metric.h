// The metric of a training run, as its configuration names it or its objective suggests.
#pragma once
#include <cstddef>

#include "freight/metrics/scores.h"

namespace freight::train {

struct Config;

// The metric that --metric names, for so many classes (0: values, or relevances where the task is a ranking); "auto" is
// the one of the objective. Throws Error(usage) that names --metric for one that does not fit.
metrics::Metric metric_for(const Config& config, size_t classes);

}  // namespace freight::train
