// Mixup (Zhang et al. 2018) and CutMix (Yun et al. 2019): every sample of a batch is mixed with its neighbor, pixels
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

// Consecutive samples of a batch: all of them, or the piece of one of several readers. Images are f32 (count, ...),
// labels f32 (count, classes).
struct MixedRows {
  int64_t count = 0;           // of samples
  Shape sample = {};           // of an image
  bool channels_last = false;  // of the images
  int64_t classes = 0;         // numbers in a label
  float* images = nullptr;     // of all samples
  float* labels = nullptr;     // of all samples
  // The neighbor of the first row, unmixed: the sample before it in the batch. That of the batch's first sample is the
  // last one.
  const float* image_before = nullptr;
  const float* label_before = nullptr;  // its label
};

// Mixes samples of a batch in place. The choice is a function of (seed, epoch, batch), so that readers who each mix a
// piece of a batch get the rows of one who mixes all of it.
void mix_samples(const Mix& mix, uint64_t seed, int64_t epoch, int64_t batch, const MixedRows& rows);

}  // namespace freight::data
