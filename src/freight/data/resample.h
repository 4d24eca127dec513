// A part of an image made into one of another size, and gray made RGB or the reverse: the step between a decoder and
// everything that works on images of one size. Knows nothing of files or models.
#pragma once
#include <cstdint>
#include <vector>

#include "freight/data/dataset.h"

namespace freight::data {

// The part of an image that is looked at. Pixel i covers [i, i + 1); the borders may lie within pixels.
struct Box {
  double y = 0, x = 0, rows = 0, columns = 0;  // in pixels
};

// Decides if left and right are swapped.
enum class Mirror { no, yes };

// Pixels as decoders give them: u8 (rows, columns, channels), channels 1 or 3.
struct PixelView {
  const uint8_t* pixels = nullptr;              // the first row
  int64_t rows = 0, columns = 0, channels = 0;  // extents
};

// Where planes (channels, rows, columns) go: as bytes; or as floats x * scale[channel] + bias[channel], which are
// written past the caches.
struct PlaneTarget {
  PlaneTarget(uint8_t* to) : bytes(to) {}  // as bytes
  PlaneTarget(float* to, const float* scales, const float* biases) : values(to), scale(scales), bias(biases) {}
  uint8_t* bytes = nullptr;                       // null for floats
  float* values = nullptr;                        // null for bytes
  const float *scale = nullptr, *bias = nullptr;  // per channel
};

struct RowSink;

// Bilinear resampling with antialiasing, as PIL and torchvision (antialias=True) do it: a triangle filter, as wide as a
// destination pixel where the image shrinks and as a source pixel where it grows. At the box's borders the filter
// sees the pixels beyond, where there are any. An object keeps its buffers between calls, so each thread has its own.
class Resampler {
 public:
  // channels: 1 or 3 whatever the source has. RGB becomes gray, of bytes alone, by the weights of ITU-R BT.601; gray
  // becomes RGB by repetition. `mirror` swaps left and right.
  void run(const PixelView& src, const Box& box, Mirror mirror, int64_t channels, int64_t rows, int64_t columns,
           const PlaneTarget& dst);

 private:
  // For each destination position: where its source positions begin, and their weights, which sum to 1.
  struct Taps {
    int64_t width = 0;           // weights per position; unused ones are 0
    std::vector<int64_t> first;  // (positions)
    std::vector<float> weights;  // (positions, width)
    std::vector<double> exact;   // (width): those of one position, before rounding
    void make(double from, double extent, int64_t limit, int64_t positions);
    void reverse();
  };

  // From the taps; `used` columns from `base` on count, whatever is mirrored.
  void shrink_to(const PixelView& src, int64_t base, int64_t used, int64_t rows, int64_t columns, const RowSink& sink);
  void grow_to(const PixelView& src, int64_t base, int64_t used, int64_t rows, int64_t columns, const RowSink& sink);

  Taps down_, across_;
  std::vector<float> line_;    // (columns of the source that count, C): one destination row, not yet narrowed
  std::vector<float> planar_;  // (3, columns): the same after narrowing
                               // The next four serve images that grow: see Growing in resample.cpp.
  std::vector<int32_t> base_;
  std::vector<uint8_t> places_, planes_;
  std::vector<int16_t> share_, wide_;
  std::vector<uint8_t> color_;  // (3, rows, columns): before it becomes gray
  std::vector<uint8_t> row_;    // (columns): before it becomes floats
};

// All images of a set in memory resized; mean and std stay as they are. Throws Error(data) unless the samples are u8
// (C, H, W), or have that size already.
Dataset resized(const Dataset& set, int64_t rows, int64_t columns);

}  // namespace freight::data
