// The summary of each image for the checks of a data set: a hash of its content, a thumbnail, and features from which a
// simple model predicts the class. Every image is decoded once.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "freight/data/dataset.h"

namespace freight::inspect {

struct ImageSamples {
  static constexpr int64_t kSide = 16, kThumbnail = 3 * kSide * kSide;  // RGB planes (3, 16, 16)
  // Histograms of gradients (Dalal, Triggs 2005) of 8 x 8 cells in 9 directions, and the mean colors of 4 x 4 parts.
  static constexpr int64_t kFeatures = 8 * 8 * 9 + 3 * 4 * 4;

  std::vector<uint64_t> content;     // hash of the file, or of the values of an array
  std::vector<uint8_t> thumbnails;   // (N, kThumbnail)
  std::vector<float> features;       // (N, kFeatures)
  std::vector<data::BadSample> bad;  // samples that cannot be read
  std::vector<bool> readable;        // by sample
  bool pictures = true;              // false: arrays that are not images, which have only the hash

  int64_t count() const { return static_cast<int64_t>(content.size()); }
  const uint8_t* thumbnail(int64_t i) const { return thumbnails.data() + i * kThumbnail; }
};
// Reads all samples of a split on all cores. `poll` is called regularly with the number of samples that are done; if it
// returns false, reading stops with Error(runtime).
ImageSamples read_samples(const data::Dataset& part, const std::function<bool(int64_t done)>& poll = {});

}  // namespace freight::inspect
