// Transforms of a batch on the way from the data set to the network: shift, crop, flip, normalise, memory layout.
// Every random choice is a function of (seed, epoch, sample number): the same batch for any number of workers.
#pragma once
#include <cstdint>
#include <vector>

#include "freight/data/dataset.h"

namespace freight::data {

struct Augment {
  int shift = 0;          // moves by up to this many pixels each way; what comes in is black
  int crop_padding = 0;   // the same thing under its other name: pads by this much, then cuts the old size out
  bool flip = false;      // mirrors left and right with probability 1/2
  bool normalize = true;  // (x - mean) / std per channel, by the data set's figures
};

// Turns samples of one data set into f32 rows. Immutable after construction, hence shared by workers.
class Transform {
 public:
  Transform(const Dataset& set, const Augment& augment, uint64_t seed, bool channels_last);
  // Writes sample `index` as seen in `epoch` to dst, sample_shape().numel() floats; channels last where asked.
  void apply(int64_t index, int64_t epoch, float* dst) const;

 private:
  template <class T>
  void image(const T* src, int64_t index, int64_t epoch, float* dst) const;
  const Dataset* set_;
  Augment augment_;
  uint64_t seed_;
  bool channels_last_;
  int64_t channels_ = 1, rows_ = 1, columns_ = 1;
  std::vector<float> scale_, bias_;  // (C): a stored value x becomes x * scale + bias
};

}  // namespace freight::data
