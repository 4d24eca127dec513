// Sets the weights that are computed from the training data, before the first step.
#pragma once
#include "freight/models/models.h"
#include "freight/train/task.h"

namespace freight::train {

// Fills the first layer, if its init is whiten (nn/whitening.h), from the first 5,120 training images, or fewer if
// these have five million windows. Images are not augmented, so seed and batch size have no effect. Throws Error(usage)
// for a layer with that init which does not read the images directly.
void whiten(const models::Model& model, const Task& task);

}  // namespace freight::train
