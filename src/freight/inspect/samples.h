// What the checks of a data set compare of an image: a hash of its content, a thumbnail, and features by which a
// simple model tells classes apart. Every image is decoded once.
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
  std::vector<data::BadSample> bad;  // which cannot be read
  std::vector<bool> readable;        // by sample
  bool pictures = true;              // false: arrays that are no images have the hash alone

  int64_t count() const { return static_cast<int64_t>(content.size()); }
  const uint8_t* thumbnail(int64_t i) const { return thumbnails.data() + i * kThumbnail; }
};
// Reads all samples of a part, on all cores. `poll` is called now and then with the samples that are done; false stops
// with Error(runtime).
ImageSamples read_samples(const data::Dataset& part, const std::function<bool(int64_t done)>& poll = {});

}  // namespace freight::inspect
