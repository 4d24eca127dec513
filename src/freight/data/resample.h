// Resizes a part of an image, and converts gray to RGB or the reverse: the step between a decoder and code that works
// on images of one size. Knows nothing of files or models.
#pragma once
#include <cstdint>
#include <vector>

#include "freight/data/dataset.h"

namespace freight::data {

// A part of an image. Pixel i covers [i, i + 1); the borders may be within pixels.
struct Box {
  double y = 0, x = 0, rows = 0, columns = 0;  // in pixels
};

// Decides if left and right are swapped.
enum class Mirror { no, yes };

// Pixels from a decoder: u8 (rows, columns, channels), channels 1 or 3.
struct PixelView {
  const uint8_t* pixels = nullptr;              // the first row
  int64_t rows = 0, columns = 0, channels = 0;  // sizes
};

// The destination of planes (channels, rows, columns): bytes, or floats x * scale[channel] + bias[channel], which are
// written with stores that bypass the caches.
struct PlaneTarget {
  PlaneTarget(uint8_t* to) : bytes(to) {}  // as bytes
  PlaneTarget(float* to, const float* scales, const float* biases) : values(to), scale(scales), bias(biases) {}
  uint8_t* bytes = nullptr;                       // null for floats
  float* values = nullptr;                        // null for bytes
  const float *scale = nullptr, *bias = nullptr;  // per channel
};

struct RowSink;

// Bilinear resampling with antialiasing, as in PIL and torchvision (antialias=True): a triangle filter, as wide as a
// destination pixel if the image shrinks and as a source pixel if it grows. At the box's borders the filter uses the
// pixels beyond, if there are any. An object reuses its buffers between calls, so each thread has its own.
class Resampler {
 public:
  // channels: 1 or 3, for any source. RGB is converted to gray by the weights of ITU-R BT.601, only for bytes; gray is
  // converted to RGB by repetition.
  void run(const PixelView& src, const Box& box, Mirror mirror, int64_t channels, int64_t rows, int64_t columns,
           const PlaneTarget& dst);

 private:
  // The first source position of each destination position, and the weights from there on, which sum to 1.
  struct Taps {
    int64_t width = 0;           // weights per position; unused ones are 0
    std::vector<int64_t> first;  // (positions)
    std::vector<float> weights;  // (positions, width)
    std::vector<double> exact;   // (width): the weights of one position before rounding
    void make(double from, double extent, int64_t limit, int64_t positions);
    void reverse();
  };

  // Apply the taps; only `used` columns from `base` on are read, in the order of the source.
  void shrink_to(const PixelView& src, int64_t base, int64_t used, int64_t rows, int64_t columns, const RowSink& sink);
  void grow_to(const PixelView& src, int64_t base, int64_t used, int64_t rows, int64_t columns, const RowSink& sink);

  Taps down_, across_;
  std::vector<float> line_;    // (used columns of the source, C): one destination row before horizontal resampling
  std::vector<float> planar_;  // (3, columns): the same after it
                               // The next four are for images that grow: see Growing in resample.cpp.
  std::vector<int32_t> base_;
  std::vector<uint8_t> places_, planes_;
  std::vector<int16_t> share_, wide_;
  std::vector<uint8_t> color_;  // (3, rows, columns): before it becomes gray
  std::vector<uint8_t> row_;    // (columns): before it becomes floats
};

// Resizes all images of a dataset in memory, without changing mean and std. Throws Error(data) unless the samples are
// u8 (C, H, W), or have that size already.
Dataset resized(const Dataset& set, int64_t rows, int64_t columns);

}  // namespace freight::data
