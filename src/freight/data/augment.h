// Transforms a sample for the network: shift, crop, flip, colors, erasing, normalization and memory layout; for image
// files also reading and resizing (image_reader.h). Every random choice is a function of (seed, epoch, sample number),
// so batches are the same for any number of workers.
#pragma once
#include <cstdint>
#include <vector>

#include "freight/data/dataset.h"
#include "freight/data/image_reader.h"
#include "freight/data/pixel_ops.h"

namespace freight::data {

// The augmentation of training samples. Everything is off by default except `normalize`.
struct Augment {
  // The next two are for samples in memory.
  int shift = 0;         // shifts by up to this many pixels each way; the border becomes black
  int crop_padding = 0;  // the same as a random crop after padding: the other usual name of a shift
  // For image files: a random crop, resized, instead of the center crop.
  bool random_crop = false;
  CropRange crop = {};  // bounds of that crop

  // Alternating flip: mirrors a sample in every other epoch, at random in the first. Two epochs then show both versions
  // of all samples; independent random flips do so for half of them (Jordan 2024, arXiv:2404.00498, section 3.6).
  bool flip = false;
  // This and the next two are for u8 samples with three channels.
  ColorJitter color_jitter = {};
  int rand_augment = 0;            // operations of RandAugment; 2 is usual
  int rand_augment_magnitude = 9;  // 0 to 30
  double random_erase = 0;         // probability that a rectangle becomes the mean color (Zhong et al. 2020)
  bool normalize = true;           // (x - mean) / std per channel, with the dataset's statistics
};

// The random numbers for one sample of a dataset in memory: dst(y, x) = src(y + dy, x + dx), with src mirrored if
// `flip` is set; then rows [top, bottom) and columns [left, right) become 0, the mean color.
struct Draw {
  // The index of the sample in the dataset, and its changes in pixels.
  int32_t sample = 0, dy = 0, dx = 0, flip = 0, top = 0, bottom = 0, left = 0, right = 0;
};
inline constexpr int64_t kDrawNumbers = sizeof(Draw) / sizeof(int32_t);  // numbers in a Draw

// Converts samples of one dataset to f32 rows. Immutable after construction, so workers share it.
class Transform {
 public:
  // Buffers of one thread, reused between samples.
  struct Scratch {
    ImageReader reader;                  // of images in files
    io::Bytes file;                      // the bytes of an image file
    std::vector<uint8_t> planes, spare;  // intermediate pixels
  };

  // `set` must outlive it. Throws Error(usage) for augmentation that does not suit the samples.
  Transform(const Dataset& set, const Augment& augment, uint64_t seed, bool channels_last);
  // Writes sample `index` of `epoch` to dst, sample_shape().numel() floats, channels last if requested. Throws
  // Error(data) that names the file if an image cannot be read.
  void apply(int64_t index, int64_t epoch, float* dst, Scratch& scratch) const;

  // The random numbers of sample `index` in `epoch`.
  Draw draw(int64_t index, int64_t epoch) const;
  // A stored value x becomes x * scale + bias, per channel.
  const std::vector<float>& scale() const { return scale_; }
  const std::vector<float>& bias() const { return bias_; }  // one per channel
  // True if draw() and the scale describe a sample completely: it is not read from a file, and its colors are kept.
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
