// Before a run's first step: the weights that come from its data.
#pragma once
#include "freight/models/models.h"
#include "freight/train/task.h"

namespace freight::train {

// Fills the first layer where its init is whiten (nn/whitening.h) from the first 5,120 images of training, or fewer
// where these have five million windows; not augmented, so the seed and the batch size change nothing. Throws
// Error(usage) for a layer of that init which does not read images themselves.
void whiten(const models::Model& model, const Task& task);

}  // namespace freight::train
