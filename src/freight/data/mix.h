// Mixup (Zhang et al. 2018) and CutMix (Yun et al. 2019): every sample of a batch is mixed with its neighbour, pixels
// and labels alike, in one proportion per batch, as torchvision's batch transforms do.
#pragma once
#include <cstdint>

#include "freight/base/shape.h"

namespace freight::data {

// Settings of mixing the samples of a batch.
struct Mix {
  double mixup_alpha = 0;   // the proportion is drawn from Beta(alpha, alpha); 0: off
  double cutmix_alpha = 0;  // the same for CutMix; where both are on, each batch takes one or the other
  bool any() const { return mixup_alpha > 0 || cutmix_alpha > 0; }  // whether samples are mixed at all
};

// Mixes a batch in place. images: f32 (count, ...) with samples of the shape `sample`; labels: f32 (count, classes).
// The choice is a function of (seed, epoch, batch).
void mix_batch(const Mix& mix, uint64_t seed, int64_t epoch, int64_t batch, int64_t count, const Shape& sample,
               bool channels_last, float* images, float* labels, int64_t classes);

}  // namespace freight::data
