// Transforms of a sample on the way from the data set to the network: shift, crop, flip, colors, erasing, normalize,
// memory layout; of images in files also reading and resizing (image_reader.h). Every random choice is a function
// of (seed, epoch, sample number): the same batch for any number of workers.
#pragma once
#include <cstdint>
#include <vector>

#include "freight/data/dataset.h"
#include "freight/data/image_reader.h"
#include "freight/data/pixel_ops.h"

namespace freight::data {

// The random changes of training samples. All are off by default, but for `normalize`.
struct Augment {
  // The next two are for samples in memory.
  int shift = 0;         // moves by up to this many pixels each way; what comes in is black
  int crop_padding = 0;  // the same thing under its other name: pads by this much, then cuts the old size out
                         // For images in files: a random part, resized, instead of the middle.
  bool random_crop = false;
  CropRange crop = {};  // bounds of that part

  // Mirrors left and right: every other time that a sample is seen, the first time by chance. Two epochs then show both
  // sides of all samples, which chance alone does for half of them (Jordan 2024, arXiv:2404.00498, section 3.6).
  bool flip = false;
  // For u8 samples with three channels, as the next two.
  ColorJitter color_jitter = {};
  int rand_augment = 0;            // operations of RandAugment; 2 is usual
  int rand_augment_magnitude = 9;  // 0 to 30
  double random_erase = 0;         // probability that a rectangle becomes the mean color (Zhong et al. 2020)
  bool normalize = true;           // (x - mean) / std per channel, by the data set's figures
};

// All that is drawn for one sample of a set in memory. dst(y, x) = src(y + dy, x + dx), mirrored first where `flip` is
// set; then rows [top, bottom) and columns [left, right) become 0, the mean color.
struct Draw {
  // The number of the sample in the set, and the figures of its changes, in pixels.
  int32_t sample = 0, dy = 0, dx = 0, flip = 0, top = 0, bottom = 0, left = 0, right = 0;
};
inline constexpr int64_t kDrawNumbers = sizeof(Draw) / sizeof(int32_t);  // numbers in a Draw

// Turns samples of one data set into f32 rows. Immutable after construction, hence shared by workers.
class Transform {
 public:
  // Memory that one thread needs besides, kept between samples.
  struct Scratch {
    ImageReader reader;                  // of images in files
    io::Bytes file;                      // an image as it was read
    std::vector<uint8_t> planes, spare;  // pixels on the way
  };

  // `set` must outlive it. Throws Error(usage) for changes that its samples cannot take.
  Transform(const Dataset& set, const Augment& augment, uint64_t seed, bool channels_last);
  // Writes sample `index` as seen in `epoch` to dst, sample_shape().numel() floats; channels last where asked. Throws
  // Error(data) that names the file where an image cannot be read.
  void apply(int64_t index, int64_t epoch, float* dst, Scratch& scratch) const;

  // The draws of sample `index` in `epoch`.
  Draw draw(int64_t index, int64_t epoch) const;
  // A stored value x becomes x * scale + bias; one of each per channel.
  const std::vector<float>& scale() const { return scale_; }
  const std::vector<float>& bias() const { return bias_; }  // one per channel
  // True where a sample is what draw() and the scale say: neither read from a file nor recolored.
  bool drawn() const { return !set_->files && !recolors(); }

 private:
  bool mirrors(int64_t index, int64_t epoch) const;
  void draw_erased(int64_t index, int64_t epoch, Draw& draw) const;
  bool recolors() const;
  void check_colors() const;
  void read_image(int64_t index, int64_t epoch, const PlaneTarget& dst, Scratch& scratch) const;
  void recolor(int64_t index, int64_t epoch, Scratch& scratch) const;
  void erase(const Draw& draw, float* dst) const;
  void move_planes(const uint8_t* src, const Draw& move, uint8_t* dst) const;
  template <class T>
  void write(const T* src, const Draw& move, float* dst) const;

  const Dataset* set_;
  Augment augment_;
  uint64_t seed_;
  bool channels_last_;
  int64_t channels_ = 1, rows_ = 1, columns_ = 1;
  std::vector<float> scale_, bias_;  // (C)
};

}  // namespace freight::data
