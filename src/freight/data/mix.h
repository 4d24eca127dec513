// Mixup (Zhang et al. 2018) and CutMix (Yun et al. 2019): every sample of a batch is mixed with its neighbor, pixels
// and labels, in one proportion per batch, as in torchvision's batch transforms.
#pragma once
#include <cstdint>

#include "freight/base/shape.h"

namespace freight::data {

// Settings of mixing the samples of a batch.
struct Mix {
  double mixup_alpha = 0;   // the proportion is sampled from Beta(alpha, alpha); 0: off
  double cutmix_alpha = 0;  // the same for CutMix; if both are on, each batch uses one of them at random
  bool any() const { return mixup_alpha > 0 || cutmix_alpha > 0; }  // whether samples are mixed at all
};

// Consecutive samples of a batch: all of them, or one reader's piece. Images are f32 (count, ...), labels f32 (count,
// classes).
struct MixedRows {
  int64_t count = 0;           // the number of samples
  Shape sample = {};           // the shape of an image
  bool channels_last = false;  // the layout of the images
  int64_t classes = 0;         // numbers in a label
  float* images = nullptr;     // of all samples
  float* labels = nullptr;     // of all samples
  // The unmixed neighbor of the first row: the sample before it in the batch. The neighbor of the batch's first sample
  // is the last one.
  const float* image_before = nullptr;
  const float* label_before = nullptr;  // its label
};

// Mixes samples of a batch in place. The random numbers are a function of (seed, epoch, batch), so that readers that
// each mix a piece of a batch get the same rows as one that mixes all of it.
void mix_samples(const Mix& mix, uint64_t seed, int64_t epoch, int64_t batch, const MixedRows& rows);

}  // namespace freight::data
